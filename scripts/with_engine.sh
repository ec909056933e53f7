#!/usr/bin/env bash
# Run a command with an engine, the sample image, kubectl, tmux and the shells that tests use; stop
# the engine if it was started here, and only then.
set -eu
cd "$(dirname "$0")/.."
had_engine=no
# Ignore the PID file of an engine that no longer runs.
if pid=$(cat .cache/dockerd.pid 2>/dev/null) && [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; then
  had_engine=yes
fi
cleanup() {
  if [ "$had_engine" = no ]; then python3 scripts/engine.py stop; fi
}
trap cleanup EXIT
engine=$(python3 scripts/engine.py ensure)
if [ "$engine" = auto ]; then
  .venv/bin/python scripts/sample_image.py --ensure busybox:1.36
else
  echo "The tests need a container engine: $0 cannot continue without one." >&2
  exit 1
fi
.venv/bin/python scripts/kubectl.py
missing=()
for tool in tmux zsh fish man; do
  command -v "$tool" >/dev/null || missing+=("$tool")
done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]/#man/man-db}" >/dev/null
  else
    echo "The tests need ${missing[*]}: install them." >&2
    exit 1
  fi
fi
"$@"
