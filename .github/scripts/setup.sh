#!/usr/bin/env bash
# Install nox and uv, at the versions that requirements.txt here pins.
set -euo pipefail
python -m pip install --quiet --requirement "$(dirname "$0")/requirements.txt"
