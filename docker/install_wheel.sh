#!/bin/sh
# Runs inside the build of docker/Dockerfile.source: installs the wheel that was built, and what it asks for.
set -eu
python3 -m venv /opt/venv
from=
if ls /wheels/*.whl > /dev/null 2>&1; then from='--no-index --find-links /wheels'; fi
# shellcheck disable=SC2086 # several words on purpose
pip --disable-pip-version-check --no-input install --quiet $from /wheel/*.whl
