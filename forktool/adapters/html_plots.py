"""The report's plots as SVG text: acceptance by position, speed-up by concurrency, both over tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from forktool.core.matrix import Check
from forktool.core.matrix_result import CellResult, Run

_WIDTH, _HEIGHT = 300, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 42, 8, 16, 22


def acceptance_plot(cell: CellResult) -> str:
    """Bars: the share of drafts accepted at each position, and its floor as a dashed line; empty without numbers."""
    numbers = _numbers(cell, Check.ACCEPTED)
    rates = numbers.get("position_rates") or ()
    if not rates:
        return ""
    floors = list(numbers.get("floors", {}).get("by_position") or ())
    step = (_WIDTH - _LEFT - _RIGHT) / len(rates)
    parts = [_frame([(0, "0 %"), (0.5, "50 %"), (1, "100 %")])]
    for number, rate in enumerate(rates):
        x, y = _LEFT + number * step, _y(rate)
        floor = floors[number] if number < len(floors) else None
        below = floor is not None and rate < floor
        width = min(step * 0.6, 48)
        left = x + (step - width) / 2
        parts.append(
            f'<rect class="bar{" below" if below else ""}" x="{left:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{_y(0) - y:.1f}"/>'
        )
        middle = x + step / 2
        parts.append(_text(middle, max(y - 3, 10), f"{rate * 100:.0f}", "value"))
        parts.append(_text(middle, _HEIGHT - 6, str(number + 1)))
        if floor is not None:
            parts.append(_line(left - 3, _y(floor), left + width + 3, _y(floor), "floor"))
    return _figure("Accepted by draft position, %", parts)


def speed_plot(cell: CellResult) -> str:
    """Dots: throughput over throughput without speculation at each concurrency, with its spread and the floor."""
    numbers = _numbers(cell, Check.FASTER)
    levels = numbers.get("levels") or ()
    if not levels:
        return ""
    floor = numbers.get("floor")
    top = max([1.2, *(level["ratio_high"] for level in levels), floor or 0]) * 1.15
    step = (_WIDTH - _LEFT - _RIGHT) / len(levels)
    marks = [(0.0, "0"), (1 / top, "1×")] + ([(2 / top, "2×")] if top > 2 else [])
    parts = [_frame(marks)]
    if floor:
        parts.append(_line(_LEFT, _y(floor / top), _WIDTH - _RIGHT, _y(floor / top), "floor"))
    for number, level in enumerate(levels):
        x = _LEFT + (number + 0.5) * step
        below = " below" if floor and level["ratio"] < floor else ""
        parts.append(
            _line(x, _y(level["ratio_low"] / top), x, _y(level["ratio_high"] / top), f"spread{below}")
        )
        parts.append(f'<circle class="dot{below}" cx="{x:.1f}" cy="{_y(level["ratio"] / top):.1f}" r="3"/>')
        parts.append(_text(x, _y(level["ratio_high"] / top) - 7, f"{level['ratio']:.2f}×", "value"))
        parts.append(_text(x, _HEIGHT - 6, str(level["concurrency"])))
    return _figure("Speed-up by requests at once", parts)


def history_plot(cell: CellResult, runs: Sequence[Run]) -> str:
    """A line: the acceptance rate of the same cell over runs, named by tag; empty where there is only one."""
    points = []
    for run in runs:
        found = run.cell(cell.identifier)
        rate = _numbers(found, Check.ACCEPTED).get("rate") if found is not None else None
        if rate is not None:
            points.append((run.base_tag or run.started[:10], float(rate)))
    points = points[-8:]
    if len(points) < 2:
        return ""
    step = (_WIDTH - _LEFT - _RIGHT) / len(points)
    places = [(_LEFT + (number + 0.5) * step, _y(rate)) for number, (_tag, rate) in enumerate(points)]
    parts = [_frame([(0, "0 %"), (0.5, "50 %"), (1, "100 %")])]
    parts.append(f'<polyline class="trend" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}"/>')
    for number, ((tag, rate), (x, y)) in enumerate(zip(points, places, strict=True)):
        parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>')
        parts.append(_text(x, max(y - 7, 10), f"{rate * 100:.0f}", "value"))
        # Labels of neighbours would overlap where there are many.
        if len(points) <= 5 or number in (0, len(points) - 1):
            parts.append(_text(x, _HEIGHT - 6, tag))
    return _figure("Accepted over tags, %", parts)


def _numbers(cell: CellResult, check: Check) -> Mapping[str, Any]:
    gate = cell.gate(check)
    return gate.numbers if gate is not None else {}


def _y(share: float) -> float:
    return _TOP + (1 - min(1.0, max(0.0, share))) * (_HEIGHT - _TOP - _BOTTOM)


def _frame(marks: Sequence[tuple[float, str]]) -> str:
    parts = []
    for share, label in marks:
        parts.append(_line(_LEFT, _y(share), _WIDTH - _RIGHT, _y(share), "axis"))
        parts.append(_text(_LEFT - 4, _y(share) + 4, label, anchor="end"))
    return "".join(parts)


def _line(x1: float, y1: float, x2: float, y2: float, name: str) -> str:
    return f'<line class="{name}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, name: str = "", anchor: str = "middle") -> str:
    kind = f' class="{name}"' if name else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _figure(title: str, parts: Sequence[str]) -> str:
    return (
        f'<figure><h3>{escape(title)}</h3><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg></figure>'
    )
