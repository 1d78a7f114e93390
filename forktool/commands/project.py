"""What every command starts from: the patchset's folder, the state beside it, the console."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from forktool.adapters.console import Console
from forktool.adapters.git_store import GitStore
from forktool.adapters.patchset_files import Patchset, finish_write, is_half_written, read_patchset
from forktool.adapters.probes import Probes
from forktool.adapters.state import State
from forktool.adapters.upstream import Upstream


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """One patchset, its state, and how this run talks."""

    path: Path
    state: State
    console: Console
    offline: bool = False

    @property
    def conflict(self) -> Path:
        """The work tree of the conflict at which a rebase stopped."""
        return self.state.home / "conflict"

    def read(self) -> Patchset:
        """Read the patchset, after finishing a write that was interrupted.

        Raises:
            PatchsetError: it is malformed.
        """
        self.finish_write()
        return read_patchset(self.path)

    def finish_write(self) -> bool:
        """Finish a write of the patchset that was interrupted; whether there was one.

        Raises:
            LockedError: it is another forktool's, which is at it now.
        """
        if not is_half_written(self.state):
            return False
        with nullcontext() if self.state.is_locked else self.state.lock():
            was_half_way = finish_write(self.state)
        if was_half_way:
            self.console.note("finished writing the patchset, which an earlier run left half-way")
        return was_half_way

    @contextmanager
    def store(self) -> Iterator[GitStore]:
        """The private bare repository."""
        store = GitStore(self.state.home / "upstream.git")
        self.state.directory()
        store.create()
        if self.state.is_locked:
            store.remove_locks()
        with store:
            yield store

    def upstream(self, patchset: Patchset, store: GitStore) -> Upstream:
        """Where the patchset's trees come from."""
        return Upstream(
            patchset.config.upstream,
            state=self.state,
            console=self.console,
            store=store,
            offline=self.offline,
        )

    def probes(self, patchset: Patchset) -> Probes:
        """The patchset's probes."""
        return Probes(patchset.probes, self.state)
