# Everything works on a fresh machine: each target does its own set-up.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
IMAGE := busybox:1.36
# The compiled tests are kept, whatever the environment says: to rewrite all anew takes seconds.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest
CORES = $(shell getconf _NPROCESSORS_ONLN)
# Tests of screens, files and processes wait as well: one more at a time than there are cores.
WAITING = $(shell echo $$(($(CORES) + 1)))
# Soak starts engines of its own, which needs root.
ROOT = $(if $(filter-out 0,$(shell id -u)),sudo)
PIP := $(BIN)/pip install --quiet --disable-pip-version-check

.PHONY: help setup dev engine image run test check lint types unit slow test-pythons screens integration kubectl e2e docs bench conformance contract engines soak soak-short lock stop-engine clean

help: ## Say what there is
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

$(VENV)/.runtime: requirements.txt pyproject.toml
	@echo "Setting up $(VENV) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes -r requirements.txt
	@$(PIP) --no-deps -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.txt
	@echo "Installing what the tests need …"
	@$(PIP) --require-hashes -r requirements-dev.txt
	@touch $@

setup: $(VENV)/.runtime ## Make .venv/bin/podtui

dev: $(VENV)/.dev ## The same, with the tools for the tests

engine: ## See that a container engine answers; ask before installing one
	@$(PYTHON) scripts/engine.py ensure >/dev/null

image: setup ## Make the sample image where no registry gives it
	@$(BIN)/python scripts/sample_image.py --ensure $(IMAGE)

run: setup ## Open podtui on the samples, engine and all
	@engine=$$($(PYTHON) scripts/engine.py ensure); \
	if [ "$$engine" = auto ]; then $(BIN)/python scripts/sample_image.py --ensure $(IMAGE) || true; fi; \
	exec $(BIN)/podtui --engine "$$engine" static_pods

test: dev ## Everything that must hold: lint, types, unit, real engine, screens, tmux
	@HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-thorough} \
	scripts/with_engine.sh $(MAKE) --no-print-directory check unit slow screens integration e2e soak-short engines
	@$(MAKE) --no-print-directory test-pythons NEWEST=1

check: lint types ## Lint, format, types, import directions

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

unit: dev ## Tests that need neither engine nor screen: quick enough for each save
	$(PYTEST) tests/unit tests/contract -m "not engine" -n $(CORES) --dist worksteal

slow: dev ## Tests without engine and screen that start processes or take seconds
	$(PYTEST) tests/slow -n $(WAITING) --dist worksteal

test-pythons: dev ## The unit tests on every Python from 3.11 on that is found on this machine
	$(BIN)/python scripts/test_pythons.py $(if $(NEWEST),--newest)

screens: dev ## The terminal's app: keys, cells and pictures, without a terminal
	$(PYTEST) tests/screens -n $(WAITING) --dist worksteal

integration: dev ## Tests on the real engine
	$(PYTEST) tests/engine
	$(PYTEST) tests/contract -m engine

kubectl: dev ## Download the versions of kubectl that tests use
	@$(BIN)/python scripts/kubectl.py

e2e: kubectl ## The real program in tmux
	$(PYTEST) tests/e2e

engines: dev ## The runtime contract on rootless Docker, Podman and rootless Podman, each set up here
	@$(BIN)/python scripts/engine_matrix.py contract $(NAMES) -n $(WAITING) --dist worksteal -q -rxX

contract: dev ## Contract and golden cases on any engine: make contract ENGINE=unix:///run/podman/podman.sock
	@test -n "$(ENGINE)" || { echo "Which engine? make contract ENGINE=unix:///run/podman/podman.sock" >&2; exit 2; }
	@export DOCKER_HOST="$(ENGINE)"; failed=0; \
	$(BIN)/python scripts/sample_image.py --ensure $(IMAGE); \
	$(PYTEST) tests/contract -m engine --engine-url "$(ENGINE)" -n $(WAITING) --dist worksteal -q -rxX || failed=1; \
	$(BIN)/python -m conformance || failed=1; \
	exit $$failed

docs: dev ## Write the generated documents
	$(BIN)/python scripts/keys_docs.py
	$(BIN)/python scripts/settings_docs.py
	$(BIN)/python scripts/columns_docs.py
	$(BIN)/python scripts/explain_data.py

bench: dev ## The figures, as ratios to a floor measured in the same run
	@$(PYTHON) scripts/engine.py peer
	@$(PYTHON) scripts/peers.py
	@scripts/with_engine.sh $(BIN)/python -m benchmarks --write

conformance: dev ## Golden cases against the record of a real kubelet; WRITE=1 writes docs/golden.md
	@scripts/with_engine.sh $(BIN)/python -m conformance $(if $(WRITE),--write)

soak: dev ## Faults on a real agent and a private engine, 25 minutes; WRITE=1 writes docs/reliability.md
	@scripts/with_engine.sh $(ROOT) $(BIN)/python -m soak $(if $(WRITE),--write)

soak-short: dev ## The same in 3 minutes
	@scripts/with_engine.sh $(ROOT) $(BIN)/python -m soak --short

lock: dev ## Write the hashed requirements anew
	$(BIN)/uv export --quiet --no-emit-project --no-header --no-dev --format requirements-txt -o requirements.txt
	$(BIN)/uv export --quiet --no-emit-project --no-header --all-groups --format requirements-txt -o requirements-dev.txt

stop-engine: ## Stop the engine that one of these targets started
	@$(PYTHON) scripts/engine.py stop

clean: ## Remove what was built; containers and state stay
	rm -rf dist build .pytest_cache .ruff_cache .hypothesis .coverage
