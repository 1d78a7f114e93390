"""Upstream's history in the private store: one walk for the whole series and all tags, kept.

Only what is there is read, and only from git: a tag that came as a source distribution, or alone, has no history, and
asking costs no process then.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from forktool.adapters.git_store import GitStore
from forktool.adapters.state import State
from forktool.core.history import Commit, FileMarks, History
from forktool.core.history_log import (
    MARKS_FORMAT,
    MESSAGES_FORMAT,
    dump_commits,
    load_commits,
    parse_marks,
    parse_messages,
    with_marks,
)
from forktool.core.objects import Oid

PINNED_LOG = (
    "-c", "diff.algorithm=myers",
    "-c", "diff.indentHeuristic=true",
    "-c", "diff.interHunkContext=0",
    "-c", "diff.noprefix=false",
    "-c", "diff.mnemonicPrefix=false",
    "-c", "diff.orderFile=/dev/null",
    "-c", "diff.submodule=short",
    "-c", "diff.ignoreSubmodules=none",
    "-c", "log.showSignature=false",
    "-c", "i18n.logOutputEncoding=UTF-8",
)  # fmt: skip
_FLAGS = (
    "--patch", "--unified=0", "--full-index", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv",
    "--diff-merges=first-parent", "--src-prefix=a/", "--dst-prefix=b/", "--full-history",
)  # fmt: skip
_KEPT = 8


class GitHistory:
    """What upstream did between a base and its tags.

    Args:
        store: holds the commits.
        state: walks are kept there.
        repository: upstream's URL, for pull request numbers.
    """

    def __init__(self, store: GitStore, state: State, *, repository: str | None = None) -> None:
        self._store = store
        self._state = state
        self._repository = repository

    def read(self, base: Oid, tags: Sequence[Oid], paths: Iterable[str]) -> dict[Oid, History]:
        """The history of each tag since the base; a tag without any in the store is left out.

        Args:
            base: the commit of the recorded base.
            tags: the commits of the tags.
            paths: the files of the series.
        """
        shallow = self._store.shallow()
        known = [
            tag
            for tag in dict.fromkeys(tags)
            if tag != base and self._has_parents(tag, shallow) and self._meet(base, tag)
        ]
        if not known:
            return {}
        commits = self._kept(base, known, tuple(sorted(set(paths))))
        whole = History(commits=commits, repository=self._repository)
        return {tag: whole if len(known) == 1 else whole.until(tag) for tag in known}

    def reaches(self, base: Oid, tag: Oid) -> bool:
        """Whether the store holds the commits between a base and a tag."""
        return tag != base and self._has_parents(tag, self._store.shallow()) and self._meet(base, tag)

    def _has_parents(self, commit: Oid, shallow: frozenset[Oid]) -> bool:
        if commit in shallow:
            return False
        kind, body = self._store.read_object(commit)
        return kind == "commit" and b"\nparent " in body.partition(b"\n\n")[0]

    def _meet(self, base: Oid, tag: Oid) -> bool:
        return self._store.try_git("merge-base", base, tag).returncode == 0

    def _kept(self, base: Oid, tags: Sequence[Oid], paths: tuple[str, ...]) -> tuple[Commit, ...]:
        key = sha256(json.dumps([base, sorted(tags), paths]).encode()).hexdigest()[:24]
        file = self._state.home / "history" / f"{key}.json"
        with contextlib.suppress(OSError):
            commits = load_commits(file.read_bytes())
            if commits is not None:
                return commits
        commits = self._walk(base, tags, paths)
        self._state.write(file, dump_commits(commits))
        newest_first = sorted(file.parent.glob("*.json"), key=lambda one: one.stat().st_mtime, reverse=True)
        for old in newest_first[_KEPT:]:
            old.unlink(missing_ok=True)
        return commits

    def _walk(self, base: Oid, tags: Sequence[Oid], paths: tuple[str, ...]) -> tuple[Commit, ...]:
        revisions = b"".join(b"%s\n" % word.encode() for word in (*tags, f"^{base}"))
        messages = self._store.git(
            "log", "-z", "--topo-order", f"--format={MESSAGES_FORMAT}", "--stdin",
            stdin=revisions, configuration=PINNED_LOG,
        )  # fmt: skip
        return with_marks(parse_messages(messages), self._marks(revisions, paths))

    def _marks(self, revisions: bytes, paths: tuple[str, ...]) -> Mapping[Oid, tuple[FileMarks, ...]]:
        if not paths:
            return {}
        named = b"".join(b"%s\n" % path.encode("utf-8", "surrogateescape") for path in paths)
        done = self._store.try_git(
            "--literal-pathspecs", "log", *_FLAGS, f"--format={MARKS_FORMAT}", "--stdin",
            stdin=revisions + b"--\n" + named, configuration=PINNED_LOG,
        )  # fmt: skip
        # Contents that a partial clone lacks, and no network to bring them: the messages alone are left.
        return parse_marks(done.stdout) if done.returncode == 0 else {}
