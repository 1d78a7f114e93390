"""Templates: the real ones of vLLM 0.16.0 and 0.33.0, and others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forktool.core.pr_template import LIMIT, Part, fill, normalised, parse_template, shortened

VLLM_0_16 = """\
<!-- markdownlint-disable -->
PLEASE FILL IN THE PR DESCRIPTION HERE ENSURING ALL CHECKLIST ITEMS (AT THE BOTTOM) HAVE BEEN CONSIDERED.

## Purpose

## Test Plan

## Test Result

---
<details>
<summary> Essential Elements of an Effective PR Description Checklist </summary>

- [ ] The purpose of the PR, such as "Fix some issue (link existing issues this PR will resolve)".
- [ ] The test plan, such as providing test command.
</details>

**BEFORE SUBMITTING, PLEASE READ <https://docs.vllm.ai/en/latest/contributing>** (anything below is removed)
"""
VLLM_0_33 = """\
<!-- markdownlint-disable -->

## Overview

<!-- Summarize the change in 1-2 lines. Link relevant issues and PRs. -->

## Claims

<!-- State the accomplishments in a few concrete bullets: speedups, feature support, bug fixes, etc. -->

## Validation

<!-- Show evidence that the claims are met by this change, and steps to reproduce validations. -->

## Details

<!-- Explain motivation, design decisions, root cause, tradeoffs, and limitations concisely. -->

---

<details>
<summary> Pull Request Checklist </summary>

- [ ] I used vLLM's `/pr-checklist` skill. (Mandatory for agents, optional for humans).
- [ ] AI assistance was used during the creation of this PR.
</details>

**BEFORE SUBMITTING, PLEASE READ <https://docs.vllm.ai/en/latest/contributing>** (anything below is removed)
"""
PARTS = {part: f"the {part}" for part in Part}


def sections(body: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in body.partition("\n---")[0].splitlines():
        if line.startswith("#"):
            found[line.lstrip("# ")] = []
        elif line:
            found[next(reversed(found))].append(line)
    return found


def test_the_old_template_takes_each_part_where_it_asks_for_it() -> None:
    filled = fill(parse_template(VLLM_0_16), PARTS, true_of=["the purpose of"])
    assert sections(filled.body) == {
        "Purpose": ["the summary", "the claims", "the details"],
        "Test Plan": ["the plan"],
        "Test Result": ["the results"],
    }
    assert "- [x] The purpose of the PR" in filled.body
    assert filled.open_boxes == ("The test plan, such as providing test command.",)
    assert "PLEASE" not in filled.body


def test_the_new_template_takes_each_part_where_it_asks_for_it() -> None:
    filled = fill(parse_template(VLLM_0_33), PARTS)
    assert sections(filled.body) == {
        "Overview": ["the summary"],
        "Claims": ["the claims"],
        "Validation": ["the plan", "the results"],
        "Details": ["the details"],
    }
    assert "<!--" not in filled.body
    assert filled.body.endswith("</details>\n")
    assert len(filled.open_boxes) == 2


def test_a_section_that_nothing_is_known_for_stays_and_is_named() -> None:
    filled = fill(parse_template("## What\n\n## Screenshots\n"), {Part.SUMMARY: "x"})
    assert filled.body == "## What\n\nx\n\n## Screenshots\n"
    assert filled.empty == ("Screenshots",)


def test_a_template_without_headings_keeps_its_boxes() -> None:
    template = parse_template("Please describe.\n\n- [ ] I signed the CLA\n")
    assert template.boxes == ("I signed the CLA",)
    assert [section.title for section in template.sections] == [
        "Purpose",
        "Test plan",
        "Test result",
        "Details",
    ]


def test_what_upstreams_job_does_to_a_body_does_not_count() -> None:
    ours = fill(parse_template(VLLM_0_33), PARTS).body
    theirs = "<!-- markdownlint-disable -->\r\n" + ours.replace("\n", "\r\n") + "\r\n\r\n\r\n"
    assert normalised(theirs) == normalised(ours)
    assert normalised(ours + "\n**BEFORE SUBMITTING** read\nand more") == normalised(ours)
    assert normalised(None) == ""
    assert normalised("a\n\nb") != normalised("a\n\nc")


@given(st.text(alphabet="ab \r\n<!->-", max_size=60))
def test_normalising_twice_changes_nothing(body: str) -> None:
    assert normalised(normalised(body)) == normalised(body)


def test_a_body_that_fits_is_left_alone() -> None:
    assert shortened("x" * LIMIT, "u") == "x" * LIMIT


@pytest.mark.parametrize("opening", ["", "```\n", "<details>\n", "<details>\n<details>\n```\n"])
def test_a_long_body_is_cut_at_a_line_closed_and_linked(opening: str) -> None:
    cut = shortened(opening + "a line\n" * 20_000, "https://example.org/full")
    assert len(cut) <= LIMIT
    assert cut.endswith("… cut at 65,536 characters; [the full report](https://example.org/full)\n")
    assert cut.count("```") % 2 == 0
    assert cut.count("<details") == cut.count("</details>")
    assert cut.count("a line\n") > 9_000


@given(st.integers(200, 400), st.text(alphabet="ab\n`<>", max_size=600))
def test_a_cut_body_never_exceeds_the_limit(limit: int, body: str) -> None:
    assert len(shortened(body, "https://e.org", limit=limit)) <= max(limit, 0)
