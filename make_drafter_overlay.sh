#!/usr/bin/env bash
# Builds the drafter's overlay: ./make_drafter_overlay.sh [--recipe NAME | --drafter DIR] [--positions N]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ -e $root/.venv/.harness ]] || "$root/tools/setup.sh" harness
exec "$root/.venv/bin/python" -m specdeck overlay --only drafter "$@"
