#!/usr/bin/env bash
# Push patchset/ of the folder named as the branch rebase/TAG, and open or update its pull request. Runs nothing of it.
# A branch that a person has pushed to is left alone.
set -euo pipefail
from=$1
branch="rebase/$TAG"
email="41898282+github-actions[bot]@users.noreply.github.com"
git check-ref-format --branch "$branch" > /dev/null
rm -r patchset
cp -R "$from/patchset" patchset
git checkout --quiet -B "$branch"
git config user.name "github-actions[bot]"
git config user.email "$email"
git add --all patchset
# A stop changes nothing yet; the branch is there all the same, for the pull request to show the conflict.
git commit --quiet --allow-empty --message "Carry the series to $TAG"
gh auth setup-git
there=""
if git fetch --quiet --depth=1 origin "refs/heads/$branch" 2> /dev/null; then
  there=$(git rev-parse FETCH_HEAD)
  if [ "$(git log -1 --format=%ce "$there")" != "$email" ]; then
    echo "::notice::$branch holds a person's commits; it is left as it is"
    exit 0
  fi
fi
if [ -z "$there" ] || ! git diff --quiet "$there" HEAD; then
  git push --quiet --force-with-lease="refs/heads/$branch:$there" origin "HEAD:refs/heads/$branch"
fi
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
