#!/usr/bin/env bash
# Carry the series to TAG; put patchset/ and report.md, the body of the pull request, into the folder named.
set -euo pipefail
out=$1
mkdir -p "$out"
log=$(mktemp)
code=0
nox --non-interactive -s rebase -- "$TAG" > "$log.out" 2> "$log.err" || code=$?
cat "$log.out" "$log.err"
if [ "$code" -ne 0 ] && [ "$code" -ne 3 ]; then
  exit "$code"
fi
stopped=false
if [ "$code" -eq 3 ]; then
  stopped=true
fi
echo "stopped=$stopped" >> "$GITHUB_OUTPUT"
{
  echo "The series on \`$TAG\`."
  echo
  echo '```'
  cat "$log.out"
  echo '```'
  if [ "$stopped" = true ]; then
    echo
    echo "It stopped. To settle it: \`nox -s rebase -- $TAG\`, then \`nox -s rebase -- --continue\`."
    echo
    echo '```'
    grep -v '^nox > ' "$log.err" || true
    echo '```'
  else
    echo
    echo '<details><summary>range-diff</summary>'
    echo
    echo '```diff'
    nox --non-interactive -s diff 2> /dev/null
    echo '```'
    echo '</details>'
  fi
} > "$out/report.md"
cat "$out/report.md" >> "$GITHUB_STEP_SUMMARY"
cp -R patchset "$out/patchset"
find "$out" -name __pycache__ -type d -prune -exec rm -r {} +
