"""A run of the matrix as text lines, JUnit XML, Markdown, and as a comparison of two runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET

from forktool.core.matrix import Cell, Check, Needs
from forktool.core.matrix_result import CellResult, GateOutcome, Outcome, Run

SYMBOLS = {
    Outcome.PASSED: "=",
    Outcome.FAILED: "!",
    Outcome.BACKEND_CANNOT: "/",
    Outcome.SKIPPED: " ",
    Outcome.BROKEN: "?",
}
STYLES = {
    Outcome.PASSED: "green",
    Outcome.FAILED: "red",
    Outcome.BACKEND_CANNOT: "yellow",
    Outcome.SKIPPED: "dim",
    Outcome.BROKEN: "red",
}


def cell_document(cell: Cell) -> dict[str, Any]:
    """A cell of the matrix file as `list --json` shows it."""
    return {
        "identifier": cell.identifier,
        "engine": cell.engine,
        "model": cell.model,
        "drafter": cell.drafter,
        "method": cell.method,
        "tokens": cell.tokens if cell.speculates else None,
        "tensor_parallel": cell.tensor_parallel,
        "attention_backend": cell.attention_backend,
        "kv_cache": cell.kv_cache,
        "quantisation": cell.quantisation,
        "gpu": cell.gpu,
        "needs": {
            "gpus": cell.needs.gpus,
            "gpu_memory_gib": cell.needs.gpu_memory,
            "memory_gib": cell.needs.memory,
            "capability": cell.needs.capability,
            "paths": list(cell.needs.paths),
        },
        "checks": list(cell.checks),
        "thresholds": {
            "acceptance_rate": cell.thresholds.acceptance_rate,
            "acceptance_length": cell.thresholds.acceptance_length,
            "by_position": list(cell.thresholds.by_position),
            "speed_up": cell.thresholds.speed_up,
            "near_tie": cell.thresholds.near_tie,
            "quality": cell.thresholds.quality,
        },
        "timeout_seconds": cell.timeout,
        "expect": cell.expect,
        "wheel": cell.wheel,
    }


def github_matrix(cells: Sequence[Cell]) -> dict[str, Any]:
    """A `strategy.matrix` for `fromJSON`: one job a cell.

    `timeout` is in minutes, as `timeout-minutes` wants it, with ten for the environment.
    """
    return {
        "include": [
            {
                "cell": cell.identifier,
                "gpu": cell.gpu,
                "gpus": cell.needs.gpus,
                "capability": cell.needs.capability or "",
                "engine": cell.engine,
                "timeout": int(-(-cell.timeout // 60)) + 10,
            }
            for cell in cells
        ]
    }


def needs_line(needs: Needs) -> str:
    """What a cell needs, as `8 GPUs 10.0, 150 GiB each`."""
    parts = []
    if needs.gpus:
        kind = f" {needs.capability}" if needs.capability else ""
        parts.append(f"{needs.gpus} GPU{'s' if needs.gpus > 1 else ''}{kind}")
        if needs.gpu_memory:
            parts.append(f"{needs.gpu_memory:g} GiB{' each' if needs.gpus > 1 else ''}")
    else:
        parts.append("CPU")
    if needs.memory:
        parts.append(f"{needs.memory:g} GiB of host memory")
    return ", ".join(parts)


def result_lines(cell: CellResult, *, width: int) -> list[str]:
    """The line of one cell, then its gates, whose fault it is, and what each patch is needed for."""
    shown = f"{cell.outcome}{' (expected)' if cell.as_expected and cell.outcome is Outcome.BACKEND_CANNOT else ''}"
    lines = [
        f"{SYMBOLS[cell.outcome]} {cell.identifier:<{width}}  {shown:<9}  {cell.seconds:6.1f} s".rstrip()
    ]
    if cell.outcome in (Outcome.SKIPPED, Outcome.BROKEN, Outcome.BACKEND_CANNOT):
        lines.append(f"    {cell.reason}")
    else:
        lines += [
            f"    {_mark(gate.outcome)} {gate.check}: {gate.detail}"
            for gate in cell.gates
            if gate.check is not Check.STARTS or gate.failed
        ]
    if cell.blame is not None:
        lines.append(f"    fault: {cell.blame.words}: {cell.blame.reason}")
        lines += [f"      {trial.label}: {trial.outcome}: {trial.detail}" for trial in cell.blame.trials]
    lines += [f"    {trial.label}: {trial.outcome}: {trial.detail}" for trial in cell.needed]
    return lines


def _mark(outcome: GateOutcome) -> str:
    return {GateOutcome.PASSED: "ok  ", GateOutcome.FAILED: "FAIL", GateOutcome.SKIPPED: "skip"}[outcome]


def tally(cells: Sequence[CellResult]) -> str:
    """How many of which outcome."""
    counts = {outcome: sum(1 for cell in cells if cell.outcome is outcome) for outcome in Outcome}
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count) or "no cells"


def headline(run: Run) -> str:
    """What was tested, in one line."""
    tree = f", tree {run.tree[:12]}" if run.tree else ""
    return f"{run.wheel} (sha256 {run.wheel_sha256[:12]}{tree}), {run.started}"


def junit(run: Run) -> str:
    """JUnit XML as Jenkins, GitLab and GitHub's report actions read it: a test case a cell."""
    suites = ET.Element("testsuites")
    suite = ET.SubElement(
        suites,
        "testsuite",
        name="forktool matrix",
        tests=str(len(run.cells)),
        failures=str(sum(1 for cell in run.cells if cell.outcome is Outcome.FAILED)),
        errors=str(sum(1 for cell in run.cells if cell.outcome is Outcome.BROKEN)),
        skipped=str(sum(1 for cell in run.cells if _is_skip(cell))),
        time=f"{sum(cell.seconds for cell in run.cells):.3f}",
        timestamp=run.started,
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in (("wheel", run.wheel), ("wheel_sha256", run.wheel_sha256), ("tree", run.tree or "")):
        ET.SubElement(properties, "property", name=name, value=value)
    for cell in run.cells:
        case = ET.SubElement(
            suite, "testcase", classname="matrix", name=cell.identifier, time=f"{cell.seconds:.3f}"
        )
        body = "\n".join(_xml_text(line) for line in result_lines(cell, width=0))
        if _is_skip(cell):
            ET.SubElement(case, "skipped", message=_xml_text(cell.reason))
        elif not cell.as_expected:
            kind = "error" if cell.outcome is Outcome.BROKEN else "failure"
            ET.SubElement(case, kind, message=_xml_text(cell.reason), type=str(cell.outcome)).text = body
        ET.SubElement(case, "system-out").text = body
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _is_skip(cell: CellResult) -> bool:
    return cell.outcome is Outcome.SKIPPED or (cell.outcome is Outcome.BACKEND_CANNOT and cell.as_expected)


def _xml_text(text: str) -> str:
    # XML 1.0 (section 2.2) has no way to write control characters, and logs are full of them.
    return "".join(letter for letter in text if letter in "\t\n" or (letter >= " " and letter not in "￾￿"))


def markdown(run: Run, *, limit: int = 900_000) -> str:
    """A summary for a pull request or a job's page.

    Args:
        run: what to show.
        limit: bytes; GitHub takes 1 MiB of summary a step. Beyond it only the table is kept.
    """
    lines = [f"### Matrix: {tally(run.cells)}", "", f"`{run.wheel}`, sha256 `{run.wheel_sha256}`"]
    if run.tree:
        lines[-1] += f", tree `{run.tree}`"
    lines += [
        "",
        "| cell | outcome | right | quality | accepted | faster | s |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell in run.cells:
        columns = [f"`{cell.identifier}`", _outcome_cell(cell)]
        columns += [_short(cell, checks) for checks in COLUMNS.values()]
        lines.append(f"| {' | '.join([*columns, f'{cell.seconds:.0f}'])} |")
    table = "\n".join(lines) + "\n"
    details = []
    for cell in run.cells:
        if cell.outcome is Outcome.PASSED and not cell.needed:
            continue
        body = "\n".join(result_lines(cell, width=0))
        commands = "\n".join(cell.evidence.commands)
        details.append(
            f"<details><summary><code>{_escaped(cell.identifier)}</code>: {_escaped(cell.reason)}</summary>\n\n"
            f"{_fenced(body)}\n\n{_fenced(commands)}\n</details>\n"
        )
    whole = table + "\n" + "\n".join(details)
    if len(whole.encode()) <= limit:
        return whole
    note = "\nThe details are left out: they are longer than this page may be.\n"
    kept = table.encode()[: limit - len(note.encode())].decode("utf-8", "ignore")
    return kept.rpartition("\n")[0] + "\n" + note


def _outcome_cell(cell: CellResult) -> str:
    mark = "✅" if cell.outcome is Outcome.PASSED else "➖" if cell.as_expected else "❌"
    return f"{mark} {cell.outcome}{f' ({_piped(cell.blame.words)})' if cell.blame else ''}"


COLUMNS: Mapping[str, tuple[Check, ...]] = {
    "right": (Check.RIGHT,),
    "quality": (Check.QUALITY, Check.LM_EVAL),
    "accepted": (Check.ACCEPTED,),
    "faster": (Check.FASTER,),
}
"""The columns of a table of cells, and the checks that each shows."""


def _short(cell: CellResult, checks: Sequence[Check]) -> str:
    parts = []
    for gate in filter(None, (cell.gate(check) for check in checks)):
        strong = "**" if gate.failed else ""
        parts.append(f"{strong}{_piped(short_value(cell, gate.check) or gate.detail)}{strong}")
    return "; ".join(parts)


def short_value(cell: CellResult, check: Check) -> str | None:
    """The one number of a gate that a table has room for."""
    gate = cell.gate(check)
    if gate is None:
        return None
    numbers = gate.numbers
    if check is Check.ACCEPTED and "rate" in numbers:
        return f"{numbers['rate'] * 100:.1f} %, {numbers['length']:.2f} a step"
    if check is Check.QUALITY and numbers:
        worst = min(numbers.values(), key=lambda side: float(side["share"]))
        return f"{worst['right']}/{worst['of']}"
    if check is Check.LM_EVAL and numbers:
        side = numbers.get("with") or numbers.get("without") or {}
        return ", ".join(f"{task} {found['score']:.3g}" for task, found in side.items())
    if check is Check.FASTER and numbers.get("levels"):
        return ", ".join(f"{level['ratio']:.2f}×" for level in numbers["levels"])
    if check is Check.RIGHT and "compared" in numbers:
        differing = {item["prompt"] for item in numbers["differences"]} if gate.failed else ()
        return (
            f"{len(differing)} of {numbers['prompts']} differ"
            if gate.failed
            else f"{numbers['compared']} equal"
        )
    return None


def _piped(text: str) -> str:
    return _escaped(text).replace("|", "\\|").replace("\n", " ")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}text\n{text}\n{fence}"


def reference_lines(cell: CellResult, runs: Iterable[Run]) -> list[str]:
    """What other engines accept of the same model and drafter, where a run of them is known."""
    ours = _numbers(cell, Check.ACCEPTED).get("length")
    if ours is None or not cell.subject:
        return []
    found: dict[str, str] = {}
    for other in (item for run in runs for item in run.cells):
        length = _numbers(other, Check.ACCEPTED).get("length")
        if length is not None and other.subject == cell.subject and other.engine != cell.engine:
            found[other.engine] = (
                f"{other.engine} accepts {length:.2f} tokens a step here, {cell.engine} {ours:.2f} ({other.identifier})"
            )
    return list(found.values())


def compare(run: Run, other: Run) -> list[dict[str, Any]]:
    """Two runs, cell by cell: outcomes, and the numbers with their spread.

    A change of speed-up counts only where the ranges of the two runs' ratios do not overlap, and one of the acceptance
    rate where it is more than twice its standard error (binomial, both runs' drafted tokens).
    """
    rows = []
    for cell in run.cells:
        before = other.cell(cell.identifier)
        row: dict[str, Any] = {
            "identifier": cell.identifier,
            "now": cell.outcome,
            "then": before.outcome if before else None,
            "accepted": None,
            "faster": [],
        }
        if before is not None:
            row["accepted"] = _compare_accepted(
                _numbers(cell, Check.ACCEPTED), _numbers(before, Check.ACCEPTED)
            )
            row["faster"] = _compare_faster(_numbers(cell, Check.FASTER), _numbers(before, Check.FASTER))
        rows.append(row)
    gone = {cell.identifier for cell in run.cells}
    rows += [
        {"identifier": cell.identifier, "now": None, "then": cell.outcome, "accepted": None, "faster": []}
        for cell in other.cells
        if cell.identifier not in gone
    ]
    return rows


def compare_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """`compare` for people."""
    width = max((len(row["identifier"]) for row in rows), default=0)
    lines = []
    for row in rows:
        change = (
            "" if row["now"] == row["then"] else f"{row['then'] or 'not run'} → {row['now'] or 'not run'}"
        )
        parts = [change or str(row["now"])]
        accepted = row["accepted"]
        if accepted:
            parts.append(
                f"accepted {accepted['then'] * 100:.1f} % → {accepted['now'] * 100:.1f} %{_told(accepted)}"
            )
        parts += [
            f"{item['concurrency']} at once {item['then']:.2f}× → {item['now']:.2f}×{_told(item)}"
            for item in row["faster"]
        ]
        lines.append(f"  {row['identifier']:<{width}}  {'; '.join(parts)}")
    return lines


def _told(item: Mapping[str, Any]) -> str:
    return "" if item["significant"] else " (within the spread)"


def _numbers(cell: CellResult, check: Check) -> Mapping[str, Any]:
    gate = cell.gate(check)
    return gate.numbers if gate is not None else {}


def _compare_accepted(now: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any] | None:
    if "rate" not in now or "rate" not in then:
        return None
    drafted, before = max(1, now["drafted"]), max(1, then["drafted"])
    share = (now["accepted"] + then["accepted"]) / (drafted + before)
    error = (share * (1 - share) * (1 / drafted + 1 / before)) ** 0.5
    difference = now["rate"] - then["rate"]
    return {"now": now["rate"], "then": then["rate"], "significant": abs(difference) > 2 * error}


def _compare_faster(now: Mapping[str, Any], then: Mapping[str, Any]) -> list[dict[str, Any]]:
    before = {level["concurrency"]: level for level in then.get("levels", ())}
    return [
        {
            "concurrency": level["concurrency"],
            "now": level["ratio"],
            "then": before[level["concurrency"]]["ratio"],
            "significant": level["ratio_low"] > before[level["concurrency"]]["ratio_high"]
            or level["ratio_high"] < before[level["concurrency"]]["ratio_low"],
        }
        for level in now.get("levels", ())
        if level["concurrency"] in before
    ]
