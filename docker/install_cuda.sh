#!/bin/sh
# Runs inside the build of docker/Dockerfile: vLLM's CUDA build, and FlashInfer's top-k, which the DFlash2 selector
# needs to be fast. Fails where the selector would fall back to torch.topk, at about half the speed.
# VLLM_VERSION: install this release into /opt/venv; empty: the base's own vLLM. CUDA_ARCHS: such as "8.6 9.0a".
set -eu
fail() { printf 'error: %s\n  Fix: %s\n' "$1" "$2" >&2; exit 1; }
[ -z "${CPATH:-}" ] || fail "the base sets CPATH, which makes FlashInfer compile against headers of another CUDA" \
  "take another base, or unset it there"
has_vllm() { python3 -c 'import importlib.util as u, sys; sys.exit(u.find_spec("vllm") is None)'; }
if ! has_vllm; then
  [ -n "${VLLM_VERSION:-}" ] || fail "the base has no vLLM" "name the release to install: specdeck image build --vllm 0.33.0"
  python3 -m venv /opt/venv || fail "python3 cannot create a virtual environment" "take a base with Python and its venv module"
  from=
  if ls /wheels/*.whl > /dev/null 2>&1; then from='--find-links /wheels'; fi
  # shellcheck disable=SC2086 # several words on purpose
  python3 -m pip --disable-pip-version-check --no-input install --quiet $from "vllm==$VLLM_VERSION"
fi
python3 /src/docker/link_curand.py
python3 /src/docker/check_topk.py
