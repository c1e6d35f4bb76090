#!/usr/bin/env bash
# Sets up the harness environment (.venv): `setup.sh host|harness|dev [python]`. Safe to repeat; a broken one is rebuilt.
# `host` downloads nothing: it says whether this machine can run the managed CPU engine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
part=${1:?usage: setup.sh host|harness|dev [python]}
python=${2:-python3}

die() { printf 'error: %s\n  Fix: %s\n' "$1" "$2" >&2; exit 2; }

install_locked() {
  echo "setup: installing $1"
  .venv/bin/python -m pip install --quiet --require-hashes --no-deps -r "$1" 2> .venv/pip.log || {
    tail -n 15 .venv/pip.log >&2
    die "pip could not install $1 into .venv" "check the network and free disk space, then run the same command again"
  }
}

command -v "$python" > /dev/null || die "$python was not found" "install Python 3.11 or newer, or run: make PYTHON=/path/to/python3.11 …"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
  || die "$python is $("$python" -V 2>&1), specdeck needs 3.11 or newer" "make PYTHON=/path/to/python3.11 …"
case $part in
  host)
    PYTHONPATH=src "$python" -m specdeck.engine.host
    ;;
  harness)
    if ! .venv/bin/python -c 'import pip' 2> /dev/null; then
      echo "setup: creating .venv with $("$python" -V 2>&1)"
      rm -rf .venv
      "$python" -m venv .venv 2> /dev/null || die "$python cannot create a virtual environment" \
        "install its venv module (Debian and Ubuntu: apt-get install python3-venv), then run the same command again"
    fi
    install_locked requirements.lock
    .venv/bin/python -m pip install --quiet --no-deps --no-build-isolation -e . 2> .venv/pip.log || {
      tail -n 15 .venv/pip.log >&2
      die "specdeck itself could not be installed into .venv" "rm -rf .venv, then run the same command again"
    }
    touch .venv/.harness
    ;;
  dev)
    install_locked requirements-dev.lock
    touch .venv/.dev
    ;;
  *) die "unknown part: $part" "tools/setup.sh harness" ;;
esac
