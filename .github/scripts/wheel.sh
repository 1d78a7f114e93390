#!/usr/bin/env bash
# Make the wheel of the series in the folder named, verify it, and write `version` to the outputs.
set -euo pipefail
out=$1
words=()
if [ -n "${TAG:-}" ]; then
  words=("$TAG")
fi
nox --non-interactive -s wheel -- "${words[@]}" --output "$out"
for wheel in "$out"/*.whl; do
  nox --non-interactive -s wheel -- verify "$wheel" | tee -a "$GITHUB_STEP_SUMMARY"
  name=$(basename "$wheel")
  version=${name#*-}
  echo "version=${version%%-*}" >> "$GITHUB_OUTPUT"
done
