#!/bin/sh
# Runs inside the build of docker/Dockerfile: installs the lock files of engines/cpu into /opt/venv.
# Wheels come from /wheels where there are any, and from the package index otherwise; hashes are checked in both cases.
set -eu
fail() { printf 'error: %s\n  Fix: %s\n' "$1" "$2" >&2; exit 1; }
command -v python3 > /dev/null || fail "the base image has no python3" "take one with Python 3.11, such as python:3.11-slim-bookworm"
[ -x /opt/venv/bin/python3 ] || python3 -m venv /opt/venv || fail "python3 cannot create a virtual environment" \
  "take a base with the venv module (Debian: python3-venv)"
pip() { /opt/venv/bin/python3 -m pip --disable-pip-version-check --no-input "$@"; }
from=
if ls /wheels/*.whl > /dev/null 2>&1; then from='--no-index --find-links /wheels'; fi
# shellcheck disable=SC2086 # several words on purpose
{
  pip install --quiet $from --no-compile --require-hashes --no-deps -r /src/engines/cpu/torch-cpu.lock \
    || pip install --quiet $from --no-compile --require-hashes --no-deps -r /src/engines/cpu/torch-any.lock
  pip install --quiet $from --no-compile --require-hashes --no-deps -r /src/engines/cpu/requirements.lock
}
# Copied, as the build writes beside the source, which is mounted read-only.
cp -r /src/engines/cpu /tmp/engine
pip install --quiet --no-compile --no-deps --no-build-isolation /tmp/engine
rm -r /tmp/engine
# vLLM's kernels need it; a failed import is only a warning there, and a server then dies at its first operator.
if ! ldconfig -p | grep -q 'libnuma\.so\.1'; then
  { apt-get -qq update && apt-get -qq install --yes --no-install-recommends libnuma1; } > /tmp/apt.log 2>&1 \
    || { tail -n 5 /tmp/apt.log >&2; fail "libnuma could not be installed" "take a base that has it (Debian: libnuma1), or build with a network"; }
  rm -rf /var/lib/apt/lists/* /tmp/apt.log
fi
/opt/venv/bin/python3 -c 'import torch, vllm._C' || fail "vLLM's kernels cannot be loaded" "see the line above; the base may lack a library"
# Nobody can write bytecode later: the server does not run as root.
/opt/venv/bin/python3 -m compileall -q -j 0 /opt/venv/lib > /dev/null || true
