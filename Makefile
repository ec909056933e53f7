# Each target installs what it needs, so that it works on a fresh machine.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
IMAGE := busybox:1.36
# Keep the bytecode of the tests even if the environment disables it: compiling all takes seconds.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest
# Targets of `make test` at a time: most of them wait as long as they work.
LANES = 3
CORES = $(shell getconf _NPROCESSORS_ONLN)
# Tests of screens, files and processes also wait: run one more worker than there are cores.
WAITING = $(shell echo $$(($(CORES) + 1)))
# A screen test waits half of its time, until the app is idle after each key.
SCREENS = $(shell echo $$(($(CORES) * 2)))
# The soak tests start their own engines, which requires root.
ROOT = $(if $(filter-out 0,$(shell id -u)),sudo)
PIP := $(BIN)/pip install --quiet --disable-pip-version-check

.PHONY: help setup dev engine image run test check lint types unit slow test-pythons screens integration kubectl e2e docs bench corpus conformance contract cluster-test engines soak soak-short lock stop-engine clean

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

$(VENV)/.runtime: requirements.txt pyproject.toml
	@echo "Setting up $(VENV) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes -r requirements.txt
	@$(PIP) --no-deps -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.txt
	@echo "Installing the test dependencies …"
	@$(PIP) --require-hashes -r requirements-dev.txt
	@touch $@

setup: $(VENV)/.runtime ## Create .venv/bin/podtui

dev: $(VENV)/.dev ## Create .venv with the development dependencies

engine: ## Start or install a container engine; asks before it installs one
	@$(PYTHON) scripts/engine.py ensure >/dev/null

image: setup ## Build the sample image if no registry provides it
	@$(BIN)/python scripts/sample_image.py --ensure $(IMAGE)

run: setup ## Open podtui on the sample pods; sets up the engine
	@engine=$$($(PYTHON) scripts/engine.py ensure); \
	if [ "$$engine" = auto ]; then $(BIN)/python scripts/sample_image.py --ensure $(IMAGE) || true; fi; \
	exec $(BIN)/podtui --engine "$$engine" static_pods

test: dev ## Run all checks and tests: lint, types, unit, real engine, screens, tmux
	@HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-thorough} \
	scripts/with_engine.sh $(MAKE) --no-print-directory -j$(LANES) --output-sync=target NEWEST=1 \
		check e2e unit slow screens integration soak-short engines test-pythons

check: lint types ## Check lint, format, types, import contracts and generated files

lint: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/generate_api.py --check
	$(BIN)/python scripts/keys_docs.py --check
	$(BIN)/python scripts/settings_docs.py --check
	$(BIN)/python scripts/columns_docs.py --check
	$(BIN)/python scripts/explain_data.py --check
	$(BIN)/lint-imports

types: dev
	$(BIN)/pyright

unit: dev ## Run the quick tests, without engine and screen
	$(PYTEST) tests/unit tests/contract -m "not engine" -n $(WAITING) --dist worksteal

slow: dev ## Run the slow tests without engine and screen: processes, long waits
	$(PYTEST) tests/slow -n $(WAITING) --dist worksteal

test-pythons: dev ## Run the unit tests on every installed Python from 3.11 on
	$(BIN)/python scripts/test_pythons.py $(if $(NEWEST),--newest)

screens: dev ## Run the screen tests: keys, cells and pictures
	$(PYTEST) tests/screens -n $(SCREENS) --dist load --maxschedchunk 1

integration: dev ## Run the tests on the real engine
	$(PYTEST) tests/engine -n $(WAITING) --dist loadfile
	$(PYTEST) tests/contract -m engine -n $(WAITING) --dist worksteal

kubectl: dev ## Download the versions of kubectl that tests use
	@$(BIN)/python scripts/kubectl.py

e2e: dev ## Run the tests of the whole program in tmux
	@$(BIN)/python scripts/kubectl.py
	$(PYTEST) tests/e2e -n $(WAITING) --dist loadfile

cluster-test: kubectl ## Run the tests of a node on a real control plane: make cluster-test KUBE_APISERVER=PATH ETCD=PATH
	@if test -z "$(KUBE_APISERVER)" -o -z "$(ETCD)"; then \
		echo "SKIPPED: no test ran. KUBE_APISERVER and ETCD must name binaries; KUBE_CONTROLLER_MANAGER and KUBE_SCHEDULER may." >&2; \
	else \
		KUBE_APISERVER="$(KUBE_APISERVER)" ETCD="$(ETCD)" KUBE_CONTROLLER_MANAGER="$(KUBE_CONTROLLER_MANAGER)" KUBE_SCHEDULER="$(KUBE_SCHEDULER)" \
		scripts/with_engine.sh $(PYTEST) tests/e2e/test_cluster_node.py -v; \
	fi

engines: dev ## Run the contract and the tests of Services on rootless Docker, Podman and rootless Podman
	@$(BIN)/python scripts/engine_matrix.py contract $(NAMES) -n $(WAITING) --dist loadfile -q -rxX

contract: dev ## Run the contract and the golden cases on any engine: make contract ENGINE=unix:///run/podman/podman.sock
	@test -n "$(ENGINE)" || { echo "ENGINE is required: make contract ENGINE=unix:///run/podman/podman.sock" >&2; exit 2; }
	@export DOCKER_HOST="$(ENGINE)"; failed=0; \
	$(BIN)/python scripts/sample_image.py --ensure $(IMAGE); \
	$(PYTEST) tests/contract --ignore=tests/contract/test_client_sessions.py -m engine --engine-url "$(ENGINE)" -n $(WAITING) --dist worksteal -q -rxX || failed=1; \
	$(BIN)/python -m conformance || failed=1; \
	exit $$failed

docs: dev ## Write the generated documents
	$(BIN)/python scripts/keys_docs.py
	$(BIN)/python scripts/settings_docs.py
	$(BIN)/python scripts/columns_docs.py
	$(BIN)/python scripts/explain_data.py

bench: dev ## Run the benchmarks and write docs/performance.md
	@$(PYTHON) scripts/engine.py peer
	@$(PYTHON) scripts/peers.py
	@scripts/with_engine.sh $(BIN)/python -m benchmarks --write

corpus: kubectl ## Run the apps below a folder or in an archive, and write docs/corpus.md: make corpus FROM=PATH
	@test -n "$(FROM)" || { echo "FROM is required: make corpus FROM=PATH" >&2; exit 2; }
	@$(BIN)/python -m corpus "$(FROM)" --write

conformance: dev ## Compare the golden cases with recordings of a real kubelet; WRITE=1 writes docs/golden.md
	@scripts/with_engine.sh $(BIN)/python -m conformance $(if $(WRITE),--write)

soak: dev ## Inject faults into an agent on a private engine, 44 minutes on two cores; WRITE=1 writes docs/reliability.md
	@scripts/with_engine.sh $(ROOT) $(BIN)/python -m soak $(if $(WRITE),--write)

soak-short: dev ## Run the soak test for 3 minutes
	@scripts/with_engine.sh $(ROOT) $(BIN)/python -m soak --short

lock: dev ## Update the hashed requirements
	$(BIN)/uv export --quiet --no-emit-project --no-header --no-dev --format requirements-txt -o requirements.txt
	$(BIN)/uv export --quiet --no-emit-project --no-header --all-groups --format requirements-txt -o requirements-dev.txt

stop-engine: ## Stop the engine that a target has started
	@$(PYTHON) scripts/engine.py stop

clean: ## Remove build results and caches
	rm -rf dist build .pytest_cache .ruff_cache .hypothesis .coverage
