"""Results as JSON and back, as JUnit, Markdown and comparisons."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from forktool.core.matrix import Check
from forktool.core.matrix_report import compare, compare_lines, junit, markdown, reference_lines, result_lines
from forktool.core.matrix_result import Outcome, parse_run, run_document
from forktool.errors import RequestError
from tests.support.matrix_runs import KIMI, UP, accepted, cell, faster, right, run, sample


def test_a_run_comes_back_from_its_json() -> None:
    document = json.loads(json.dumps(run_document(sample())))
    again = parse_run(document, where="results.json")
    assert run_document(again) == run_document(sample())
    assert document["passed"] is False
    assert [item["as_expected"] for item in document["cells"]] == [True, False, False, True, True]


@pytest.mark.parametrize("document", [{}, {"format": 1}, {"format": 1, "cells": [{}]}, {"format": 9}])
def test_anything_else_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(RequestError, match=r"results\.json"):
        parse_run(document, where="results.json")


def test_a_cell_is_shown_with_whose_fault_it_is() -> None:
    lines = result_lines(sample().cells[1], width=0)
    assert lines[0] == "! deepseek-v3-fp8.eagle3.tp8.flashmla.sm100  failed      812.4 s"
    assert "    ok   right: 768 tokens equal" in lines
    assert "    fault: patch mla-decode-padded-batch: the cell passes without it" in lines
    assert "      bare upstream wheel: failed: refused <at> configuration" in lines


def test_junit_counts_and_survives_what_xml_cannot_write() -> None:
    broken = cell("odd", Outcome.BROKEN, reason="a \x00\x1b[31mred\x1b[0m & <b> ￾ reason")
    suite = ET.fromstring(junit(run(*sample().cells, broken)))[0]
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "6",
        "failures": "2",
        "errors": "1",
        "skipped": "2",
    }
    error = suite.find("testcase/error")
    assert error is not None
    assert error.get("message") == "a [31mred[0m & <b>  reason"


def test_markdown_keeps_within_its_limit() -> None:
    many = run(
        *(cell(f"c{number}", Outcome.FAILED, UP, accepted(1, 1, 1), reason="low") for number in range(200))
    )
    whole = markdown(many)
    assert whole.count("<details>") == 200
    table = markdown(many, limit=40_000)
    assert "<details>" not in table
    assert len(table.encode()) <= 40_000
    assert table.count("❌") == 200
    tiny = markdown(many, limit=2_000)
    assert len(tiny.encode()) <= 2_000
    assert tiny.rstrip().endswith("longer than this page may be.")


def test_markdown_cannot_be_broken_out_of() -> None:
    odd = cell("c", Outcome.FAILED, UP, reason="a | b\n``` </details> <img src=x>")
    text = markdown(run(odd))
    assert "<img" not in text.partition("````")[0]
    assert "````text" in text or "```text" in text


def test_a_comparison_tells_changes_from_spread() -> None:
    now = run(cell(KIMI, Outcome.PASSED, UP, right(), accepted(840, 690, 520), faster(1.5, 1.2)))
    then = run(cell(KIMI, Outcome.PASSED, UP, right(), accepted(835, 685, 515), faster(1.49, 0.9)))
    (row,) = compare(now, then)
    assert row["accepted"]["significant"] is False
    assert [item["significant"] for item in row["faster"]] == [False, True]
    (line,) = compare_lines([row])
    assert "accepted 67.8 % → 68.3 % (within the spread)" in line
    assert "1 at once 1.49× → 1.50× (within the spread); 8 at once 0.90× → 1.20×" in line


def test_cells_of_one_run_alone_are_shown_too() -> None:
    one, other = run(cell("a", Outcome.PASSED)), run(cell("b", Outcome.FAILED))
    assert compare_lines(compare(one, other)) == ["  a  not run → passed", "  b  failed → not run"]


def test_another_engine_shows_what_can_be_had() -> None:
    ours = replace(sample().cells[1], subject="deepseek eagle3 k3", engine="vllm")
    theirs = cell(
        "x.sglang", Outcome.PASSED, UP, accepted(800, 700, 600), subject="deepseek eagle3 k3", engine="sglang"
    )
    stranger = cell("y.sglang", Outcome.PASSED, UP, accepted(800, 700, 600), subject="kimi", engine="sglang")
    assert reference_lines(ours, [run(theirs, stranger)]) == [
        "sglang accepts 3.10 tokens a step here, vllm 1.45 (x.sglang)"
    ]
    assert ours.gate(Check.ACCEPTED) is not None
