#!/usr/bin/env bash
# Write `matrix` to the outputs: the cells that CELLS selects, as a strategy.matrix.
set -euo pipefail
words=()
if [ -n "${CELLS:-}" ]; then
  words=(-k "$CELLS")
fi
answer=$(mktemp)
nox --non-interactive -s matrix -- list --github "${words[@]}" > "$answer"
# The last line: nox may say something before it.
echo "matrix=$(tail -n 1 "$answer")" >> "$GITHUB_OUTPUT"
