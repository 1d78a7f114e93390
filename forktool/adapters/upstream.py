"""Upstream's releases, from whichever source has them: the one door to tags and trees."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from hashlib import sha256
from typing import Self, TypeVar

from forktool.adapters.console import Advance, Console
from forktool.adapters.git_source import GitSource
from forktool.adapters.git_store import GitStore, GitTree
from forktool.adapters.http import CONNECTIONS, Http, NoRangeError, shown
from forktool.adapters.light_tree import LightTree
from forktool.adapters.package_index import IndexFile, PackageIndex, Release, index_url
from forktool.adapters.sdist import Sdist, import_sdist, sweep
from forktool.adapters.state import State, translated
from forktool.adapters.wheel_range import NotInWheelError, WheelTree
from forktool.core.objects import Mode, Oid
from forktool.core.tree import SourceTree
from forktool.core.upstream_config import History, SourceKind, UpstreamConfig
from forktool.core.versions import TagPattern, find, newest, ordered, unknown_tag
from forktool.errors import ForktoolError, IntegrityError, NetworkError, RequestError

REFS = "refs/forktool/upstream"
"""`REFS/KEY/TAG` in the private store names a tag's commit; KEY stands for what decides its content."""
_Result = TypeVar("_Result")
_Item = TypeVar("_Item")


class Upstream:
    """The tags and trees of one upstream.

    The network is asked for a list of tags at most once a run, and not at all for a tag that is known. Use as a
    context manager, or call `close`.

    Args:
        config: the table `[upstream]` of patchset.toml.
        state: the state folder; hold its lock while calling `commit`, `tree` and `prepare`.
        store: the private repository in it.
        console: where progress and warnings go.
        offline: never use the network.
        http: another session than the one made here.

    Raises:
        RequestError: the configuration names no source.
    """

    def __init__(
        self,
        config: UpstreamConfig,
        *,
        state: State,
        store: GitStore,
        console: Console,
        offline: bool = False,
        http: Http | None = None,
    ) -> None:
        self.config = config
        self.pattern = TagPattern(config.tag_pattern)
        self.http = http or Http(offline=offline)
        # Another package, or other rules for generated files, are other trees.
        content = json.dumps([config.name, config.tag_pattern, config.generated])
        self._unpacking = threading.BoundedSemaphore(2)  # an archive takes a quarter of a gigabyte in memory
        self._refs = f"{REFS}/{sha256(content.encode()).hexdigest()[:12]}/"
        self._store = store
        self._state = state
        self._console = console
        self._index: PackageIndex | None = None
        self._git: GitSource | None = None
        self._git_lock = threading.Lock()  # two fetches into one repository get into each other's way
        self._commits: dict[str, Oid] | None = None
        self._light: dict[str, WheelTree] = {}
        self._warned: set[str] = set()
        if config.package is not None:
            self._index = PackageIndex(http=self.http, state=state, url=index_url(config.index_url))
        if config.repository is not None and SourceKind.GIT in config.sources:
            self._git = GitSource(
                store=store,
                state=state,
                repository=config.repository,
                pattern=self.pattern,
                history=config.history,
                offline=self.http.offline,
            )
        if self._index is None and self._git is None:
            raise RequestError(
                "no upstream source is configured", hint="set `package` or `repository` in patchset.toml"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End connections and forget what was read of wheels."""
        for tree in self._light.values():
            tree.close()
        self._light.clear()
        self.http.close()

    def repository(self) -> GitSource:
        """Upstream's git repository, for what only it has: branches and history.

        Raises:
            RequestError: none is configured.
        """
        if self._git is None:
            raise RequestError(
                f"{self.config.name} has no git repository here",
                hint='set `repository`, and sources = ["sdist", "git"], under [upstream] in patchset.toml',
            )
        return self._git

    # Tags

    def tags(self) -> tuple[str, ...]:
        """Every release that any source has, oldest first, without yanked ones; asks the network.

        A source that cannot be reached answers with what it last said, and a warning.

        Raises:
            RequestError: no such package or repository.
            NetworkError: not reached, and never listed before.
        """
        return ordered(
            (tag for tag, yanked in self._listed(ask=self.config.sources).items() if yanked is None),
            self.pattern,
        )

    def newest(self) -> str:
        """The newest final release.

        Raises:
            RequestError: there is none; else what `tags` raises.
        """
        found = newest(self.tags(), self.pattern)
        if found is None:
            raise RequestError(f"{self.config.name} has no final release yet", hint="name a tag")
        return found

    def resolve(self, tag: str) -> str:
        """The tag that is meant, in upstream's spelling; asks the network only for one that is not known yet.

        A yanked release counts when it is asked for, with a warning.

        Raises:
            RequestError: upstream has no such tag; the message names the nearest ones.
        """
        imported = find(tag, self._imported(), self.pattern)
        if imported is not None:
            return imported
        known: dict[str, str | None] = self._listed(ask=())
        found = find(tag, known, self.pattern)
        asked: list[SourceKind] = []
        for source in self.config.sources if found is None else ():
            # One source after the other: a tag that the index has needs no repository to be reached.
            asked.append(source)
            known = self._listed(ask=asked)
            found = find(tag, known, self.pattern)
            if found is not None:
                break
        if found is None:
            offered = [name for name, yanked in known.items() if yanked is None]
            raise unknown_tag(tag, offered, self.pattern, name=self.config.name)
        if known[found] is not None and found not in self._warned:
            self._warned.add(found)
            reason = f": {known[found]}" if known[found] else ""
            self._console.warning(f"{self.config.name} has taken {found} back (yanked){reason}")
        return found

    def _listed(self, *, ask: Collection[SourceKind]) -> dict[str, str | None]:
        """Tag to the reason it was yanked for, or None; over all sources, of which those in `ask` are asked anew.

        A source that is not reached and never was is passed over with a warning if another one lists anything.
        """
        found: dict[str, str | None] = {}
        unreached: NetworkError | None = None
        if self._index is not None and self.config.package is not None:
            index, package = self._index, self.config.package
            try:
                asked = SourceKind.SDIST in ask
                releases = (
                    self._asked(index.releases, index.known, package) if asked else index.known(package)
                )
                found |= {self.pattern.tag(release.version): release.yanked for release in releases}
            except NetworkError as error:
                unreached = error
        if self._git is not None:
            git = self._git
            try:
                asked = SourceKind.GIT in ask
                tags = self._asked(lambda _: git.tags(), lambda _: git.known(), "") if asked else git.known()
                found = {**dict.fromkeys(tags), **found}
            except NetworkError as error:
                unreached = unreached or error
        if unreached is not None:
            if not found:
                raise unreached
            self._warn(f"{unreached.message}; its tags are not seen")
        return found

    def _asked(self, ask: Callable[[str], _Result], known: Callable[[str], _Result], name: str) -> _Result:
        try:
            return ask(name)
        except NetworkError as error:
            kept = known(name)
            if not kept:
                raise
            self._warn(f"{error.message}; new tags are not seen")
            return kept

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            self._console.warning(message)

    # Trees

    def commit(self, tag: str) -> Oid:
        """The commit of a tag in the private store, imported if it is not there.

        Raises:
            RequestError: no such tag, or no source has its tree.
            NetworkError: a source was not reached.
            IntegrityError: a download is not what the index promised.
            DiskError: there is no space.
        """
        return self.prepare((tag,))[self.resolve(tag)]

    def imported(self, tag: str) -> Oid | None:
        """The commit of a tag, in upstream's spelling, if it is in the private store; asks nobody."""
        return self._imported().get(tag)

    def tree(self, tag: str) -> GitTree:
        """The whole tree of a tag; raises what `commit` raises."""
        return self._store.tree(self._store.tree_of(self.commit(tag)), label=self.resolve(tag))

    def complete(self, tag: str) -> None:
        """Fetch every file of a tag that a partial clone left out; raises what `commit` raises."""
        if self._git is not None:
            self._git.fetch_files(self.commit(tag), ())

    def prepare(self, tags: Iterable[str], paths: Iterable[str] = ()) -> Mapping[str, Oid]:
        """Import tags, several at once; what was imported before one fails stays. Raises what `commit` raises.

        Where a git source brings files on demand, those at `paths` are brought now, in one request a tag.
        """
        wanted = tuple(dict.fromkeys(self.resolve(tag) for tag in tags))
        missing = [tag for tag in wanted if tag not in self._imported()]
        missing += self._without_history(tag for tag in wanted if tag not in missing)
        if missing:
            self._store.create()
            sweep(self._store)
            self._import(missing)
        commits = {tag: self._imported()[tag] for tag in wanted}
        ahead = tuple(paths)
        if self._git is not None and ahead and self.config.history is History.SHALLOW:
            for commit in commits.values():
                self._git.fetch_files(commit, ahead)
        return commits

    def _without_history(self, tags: Iterable[str]) -> list[str]:
        """The tags that git brought alone, before `history = "full"` was asked for."""
        if self._git is None or self.config.history is not History.FULL or self.http.offline:
            return []
        cut = self._store.shallow()
        return [tag for tag in tags if self._imported()[tag] in cut]

    def light_tree(
        self, tag: str, paths: Iterable[str] = (), *, modes: Mapping[str, Mode] | None = None
    ) -> SourceTree:
        """A tree for questions about a few files; see `light_trees`."""
        return self.light_trees((tag,), paths, modes=modes)[0]

    def light_trees(
        self, tags: Iterable[str], paths: Iterable[str] = (), *, modes: Mapping[str, Mode] | None = None
    ) -> tuple[SourceTree, ...]:
        """Trees for questions about a few files, in the order of `tags`.

        An imported tag answers from the store, any other from its wheel by range. What a wheel cannot tell makes
        the whole tree be imported, then or later. `paths` are fetched ahead, many at once.

        setuptools drops the executable bit of a Python file on the way into a wheel (vLLM 0.33.0: of seven). So a
        Python file has the mode that `modes` gives it: the base's, or the one that a patch expects.

        Raises what `commit` raises; so may reading.
        """
        names = [self.resolve(tag) for tag in tags]
        ahead = tuple(dict.fromkeys(paths))
        wheels = {name: tree for name in dict.fromkeys(names) if (tree := self._wheel_tree(name)) is not None}
        refused = _each(lambda wheel: _is_refused(wheel, ahead), wheels.values())
        for name in [name for name, is_refused in zip(wheels, refused, strict=True) if is_refused]:
            del wheels[name]
        self.prepare((name for name in names if name not in wheels), ahead)
        return tuple(
            LightTree(wheels[name], partial(self.tree, name), modes or {})
            if name in wheels
            else self.tree(name)
            for name in names
        )

    def _wheel_tree(self, tag: str) -> WheelTree | None:
        if tag in self._imported():
            return None
        if tag not in self._light:
            release = self._release(tag)
            wheel = release.wheel_to_read() if release is not None else None
            if wheel is None:
                return None
            self._light[tag] = WheelTree(
                http=self.http, state=self._state, file=wheel, label=tag, generated=self.config.generated
            )
        return self._light[tag]

    def _imported(self) -> dict[str, Oid]:
        if self._commits is None:
            self._commits = {}
            if (self._store.path / "HEAD").is_file():
                listed = self._store.git("for-each-ref", "--format=%(objectname) %(refname)", self._refs)
                for line in listed.decode("utf-8", "surrogateescape").splitlines():
                    oid, _space, ref = line.partition(" ")
                    self._commits[ref.removeprefix(self._refs)] = Oid(oid)
        return self._commits

    def _release(self, tag: str) -> Release | None:
        version = self.pattern.version(tag)
        if self._index is None or self.config.package is None or version is None:
            return None
        return next(
            (item for item in self._index.known(self.config.package) if item.version == version), None
        )

    def _sdist(self, tag: str) -> IndexFile | None:
        release = self._release(tag)
        return release.sdist if release is not None else None

    def _import(self, tags: list[str]) -> None:
        archives = [self._sdist(tag) if SourceKind.SDIST in self.config.sources else None for tag in tags]
        sizes = [archive.size if archive is not None else None for archive in archives]
        total = sum(size or 0 for size in sizes) if None not in sizes else None
        with self._console.progress(f"{self.config.name} {', '.join(tags)}", total) as advance:
            outcomes = _each(lambda tag: self._outcome(tag, advance), tags)
        done = {tag: oid for tag, oid in zip(tags, outcomes, strict=True) if isinstance(oid, str)}
        if done:
            lines = "".join(f"update {self._refs}{tag} {oid}\n" for tag, oid in done.items())
            self._store.git("update-ref", "--stdin", stdin=lines.encode("utf-8", "surrogateescape"))
            self._imported().update(done)
        for outcome in outcomes:
            if isinstance(outcome, ForktoolError):
                raise outcome

    def _outcome(self, tag: str, advance: Advance) -> Oid | ForktoolError:
        try:
            return self._import_one(tag, advance)
        except ForktoolError as error:
            return error

    def _import_one(self, tag: str, advance: Advance) -> Oid:
        """A tag from the first source that has it. What a source promised and broke is never papered over."""
        reasons: list[str] = []
        unreached: NetworkError | None = None
        for source in self.config.sources:
            try:
                if source is SourceKind.SDIST:
                    return self._from_sdist(tag, advance)
                return self._from_git(tag)
            except _NotThereError as error:
                reasons.append(error.message)
            except NetworkError as error:
                unreached = unreached or error
        if unreached is not None:
            raise unreached
        hint = None
        if self._git is None:
            hint = 'set `repository`, and sources = ["sdist", "git"], in patchset.toml'
        raise RequestError(f"no source has the tree of {tag}: {'; '.join(reasons)}", hint=hint)

    def _from_sdist(self, tag: str, advance: Advance) -> Oid:
        package, release = self.config.package, self._release(tag)
        if package is None or release is None:
            raise _NotThereError("the package index does not list it")
        file = release.sdist
        if file is None:
            raise _NotThereError(f"{package} {release.version} has no source distribution")
        if file.sha256 is None:
            raise IntegrityError(
                f"the index gives no sha256 for {file.filename}",
                hint="set another index_url in patchset.toml",
            )
        archive = self._state.directory("downloads") / f"{file.sha256[:16]}-{file.filename}"
        if not archive.is_file():
            self.http.download(
                file.url, archive, sha256=file.sha256, size=file.size, advance=advance, durable=False
            )
        sdist = Sdist(package=package, version=str(release.version), sha256=file.sha256)
        try:
            with self._unpacking:
                return import_sdist(self._store, archive, sdist, generated=self.config.generated)
        finally:
            # The tree is in the store, or the archive is no good.
            with translated(f"cannot delete {archive}"):
                archive.unlink(missing_ok=True)

    def _from_git(self, tag: str) -> Oid:
        if self._git is None:
            raise _NotThereError("no repository is configured")
        with self._git_lock:
            if not self.http.offline and tag not in self._git.known() and tag not in self._git.tags():
                raise _NotThereError(f"{shown(self._git.url)} has no tag {tag}")
            self._console.note(f"fetching {tag} from {shown(self._git.url)}")
            return self._git.fetch(tag)


class _NotThereError(ForktoolError):
    """A source does not have a tag's tree; the next is tried."""


def _is_refused(wheel: WheelTree, paths: tuple[str, ...]) -> bool:
    """Fetch files of a wheel; True where it cannot tell about them."""
    try:
        wheel.prefetch(paths)
    except (NotInWheelError, NoRangeError):
        return True
    finally:
        wheel.close()
    return False


def _each(act: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """Act on each item, on several threads where there are several; results in order."""
    work = list(items)
    if len(work) < 2:
        return [act(item) for item in work]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(CONNECTIONS, len(work))) as threads:
        try:
            return list(threads.map(act, work))
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
