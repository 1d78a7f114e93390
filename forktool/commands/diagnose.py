"""`forktool diagnose`: which gates of a tree refuse a model, with and without the series."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from forktool.adapters.git_store import GitStore
from forktool.adapters.patchset_files import Patchset
from forktool.adapters.state import translated
from forktool.adapters.upstream import Upstream
from forktool.commands.project import Project
from forktool.core.apply import apply_patch
from forktool.core.diagnose import Explained, Finding, Stage, diagnose, explain
from forktool.core.model_config import DrafterConfig, ModelConfig, drafter_config, model_config, read_config
from forktool.core.python_classes import Modules, ParseCache
from forktool.core.traceback_reading import read_traceback
from forktool.core.tree import Overlay, SourceTree
from forktool.core.verdict import Verdict
from forktool.core.vllm_eagle3 import READ, Answer, Check, checks
from forktool.errors import ExitCode, RequestError

_CONFIG = "config.json"
_STYLES = {Answer.ACCEPTS: "green", Answer.REFUSES: "red", Answer.UNKNOWN: "yellow"}


def run(
    project: Project, *, model: str | None, drafter: str | None, onto: str | None, traceback: str | None
) -> ExitCode:
    """Ask the gates of a tree about a model, or look for the place that raised an error.

    Args:
        project: the patchset.
        model: the target's folder or config.json.
        drafter: the drafter's.
        onto: the tag to look at; None takes the base.
        traceback: a file with the error, `-` for stdin.

    Returns:
        NO when a gate refuses with the series, or nothing in the series covers the error.

    Raises:
        RequestError: a file is not what it should be, or there is no such tag.
    """
    if model is None and traceback is None:
        raise RequestError("nothing to diagnose", hint="forktool diagnose --model DIR, or --traceback FILE")
    if drafter is not None and model is None:
        raise RequestError("a drafter is judged against its target", hint="add --model DIR")
    target = None if model is None else _target(_file(model))
    draft = None if drafter is None else _drafter(_file(drafter))
    error = None if traceback is None else read_traceback(_text(traceback))
    with project.state.lock(), project.store() as store:
        patchset = project.read()
        with project.upstream(patchset, store) as upstream:
            tag = upstream.resolve(onto or patchset.series.base.tag)
            stages, notes = _stages(project, patchset, store, upstream, tag)
            findings = () if target is None else diagnose(stages, checks(target, draft))
            package = patchset.config.upstream.name.replace("-", "_")
            explained = None if error is None else explain(stages, error, package=package)
    _show(project, tag, target, draft, findings, explained, notes)
    refused = any(finding.series.answer is Answer.REFUSES for finding in findings)
    uncovered = explained is not None and not explained.patches
    return ExitCode.NO if refused or uncovered else ExitCode.DONE


def _file(named: str) -> Path:
    path = Path(named)
    if path.is_dir():
        path /= _CONFIG
    if not path.is_file():
        raise RequestError(
            f"{path} is not there", hint="name a folder with a config.json, or the file itself"
        )
    return path


def _target(path: Path) -> ModelConfig:
    with translated(f"cannot read {path}"):
        content = path.read_bytes()
    return model_config(read_config(content, where=str(path)), where=str(path))


def _drafter(path: Path) -> DrafterConfig:
    with translated(f"cannot read {path}"):
        content = path.read_bytes()
    return drafter_config(read_config(content, where=str(path)), where=str(path))


def _text(named: str) -> str:
    if named == "-":
        return sys.stdin.read()
    path = Path(named)
    if not path.is_file():
        raise RequestError(f"{path} is not there")
    with translated(f"cannot read {path}"):
        return path.read_bytes().decode("utf-8", "replace")


# The tree, patch by patch


def _stages(
    project: Project, patchset: Patchset, store: GitStore, upstream: Upstream, tag: str
) -> tuple[list[Stage], list[str]]:
    """The bare tree, then with one more patch at a time; and what must be said about patches that are not in."""
    base = upstream.resolve(patchset.series.base.tag)
    paths = patchset.series.paths
    tree, base_tree = upstream.light_trees([tag, base], (*READ, *paths), modes=patchset.series.modes)
    cache = ParseCache()
    stages = [Stage(patch=None, modules=Modules(tree, cache))]
    if tag == base:
        overlay = Overlay(tree)
        for patch in patchset.series.patches:
            apply_patch(patch, overlay, file=str(patchset.file(patch.name)))
            below = _frozen(overlay, tree)
            stages.append(Stage(patch=patch.name, modules=Modules(below, cache), paths=patch.paths))
        return stages, []
    from forktool.commands.status import replay_on_one

    replayed = replay_on_one(project, patchset, store, upstream, base_tree, tree)
    overlay = Overlay(tree)
    for step in replayed.carried:
        for path, entry in step.changes.items():
            overlay.set(path, entry, None if entry is None else replayed.result.blobs.get(entry.oid))
        below = _frozen(overlay, tree)
        stages.append(Stage(patch=step.patch.name, modules=Modules(below, cache), paths=tuple(step.changes)))
    notes = [
        f"{step.patch.name} is {step.outcome.verdict.value} on {tag}: not in what is shown as the series"
        for step in replayed.steps
        if step.outcome.verdict.is_stop or step.outcome.verdict is Verdict.NOT_REACHED
    ]
    return stages, notes


def _frozen(overlay: Overlay, tree: SourceTree) -> Overlay:
    """The overlay as it is now; the next patch changes the other one."""
    copy = Overlay(tree, label=overlay.label)
    for path, entry in overlay.changes.items():
        copy.set(path, entry, None if entry is None else overlay.blobs.get(entry.oid))
    return copy


# The answer


def _show(
    project: Project,
    tag: str,
    target: ModelConfig | None,
    draft: DrafterConfig | None,
    findings: tuple[Finding, ...],
    explained: Explained | None,
    notes: list[str],
) -> None:
    console = project.console
    console.document(
        {
            "tag": tag,
            "model": target and {"config": target.where, "architectures": list(target.architectures),
                                 "model_type": target.model_type, "text_model_type": target.text_model_type},
            "drafter": draft and {"config": draft.where, "architectures": list(draft.architectures)},
            "checks": [
                {"asks": item.asks, "bare": _document(item.bare), "series": _document(item.series),
                 "opened_by": item.opened_by}
                for item in findings
            ],
            "traceback": explained and _explained_document(explained),
            "notes": notes,
        }
    )  # fmt: skip
    for note in notes:
        console.warning(note)
    if target is not None:
        inside = f", text {target.text_model_type}" if target.text_model_type != target.model_type else ""
        console.answer(f"{target.architectures[0]} ({target.model_type}{inside}) on {tag}")
    width = max((len(item.asks) for item in findings), default=0)
    for item in findings:
        answer = console.paint(item.bare.answer.value, _STYLES[item.bare.answer])
        console.answer(f"  {item.asks:<{width}}  {answer}: {item.bare.says}{_place(item.bare)}")
        if item.opened_by is not None:
            console.answer(
                f"  {'':<{width}}  opened by {item.opened_by}: {item.series.says}{_place(item.series)}"
            )
        elif item.bare.answer is not item.series.answer:
            changed = console.paint(item.series.answer.value, _STYLES[item.series.answer])
            console.answer(
                f"  {'':<{width}}  with the series {changed}: {item.series.says}{_place(item.series)}"
            )
        elif item.bare.answer is Answer.REFUSES:
            console.answer(f"  {'':<{width}}  no patch of the series opens it")
    if explained is not None:
        _show_explained(project, tag, explained)


def _show_explained(project: Project, tag: str, explained: Explained) -> None:
    console, raised = project.console, explained.raised
    if raised is None:
        where = f"; its innermost frame there is {explained.innermost}" if explained.innermost else ""
        console.answer(f"nothing in {tag} raises this{where}")
        return
    console.answer(f"raised at {raised.path}:{raised.line} of {tag}, in {raised.function or 'the module'}")
    if raised.condition:
        console.answer(f"  when {raised.condition}")
    for name in explained.patches:
        console.answer(f"  covered by {name}")
    if explained.gains:
        console.answer(f"  for {', '.join(explained.gains)}")
    if not explained.patches:
        console.answer("  no patch of the series covers it")


def _place(check: Check) -> str:
    if check.path is None:
        return ""
    return f" ({check.path}:{check.line})" if check.line is not None else f" ({check.path})"


def _document(check: Check) -> dict[str, Any]:
    return {"answer": check.answer.value, "says": check.says, "path": check.path, "line": check.line}


def _explained_document(explained: Explained) -> dict[str, Any]:
    raised = explained.raised
    return {
        "raised": raised and {"path": raised.path, "line": raised.line, "function": raised.function,
                              "condition": raised.condition},
        "innermost": explained.innermost,
        "patches": list(explained.patches),
        "gains": list(explained.gains),
    }  # fmt: skip
