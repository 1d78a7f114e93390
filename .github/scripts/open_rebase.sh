#!/usr/bin/env bash
# Push patchset/ of the folder named as the branch rebase/TAG, and open or update its pull request. Runs nothing of it.
set -euo pipefail
from=$1
branch="rebase/$TAG"
git check-ref-format --branch "$branch" > /dev/null
rm -r patchset
cp -R "$from/patchset" patchset
git checkout --quiet -B "$branch"
git config user.name "github-actions[bot]"
git config user.email "41898282+github-actions[bot]@users.noreply.github.com"
git add --all patchset
# A stop changes nothing yet; the branch is there all the same, for the pull request to show the conflict.
git commit --quiet --allow-empty --message "Carry the series to $TAG"
gh auth setup-git
git push --quiet --force origin "HEAD:refs/heads/$branch"
head -c 60000 "$from/report.md" > body.md
draft=()
if [ "$STOPPED" = true ]; then
  draft=(--draft)
fi
if [ -n "$(gh pr list --head "$branch" --state open --json number --jq '.[].number')" ]; then
  gh pr edit "$branch" --body-file body.md
else
  gh pr create --base "$BASE" --head "$branch" --title "Carry the series to $TAG" --body-file body.md "${draft[@]}"
fi
