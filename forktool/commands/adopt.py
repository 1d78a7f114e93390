"""`forktool import`: take patches in from wherever they are, exactly or not at all."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from forktool.adapters.git_format import format_patches
from forktool.adapters.git_identity import identity
from forktool.adapters.git_store import GitStore, GitTree
from forktool.adapters.patch_sources import find_texts
from forktool.adapters.patchset_files import PROBES, Patchset, series_change, write_change
from forktool.adapters.rebase_state import load_rebase
from forktool.commands.adopt_installed import Installed, installed_changes
from forktool.commands.base import base_tree
from forktool.commands.project import Project
from forktool.commands.series_commits import Chain
from forktool.core.adoption import Adopted, adopt_files, is_contained
from forktool.core.apply import apply_patch
from forktool.core.loose_diff import RefusedError
from forktool.core.loose_mail import Offered, read_offered
from forktool.core.naming import unique_name
from forktool.core.objects import Mode, Oid, Person
from forktool.core.probe_template import probe_template
from forktool.core.series import Patch, PatchName, parse_patch, patch_name
from forktool.core.trailers import first_value, with_trailer
from forktool.core.tree import Overlay
from forktool.errors import ExitCode, PatchsetError, RequestError, StoppedError


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What the command line asks besides the sources."""

    name: PatchName | None
    after: PatchName | None
    message: str | None
    reason: str | None
    sign_off: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Refused:
    source: str
    line: int
    reason: str
    hint: str | None = None
    is_there: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class _Imported:
    patch: Patch
    notes: tuple[str, ...]


def adopt(
    project: Project,
    *,
    sources: list[str],
    name: str | None,
    after: str | None,
    message: str | None,
    reason: str | None,
    sign_off: bool,
    probe_template: bool,
    dry_run: bool,
    installed: str | None = None,
    in_one: bool = False,
    host: str | None = None,
    distribution: str | None = None,
) -> ExitCode:
    """Take patches in: all of them, or none.

    Returns:
        DONE, NO where the series or its base has every one of them already, REQUEST where one was refused.

    Raises:
        RequestError: a source or a name makes no sense; git does not know the user and a patch has no author.
        StoppedError: a rebase is in progress.
        PatchsetError: the patchset itself is not sound.
    """
    if (installed is None) is not bool(sources):
        raise RequestError("give sources to import, or --installed", hint="forktool import --help")
    with project.state.lock(), project.store() as store:
        patchset = project.read()
        running = load_rebase(project.state)
        if running is not None:
            raise StoppedError(
                f"a rebase onto {running.onto} stopped at {running.stopped_at}: the series is about to change",
                hint="forktool rebase --continue, or forktool rebase --abort, and import then",
            )
        options = Options(
            name=patch_name(name) if name is not None else None,
            after=patchset.series.find(after).name if after is not None else None,
            message=message,
            reason=reason,
            sign_off=sign_off,
        )
        offered, unreadable = _offered(sources, offline=project.offline)
        with project.upstream(patchset, store) as upstream:
            tree = base_tree(upstream, patchset)
            commit = upstream.commit(patchset.series.base.tag)
            if installed is not None:
                # A patch with a name is one patch.
                place = Installed(
                    python=installed, host=host, distribution=distribution, in_one=in_one or name is not None
                )
                offered = installed_changes(
                    project, patchset, store, upstream, tree, place, has_message=message is not None
                )
                probe_template = True
        run = _Import(patchset, store, commit, tree, options)
        run.take(offered)
        refused = [*unreadable, *run.refused]
        _report(project, run.imported, refused, dry_run=dry_run)
        if refused:
            return ExitCode.NO if all(item.is_there for item in refused) else ExitCode.REQUEST
        change = series_change(patchset, run.written())
        if probe_template:
            templates = {f"{PROBES}/{item.patch.name}.py": _template(item.patch) for item in run.imported}
            change = replace(change, write={**change.write, **templates})
        if not dry_run:
            write_change(project.path, change, project.state)
        _hints(project, patchset, run.imported, has_probe=probe_template, dry_run=dry_run)
    return ExitCode.DONE


def _offered(sources: list[str], *, offline: bool) -> tuple[list[Offered], list[_Refused]]:
    offered: list[Offered] = []
    refused: list[_Refused] = []
    for text in find_texts(sources, offline=offline):
        try:
            offered += text.offered()
        except RefusedError as error:
            refused.append(_refusal(error))
    return offered, refused


def _refusal(error: RefusedError, *, is_there: bool = False) -> _Refused:
    return _Refused(
        source=error.source, line=error.line, reason=error.reason, hint=error.hint, is_there=is_there
    )


class _Import:
    def __init__(
        self, patchset: Patchset, store: GitStore, commit: Oid, tree: GitTree, options: Options
    ) -> None:
        self._patchset = patchset
        self._store = store
        self._commit = commit
        self._tree = tree
        self._options = options
        self._folders = tuple(
            name for name, entry in store.read_tree(tree.root).items() if entry.mode is Mode.TREE
        )
        self._overlay = Overlay(tree)
        self._user: tuple[str, str] | None = None
        self._texts: dict[PatchName, bytes] = {}
        self._later: list[Patch] = []
        self._last: PatchName | None = None
        self._taken = {*patchset.series.names, *(file.stem for file in patchset.path.glob("*.patch"))}
        self.imported: list[_Imported] = []
        self.refused: list[_Refused] = []

    def take(self, offered: list[Offered]) -> None:
        """Put the offered patches after the one that `--after` names, and the rest of the series after them."""
        if self._options.name is not None and len(offered) > 1:
            raise RequestError(f"--name names one patch, and there are {len(offered)}")
        chain = Chain(self._store, self._commit, self._tree.root)
        before, self._later = self._split()
        for patch in before:
            self._add_own(chain, patch)
            self._texts[patch.name] = patch.text
            self._last = patch.name
        start = chain.result().tip
        failed: set[str] = set()
        for item in offered:
            names = {name for file in item.files for name in (file.old_name, file.new_name) if name}
            if names & failed:
                reason = "not tried: a patch before it, which changes the same file, was refused"
                self.refused.append(_Refused(source=item.source, line=item.line, reason=reason))
            elif not self._adopt(chain, item):
                failed |= names
        if self.refused:
            return
        for patch in self._later:
            self._add_later(chain, patch)
        if not self.refused and self.imported:
            self._write_out(chain, start)

    def written(self) -> Mapping[PatchName, bytes]:
        """The whole new series, name to file."""
        return self._texts

    def _split(self) -> tuple[list[Patch], list[Patch]]:
        patches = list(self._patchset.series.patches)
        if self._options.after is None:
            return patches, []
        at = self._patchset.series.names.index(self._options.after) + 1
        return patches[:at], patches[at:]

    def _add_own(self, chain: Chain, patch: Patch) -> None:
        changes = apply_patch(patch, self._overlay, file=str(self._patchset.file(patch.name)))
        chain.add(patch, {change.path: change.after for change in changes}, self._overlay)

    def _tried(self, item: Offered) -> Adopted:
        """Adopt on a layer of its own, so that a refusal leaves nothing behind."""
        label = self._tree.label
        layer = Overlay(self._overlay, label=f"{label} with {self._last}" if self._last else label)
        adopted = adopt_files(item.files, layer, source=item.source, folders=self._folders)
        if not adopted.changes:
            raise RefusedError(item.source, item.line, f"it changes nothing in {layer.label}")
        for change in adopted.changes:
            content = None if change.after is None else layer.blobs.get(change.after.oid)
            self._overlay.set(change.path, change.after, content)
        return adopted

    def _adopt(self, chain: Chain, item: Offered) -> bool:
        try:
            adopted = self._tried(item)
        except RefusedError as error:
            self.refused.append(self._judged(item, error))
            return False
        patch = self._patch(item, adopted)
        chain.add(patch, {change.path: change.after for change in adopted.changes}, self._overlay)
        self.imported.append(_Imported(patch=patch, notes=(*item.notes, *adopted.notes)))
        self._taken.add(patch.name)
        self._last = patch.name
        return True

    def _judged(self, item: Offered, error: RefusedError) -> _Refused:
        for tree, label in (
            (Overlay(self._tree), self._tree.label),
            (self._overlay, f"the series on {self._tree.label}"),
        ):
            if is_contained(item.files, tree, folders=self._folders):
                reason = f"{label} already has this change, all of it"
                return _Refused(source=item.source, line=item.line, reason=reason, is_there=True)
        return _refusal(error)

    def _patch(self, item: Offered, adopted: Adopted) -> Patch:
        if item.message is not None and self._options.message is not None:
            raise RequestError(
                f"{item.source}:{item.line}: the patch has a message of its own", hint="leave --message out"
            )
        message = item.message or self._options.message or _described(adopted)
        message = message.rstrip("\n") + "\n"
        if self._options.reason is not None:
            message = with_trailer(message, "Reason", " ".join(self._options.reason.split()))
        if self._options.sign_off:
            message = with_trailer(message, "Signed-off-by", "{} <{}>".format(*self._identity()))
        now = f"{int(time.time())} {time.strftime('%z')}"
        if item.author is None:
            name, address = self._identity()
            author = item.person(Person(name=name, email=address, when=now))
        else:
            author = item.person(Person(name="", email="", when=now))
        return Patch(name=self._name(item, message), author=author, message=message, files=(), text=b"")

    def _identity(self) -> tuple[str, str]:
        if self._user is None:
            self._user = identity(self._patchset.path)
        return self._user

    def _name(self, item: Offered, message: str) -> PatchName:
        path = self._patchset.path
        taken, wanted = self._taken, self._options.name
        if wanted is not None:
            if wanted in taken or self._patchset.file(wanted).exists():
                raise RequestError(f"{path} has a patch {wanted} already", hint="choose another --name")
            return wanted
        if item.name is not None:
            try:
                if item.name not in taken:
                    return patch_name(item.name)
            except RequestError:
                pass  # quilt allows more than a patch name here may hold
            return unique_name(item.name, taken)
        if item.message is None and self._options.message is None:
            return unique_name(PurePosixPath(item.source).stem, taken)
        return unique_name(message.partition("\n")[0], taken)

    def _add_later(self, chain: Chain, patch: Patch) -> None:
        """A patch after the inserted ones: it must still apply exactly, at other lines perhaps."""
        file = str(self._patchset.file(patch.name))
        layer = Overlay(self._overlay)
        try:
            changes = apply_patch(patch, layer, file=file)
        except PatchsetError:
            try:
                adopted = self._tried(read_offered(patch.text, source=file)[0])
            except RefusedError as error:
                reason = f"{patch.name}, which comes after it, does not apply any more: {error.reason}"
                hint = "import it at the end of the series, or after another patch"
                self.refused.append(_Refused(source=error.source, line=error.line, reason=reason, hint=hint))
                return
            changes = adopted.changes
        else:
            for change in changes:
                content = None if change.after is None else layer.blobs.get(change.after.oid)
                self._overlay.set(change.path, change.after, content)
        chain.add(patch, {change.path: change.after for change in changes}, self._overlay)

    def _write_out(self, chain: Chain, start: Oid) -> None:
        made = chain.result()
        self._store.quarantine(made.objects)
        names = [*(done.patch.name for done in self.imported), *(patch.name for patch in self._later)]
        files = format_patches(self._store, start, made.tip)
        self._texts |= dict(zip(names, files, strict=True))
        again = Chain(self._store, self._commit, self._tree.root)
        overlay = Overlay(self._tree)
        for name, text in self._texts.items():
            patch = parse_patch(name, text, file=str(self._patchset.file(name)))
            changes = apply_patch(patch, overlay, file=str(self._patchset.file(name)))
            again.add(patch, {change.path: change.after for change in changes}, overlay)
        if again.result().tip != made.tip:
            wrong = next(
                name for name, commit in made.commits.items() if again.result().commits[name] != commit
            )
            raise PatchsetError(
                f"{wrong}: its message or author cannot be written as a patch and read back",
                hint="reword the message; forktool check says what a patch file can hold",
            )
        self.imported = [
            replace(
                done, patch=parse_patch(done.patch.name, self._texts[done.patch.name], file=done.patch.name)
            )
            for done in self.imported
        ]


def _described(adopted: Adopted) -> str:
    first, *more = [change.path for change in adopted.changes]
    return f"Change {first}" + (
        f" and {len(more)} other files" if len(more) > 1 else f" and {more[0]}" if more else ""
    )


def _template(patch: Patch) -> bytes:
    return probe_template(patch).encode()


def _report(project: Project, imported: list[_Imported], refused: list[_Refused], *, dry_run: bool) -> None:
    console = project.console
    console.document(
        {
            "imported": [
                {
                    "name": item.patch.name,
                    "file": str(project.path / f"{item.patch.name}.patch"),
                    "subject": item.patch.subject,
                    "notes": list(item.notes),
                }
                for item in ([] if refused else imported)
            ],
            "refused": [
                {"source": item.source, "line": item.line, "reason": item.reason} for item in refused
            ],
        }
    )
    for no in refused:
        console.error(f"{no.source}:{no.line}: {no.reason}")
    for hint in dict.fromkeys(item.hint for item in refused if item.hint):
        console.hint(hint)
    if refused:
        console.note(f"nothing was written to {project.path}")
        return
    width = max((len(item.patch.name) for item in imported), default=0)
    for item in imported:
        console.answer(
            f"{'would import' if dry_run else 'imported'} {item.patch.name:<{width}}  {item.patch.subject}"
        )
        for note in item.notes:
            console.answer(f"    {note}")
        if dry_run:
            console.raw(item.patch.text.decode("utf-8", "backslashreplace"))


def _hints(
    project: Project, patchset: Patchset, imported: list[_Imported], *, has_probe: bool, dry_run: bool
) -> None:
    policy = patchset.config.policy
    for item in imported:
        missing = []
        if policy.probe and not (has_probe or (patchset.path / PROBES / f"{item.patch.name}.py").is_file()):
            missing.append(f"a probe, {patchset.path / PROBES / item.patch.name}.py")
        if policy.reason and first_value(item.patch.trailers, "Reason") is None:
            missing.append("a `Reason:` line in its message")
        if policy.signed_off_by and first_value(item.patch.trailers, "Signed-off-by") is None:
            missing.append("a `Signed-off-by:` line")
        if missing:
            project.console.hint(f"forktool check will ask for {', '.join(missing)} ({item.patch.name})")
    if not dry_run:
        project.console.hint("forktool check proves the series")
