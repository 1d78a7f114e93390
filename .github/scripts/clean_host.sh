#!/usr/bin/env bash
# Leave a GPU host as it was found: no process of this user on a GPU, no file of this run.
set -euo pipefail
if command -v nvidia-smi > /dev/null; then
  nvidia-smi --query-compute-apps=pid --format=csv,noheader | while read -r pid; do
    if [ "$(stat -c %u "/proc/$pid" 2> /dev/null)" = "$(id -u)" ]; then
      kill "$pid" || true
    fi
  done
fi
rm -rf "${RUNNER_TEMP:?}"/forktool.* dist results .nox
