"""The report as one self-contained page: no script, nothing loaded, plots as SVG, and the data itself inside."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from forktool.adapters.html_plots import acceptance_plot, history_plot, speed_plot
from forktool.adapters.matrix_results import tail
from forktool.core.matrix_report import COLUMNS, reference_lines, short_value, tally
from forktool.core.matrix_result import CellResult, GateOutcome, Outcome, Run, Trial, run_document

_LOG_LINES = 120
_WORDS = {GateOutcome.PASSED: "ok", GateOutcome.FAILED: "failed", GateOutcome.SKIPPED: "skipped"}


def page(run: Run, *, history: Sequence[Run], folder: Path) -> str:
    """The page.

    Args:
        run: what to show.
        history: earlier runs, oldest first.
        folder: where the logs' paths begin.
    """
    style = (files("forktool.adapters") / "matrix_page.css").read_text(encoding="utf-8")
    # "</" would end the script element; JSON may hold it only as "<\/".
    data = json.dumps(run_document(run), ensure_ascii=False).replace("</", "<\\/")
    runs = (*history, run)
    when = run.started[:16].replace("T", " ") + (" UTC" if run.started.endswith("+00:00") else "")
    sections = "\n".join(_section(cell, runs, folder) for cell in run.cells)
    tree = f" · tree <code>{escape(run.tree[:12])}</code>" if run.tree else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Matrix: {escape(tally(run.cells))}</title>
<style>
{style}</style>
</head>
<body>
<main>
<h1>Matrix: {escape(tally(run.cells))}</h1>
<p class="soft">{escape(run.wheel)} · sha256 <code>{escape(run.wheel_sha256[:12])}</code>{tree} · {when}</p>
{_table(run)}
{sections}
</main>
<script type="application/json" id="results">{data}</script>
</body>
</html>
"""


def _class(outcome: Outcome) -> str:
    return str(outcome).replace(" ", "-")


def _table(run: Run) -> str:
    rows = []
    for cell in run.cells:
        shown = {
            column: "; ".join(value for check in checks if (value := short_value(cell, check)))
            for column, checks in COLUMNS.items()
        }
        # Where nothing was measured, the row says why.
        values = (
            "".join(
                f'<td class="value" data-label="{column}">{escape(value)}</td>'
                for column, value in shown.items()
            )
            if any(shown.values())
            else f'<td class="reason" colspan="{len(shown)}">{escape(cell.reason)}</td>'
        )
        rows.append(
            f'<tr><td class="name"><a href="#{escape(_anchor(cell))}"><code>{escape(cell.identifier)}</code></a></td>'
            f'<td class="outcome {_class(cell.outcome)}">{escape(cell.outcome)}</td>{values}'
            f'<td class="number" data-label="took">{cell.seconds:.0f} s</td></tr>'
        )
    heads = "".join(f"<th>{column}</th>" for column in ("cell", "outcome", *COLUMNS))
    return (
        f'<div class="table"><table><thead><tr>{heads}<th class="number">took</th></tr></thead><tbody>\n'
        + "\n".join(rows)
        + "\n</tbody></table></div>"
    )


def _anchor(cell: CellResult) -> str:
    return f"cell-{cell.identifier}"


def _section(cell: CellResult, runs: Sequence[Run], folder: Path) -> str:
    expected = " (expected)" if cell.as_expected and cell.outcome is Outcome.BACKEND_CANNOT else ""
    opening = (
        f'<section id="{escape(_anchor(cell))}"><header><h2>{escape(cell.identifier)}</h2>'
        f'<span class="outcome {_class(cell.outcome)}">{escape(cell.outcome)}{expected}</span></header>'
    )
    parts = [opening]
    if not cell.gates:
        parts.append(f"<p>{escape(cell.reason)}</p>")
    else:
        parts.append('<ul class="gates">')
        parts += [
            f'<li><span>{escape(gate.check)}</span><span class="{_gate_class(gate.outcome)}">{_WORDS[gate.outcome]}'
            f'</span><span class="detail">{escape(gate.detail)}</span></li>'
            for gate in cell.gates
        ]
        parts.append("</ul>")
    if cell.blame is not None:
        parts.append(
            f'<div class="fault"><strong>Fault: {escape(cell.blame.words)}</strong>'
            f"<p>{escape(cell.blame.reason)}</p>{_trials(cell.blame.trials)}</div>"
        )
    if cell.needed:
        parts.append(f"<div><h3>Without each patch</h3>{_trials(cell.needed)}</div>")
    parts += [f"<p>{escape(line)}</p>" for line in reference_lines(cell, runs)]
    plots = [plot for plot in (acceptance_plot(cell), speed_plot(cell), history_plot(cell, runs)) if plot]
    if plots:
        parts.append(f'<div class="plots">{"".join(plots)}</div>')
    parts.append(_evidence(cell, folder))
    parts.append("</section>")
    return "\n".join(parts)


def _gate_class(outcome: GateOutcome) -> str:
    return {GateOutcome.PASSED: "passed", GateOutcome.FAILED: "failed", GateOutcome.SKIPPED: "skipped"}[
        outcome
    ]


def _trials(trials: Iterable[Trial]) -> str:
    rows = "".join(
        f'<li><span class="outcome {_class(trial.outcome)}">{escape(trial.outcome)}</span> '
        f"{escape(trial.label)}: {escape(trial.detail)}</li>"
        for trial in trials
    )
    return f"<ul>{rows}</ul>"


def _evidence(cell: CellResult, folder: Path) -> str:
    evidence = cell.evidence
    facts = {
        "wheel": evidence.wheel,
        "sha256": evidence.wheel_sha256,
        "tree": evidence.tree,
        "base": evidence.base_tag,
        "torch": evidence.torch,
        "python": evidence.python,
        "driver": evidence.driver,
        "GPUs": ", ".join(evidence.gpus),
        "host": evidence.host,
        "took": f"{cell.seconds:.1f} s: servers {cell.server_seconds:.1f} s, environment "
        f"{cell.environment_seconds:.1f} s, the runner {cell.overhead:.1f} s",
    }
    items = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items() if value
    )
    commands = "".join(f'<pre class="command">{escape(command)}</pre>' for command in evidence.commands)
    parts = [f"<details><summary>Command and evidence</summary>{commands}<dl>{items}</dl></details>"]
    for log in evidence.logs:
        lines = tail(folder / log, lines=_LOG_LINES)
        text = escape("\n".join(lines)) if lines else "The log is not here."
        parts.append(
            f"<details><summary>{escape(Path(log).name)}</summary>"
            f'<p class="soft">{escape(log)}</p><pre>{text}</pre></details>'
        )
    return "".join(parts)
