"""Reading the Prometheus text exposition format, version 0.0.4.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (a sample line is a name, labels in braces, a
value and perhaps a time; backslash, quote and newline are escaped in label values).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*$")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One line: a metric's name, its labels and its value."""

    name: str
    labels: Mapping[str, str]
    value: float


def parse_metrics(text: str) -> tuple[Sample, ...]:
    """All samples of a page; lines that are no samples (comments, or not of this format) are passed over."""
    found = []
    for line in text.split("\n"):
        match = _SAMPLE.match(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        labels = {name: _unescaped(raw) for name, raw in _LABEL.findall(match[2] or "")}
        found.append(Sample(name=match[1], labels=labels, value=value))
    return tuple(found)


def total(samples: Iterable[Sample], name: str) -> float | None:
    """The sum of a counter over its labels; None where it is absent.

    A counter's samples carry the suffix `_total` in the client library's pages; both spellings are taken, never both
    at once.
    """
    values = [sample.value for sample in _named(samples, name)]
    return sum(values) if values else None


def by_label(samples: Iterable[Sample], name: str, label: str) -> dict[str, float]:
    """A counter summed for each value of one label."""
    sums: dict[str, float] = {}
    for sample in _named(samples, name):
        if label in sample.labels:
            key = sample.labels[label]
            sums[key] = sums.get(key, 0.0) + sample.value
    return sums


def _named(samples: Iterable[Sample], name: str) -> list[Sample]:
    kept = tuple(samples)
    with_suffix = [sample for sample in kept if sample.name == f"{name}_total"]
    return with_suffix or [sample for sample in kept if sample.name == name]


def _unescaped(raw: str) -> str:
    return re.sub(r'\\[\\"n]', lambda found: _ESCAPES[found[0]], raw)
