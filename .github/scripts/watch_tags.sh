#!/usr/bin/env bash
# Write `tag` to the outputs: ASKED, else the newest upstream release where it is newer than the base, else nothing.
set -euo pipefail
if [ -n "${ASKED:-}" ]; then
  echo "tag=$ASKED" >> "$GITHUB_OUTPUT"
  exit 0
fi
answer=$(mktemp)
code=0
nox --non-interactive -s watch -- --json > "$answer" || code=$?
if [ "$code" -gt 1 ]; then
  exit "$code"
fi
python - "$answer" << 'PY' >> "$GITHUB_OUTPUT"
import json
import sys

document = json.load(open(sys.argv[1], encoding="utf-8"))
print(f"tag={document['newest'] if document['tags'] else ''}")
PY
