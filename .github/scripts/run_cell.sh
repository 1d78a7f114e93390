#!/usr/bin/env bash
# Run the cell CELL on the one wheel in the first folder named; its results and logs go to the second. Write `name`,
# for the artifact, to the outputs.
set -euo pipefail
wheel=$(find "$1" -name '*.whl')
out=$2
mkdir -p "$out"
# Without what an artifact's name must not hold.
echo "name=${CELL//[^A-Za-z0-9._-]/_}" >> "$GITHUB_OUTPUT"
FORKTOOL_HOME=$(mktemp -d "${RUNNER_TEMP:-/tmp}/forktool.XXXXXX")
export FORKTOOL_HOME
code=0
nox --non-interactive -s matrix -- run -k "=$CELL" --wheel "$wheel" || code=$?
nox --non-interactive -s matrix -- report --markdown "$out/report.md" > /dev/null || true
if [ -f "$out/report.md" ]; then
  cat "$out/report.md" >> "$GITHUB_STEP_SUMMARY"
fi
if [ -d "$FORKTOOL_HOME/matrix" ]; then
  cp -R "$FORKTOOL_HOME/matrix/." "$out/"
fi
if [ "$code" -ne 0 ]; then
  echo "::error title=$CELL::forktool matrix run ended with $code; see the summary and the artifact"
fi
exit "$code"
