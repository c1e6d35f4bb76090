#!/usr/bin/env bash
# One regression check, the same in .github/workflows/regression.yml and in `make ci-local`:
#   regression.sh measure RECIPE PLAN BASELINE GATES OUT [specdeck compare options]
#       measures, compares, and measures failing arms again as often as the gate file says (`confirm`, 1 by default);
#       OUT/exit-code holds the verdict. Succeeds whenever there is one: uploading and commenting come before failing.
#   regression.sh summary OUT   prints the comparison as Markdown, or says that there is none
#   regression.sh gate OUT      exits with the verdict: 0 gates pass, 1 one fails, 2 not measurable
set -euo pipefail
usage() { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
specdeck() { "$(dirname "${BASH_SOURCE[0]}")/../.venv/bin/python" -m specdeck "$@"; }

# Measures into a folder of its own, only some arms where they are named, and prints the run's path.
measured() {
  local into=$1
  shift
  specdeck bench "$recipe" --plan "$plan" --fresh --results "$into" "${@/#/--arm=}" >&2 \
    || echo "specdeck bench ended with $?" >&2
  local runs=("$into"/*/run.json)
  [[ -f ${runs[0]} ]] || return 1
  dirname "${runs[0]}"
}

# The arms that failed and are to be measured again, one a line.
unconfirmed() {
  "$(dirname "${BASH_SOURCE[0]}")/../.venv/bin/python" -c \
    'import json, sys; print(*json.load(open(sys.argv[1]))["measure_again"], sep="\n", end="")' \
    "$1/comparison/comparison.json"
}

measure() {
  (($# >= 5)) || usage
  local recipe=$1 plan=$2 baseline=$3 gates=$4 out=$5
  shift 5
  mkdir -p "$out"
  echo 2 > "$out/exit-code"
  basename "$gates" .yml > "$out/gates"
  local run again code=0 confirm=() arms
  if ! run=$(measured "$out/first"); then
    echo "nothing was measured" >&2
    return
  fi
  judge() {
    code=0
    specdeck compare "$baseline" "$run" --gates "$gates" --write "$out/comparison" "${confirm[@]}" "$@" || code=$?
  }
  judge "$@"
  while ((code == 1)) && mapfile -t arms < <(unconfirmed "$out") && ((${#arms[@]})); do
    echo "a gate fails: measuring ${arms[*]} again" >&2
    again=$(measured "$out/again-$((${#confirm[@]} + 1))" "${arms[@]}") || break
    confirm+=("--confirm=$again")
    judge "$@"
  done
  echo "$code" > "$out/exit-code"
}

case ${1:-} in
  measure) shift; measure "$@" ;;
  summary)
    (($# == 2)) || usage
    if [[ -f $2/comparison/comparison.md ]]; then
      cat "$2/comparison/comparison.md"
    else
      gates=none
      [[ ! -f $2/gates ]] || gates=$(< "$2/gates")
      printf '<!-- specdeck comparison: %s -->\n### specdeck\n\n**UNMEASURABLE: there is no comparison.** %s\n' \
        "$gates" "The log of the step that measures says why."
    fi
    ;;
  gate)
    (($# == 2)) || usage
    code=2
    [[ ! -f $2/exit-code ]] || code=$(< "$2/exit-code")
    [[ $code == [012] ]] || code=2
    exit "$code"
    ;;
  *) usage ;;
esac
