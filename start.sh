#!/usr/bin/env bash
# Serves an arm of a recipe in the foreground: ./start.sh RECIPE [--arm NAME] [--port N] [--dry-run] [--python PATH]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ -e $root/.venv/.harness ]] || "$root/tools/setup.sh" harness
exec "$root/.venv/bin/python" -m specdeck serve "$@"
