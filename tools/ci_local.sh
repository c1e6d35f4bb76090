#!/usr/bin/env bash
# `make ci-local`: the steps of .github/workflows/regression.yml on this machine with the CPU pair. An A/A passes; a
# drafter with scrambled codebooks, a shorter draft and a slowed server are caught by the gate that is meant to.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=.cache/ci-local
plan=ci-local
recipe=tiny-next-cpu
rm -rf "$work"
mkdir -p "$work"
py=.venv/bin/python
say() { printf '\nci-local: %s\n' "$*"; }

# Writes a recipe like the tiny pair's with what stands on stdin changed, and prints its path.
variant() {
  { printf 'extends: tiny-next-cpu\nname: %s\ntitle: tiny-next-cpu with %s\n' "$1" "$2"; cat; } > "$work/$1.yml"
  echo "$work/$1.yml"
}

# expect NAME EXIT-CODE GATE RECIPE: runs the check, prints what it says, and holds it to the verdict and the gate.
failures=0
expect() {
  local name=$1 wanted=$2 gate=$3 candidate=$4 options=() code=0 headline
  [[ $candidate == "$recipe" ]] || options=(--allow-fingerprint-mismatch)
  say "$name"
  tools/regression.sh measure "$candidate" "$plan" "$work/baseline.json" default "$work/$name" "${options[@]}" \
    > "$work/$name.log" 2>&1 || { tail -n 20 "$work/$name.log"; exit 2; }
  tools/regression.sh gate "$work/$name" || code=$?
  headline=$(tools/regression.sh summary "$work/$name" | grep -m 1 '^\*\*' || true)
  echo "  $headline"
  if [[ $code != "$wanted" ]]; then
    echo "  ci-local: WRONG: exit code $code, not $wanted (see $work/$name.log)"
    failures=$((failures + 1))
  elif [[ -n $gate ]] && ! grep -q "<testcase[^>]*name=\"$gate\"" <(grep -A 1 '<testcase' "$work/$name/comparison/junit.xml" \
      | grep -B 1 '<failure' || true); then
    echo "  ci-local: WRONG: the gate $gate did not fail (see $work/$name/comparison)"
    failures=$((failures + 1))
  else
    echo "  ci-local: as it should be${gate:+: caught by $gate}"
  fi
}

say "measuring the baseline and its repetition"
for part in base repetition; do
  "$py" -m specdeck bench "$recipe" --plan "$plan" --fresh --results "$work/$part" > "$work/$part.log" 2>&1 \
    || { tail -n 20 "$work/$part.log"; exit 2; }
done
"$py" -m specdeck baseline set "$work"/base/*/ --aa "$work"/repetition/*/ --output "$work/baseline.json"

"$py" tools/scramble_codebooks.py models/tiny-next/drafter "$work/drafter"
expect aa 0 "" "$recipe"
expect scrambled 1 acceptance-length "$(variant scrambled 'scrambled codebooks' <<< "drafter: {path: $work/drafter, license: apache-2.0}")"
expect shorter 1 acceptance-length "$(variant shorter 'a shorter draft' <<< 'arms: {dflash2: {num_speculative_tokens: 3}}')"
# The CPU engine's short paths compute the same as the interpreter that stands behind them, only faster.
expect slowed 1 time-per-output-token "$(variant slowed 'a slowed server' <<< 'serve: {env: {SPECDECK_TRITON_SHORT_PATHS: "0"}}')"
((failures == 0)) || { say "$failures of the checks went wrong"; exit 1; }
say "all checks went as they should"
