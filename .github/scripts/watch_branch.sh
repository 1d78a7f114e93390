#!/usr/bin/env bash
# Judge the series on upstream's branch; red where a patch would stop there. A newer tag alone is rebase.yml's business.
set -euo pipefail
answer=$(mktemp)
code=0
nox --non-interactive -s watch -- --main --json > "$answer" || code=$?
if [ "$code" -gt 1 ]; then
  exit "$code"
fi
python - "$answer" << 'PY'
import json
import os
import sys

branch = json.load(open(sys.argv[1], encoding="utf-8"))["branch"]
lines = [f"`{branch['name']}` at `{branch['commit'][:12]}`", "", "| patch | verdict | since |", "|---|---|---|"]
stops = []
for patch in branch["patches"]:
    since = patch["since"]
    shown = f"`{since['commit'][:12]}` {since['subject']}" if since else ""
    lines.append(f"| {patch['name']} | {patch['verdict']} | {shown.replace('|', chr(92) + '|')} |")
    if patch["verdict"] in ("conflict", "suspect"):
        stops.append(f"{patch['name']} is {patch['verdict']} since {shown or 'unknown'}")
with open(os.environ["GITHUB_STEP_SUMMARY"], "a", encoding="utf-8") as summary:
    summary.write("\n".join(lines) + "\n")
for stop in stops:
    # docs.github.com, "Workflow commands": these three are escaped in a message.
    text = stop.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    print(f"::error title=upstream breaks a patch::{text}")
sys.exit(bool(stops))
PY
