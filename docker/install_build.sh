#!/bin/sh
# Runs inside the build of docker/Dockerfile.source: what applies the patches and builds the wheel, into /opt/build.
# BUILD_REQUIREMENTS: a requirements file of the source.
set -eu
python3 -m venv /opt/build
from=
if ls /wheels/*.whl > /dev/null 2>&1; then from='--no-index --find-links /wheels'; fi
grep -E '^(pydantic|pydantic-core|annotated-types|typing-extensions|typing-inspection|pyyaml|packaging|setuptools)==' \
  /src/engines/cpu/requirements.lock | sed 's/ .*//' > /tmp/tools.txt
# shellcheck disable=SC2086 # several words on purpose
pip --disable-pip-version-check --no-input install --quiet --no-deps $from -r /tmp/tools.txt
if [ -n "${BUILD_REQUIREMENTS:-}" ]; then
  pip --disable-pip-version-check --no-input install --quiet -r "/source/$BUILD_REQUIREMENTS"
fi
