"""What `forktool wheel` says of a wheel, for people and as JSON."""

from __future__ import annotations

from typing import Any

from forktool.adapters.console import Console
from forktool.adapters.wheel_verify import Verification
from forktool.core.wheel_plan import BuildPlan, Classification


def paths_document(found: Classification) -> list[dict[str, str]]:
    """Each path with its route and the rule that decided."""
    return [{"path": item.path, "route": item.route.value, "rule": item.rule} for item in found.paths]


def plan_document(plan: BuildPlan) -> dict[str, Any]:
    """A source build."""
    return {
        "environment": dict(plan.environment),
        "command": list(plan.argv),
        "reasons": list(plan.reasons),
        "missing": list(plan.missing),
    }


def verification_document(found: Verification) -> dict[str, Any]:
    """A verification, with the patches that the wheel carries."""
    carried = found.provenance.patches if found.provenance is not None else ()
    return {
        "path": str(found.path),
        "right": found.is_right,
        "problems": list(found.problems),
        "notes": list(found.notes),
        "checks": list(found.checks),
        "not_run": list(found.not_run),
        "patches": [
            {"name": patch.name, "sha256": patch.sha256, "verdict": patch.verdict, "subject": patch.subject}
            for patch in carried
        ],
    }


def show_verification(console: Console, found: Verification) -> None:
    """Problems, what was checked and what was not, and the patches that the wheel carries."""
    for problem in found.problems:
        console.answer(console.paint(f"  problem: {problem}", "red"))
    console.answer(f"  checked: {', '.join(found.checks)}")
    for line in found.not_run:
        console.warning(f"not run: {line}")
    for line in found.notes:
        console.note(line)
    if found.provenance is not None:
        base = found.provenance
        console.answer(f"  carries {len(base.patches)} patches on {base.package} {base.base_tag}:")
        for patch in base.patches:
            console.answer(f"    {patch.name}  {patch.verdict}  {patch.sha256[:12]}  {patch.subject}")
