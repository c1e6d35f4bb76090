#!/usr/bin/env bash
# Resolves pyproject.toml into the two hashed lock files of the harness. Needs uv on PATH.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
compile() {
  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-header --no-annotate "$@"
}
head_of() { sed -i "1i # $2: pinned and hashed. Regenerate with \`make lock\`." "$1"; }
compile pyproject.toml --group build -o requirements.lock
head_of requirements.lock "Harness environment"
compile --group dev -c requirements.lock -o requirements-dev.lock
head_of requirements-dev.lock "Lint and test tools"
