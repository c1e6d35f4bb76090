#!/usr/bin/env bash
# Everything `make lint` checks. Each step says what it is; the first failure ends the run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
step() { echo "lint: $1"; shift; "$@"; }
mapfile -d '' shells < <(git ls-files -z '*.sh' .ci/run)
mapfile -d '' yamls < <(git ls-files -z '*.yml' '*.yaml')
bin=.venv/bin
step "ruff check" "$bin/ruff" check --quiet .
step "ruff format" "$bin/ruff" format --quiet --check .
step "mypy --strict" "$bin/mypy"
step "shellcheck" "$bin/shellcheck" -x "${shells[@]}"
step "yamllint" "$bin/yamllint" --strict "${yamls[@]}"
step "hadolint" "$bin/hadolint" docker/Dockerfile*
step "zizmor" "$bin/zizmor" --quiet --offline .github/workflows
step "actionlint" "$bin/actionlint" -shellcheck "$PWD/$bin/shellcheck"
step "generated files are current" "$bin/python" -m specdeck schema --check
step "docs/traps.md is current" "$bin/python" -m specdeck rules docs --check
step "generated tables are current" "$bin/python" -m specdeck tables --check
