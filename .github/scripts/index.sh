#!/usr/bin/env bash
# The package index over every wheel that was released, in the folder named.
set -euo pipefail
site=$1
mkdir -p "$site"
gh release list --limit 200 --json tagName --jq '.[].tagName | select(startswith("wheel-"))' | while read -r tag; do
  gh release download "$tag" --pattern '*.whl' --dir "$site"
done
nox --non-interactive -s wheel -- index "$site"
