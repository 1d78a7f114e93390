#!/usr/bin/env bash
# forktool pr ACTION on PATCHES; the text of each draft goes to the summary.
set -euo pipefail
read -r -a patches <<< "${PATCHES:-}"
words=()
case "$ACTION" in
  draft | status) ;;
  submit)
    # A draft is made of the patch and of upstream as it is now; nothing of an earlier run is here.
    nox --non-interactive -s pr -- draft "${patches[@]}"
    if [ -n "${NOT_DUPLICATE:-}" ]; then
      words=(--not-duplicate "$NOT_DUPLICATE")
    fi
    ;;
  *)
    echo "::error::$ACTION is none of draft, submit, status"
    exit 2
    ;;
esac
code=0
nox --non-interactive -s pr -- "$ACTION" "${words[@]}" "${patches[@]}" | tee -a "$GITHUB_STEP_SUMMARY" || code=$?
for patch in "${patches[@]}"; do
  if [ -f ".forktool/pr/$patch.md" ]; then
    cat ".forktool/pr/$patch.md" >> "$GITHUB_STEP_SUMMARY"
  fi
done
exit "$code"
