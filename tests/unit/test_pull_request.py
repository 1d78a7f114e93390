"""Titles, bodies and rules of pull requests."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forktool.core.evidence import CellEvidence, check_tree, parse_evidence
from forktool.core.objects import Oid
from forktool.core.pr_rules import (
    Documentation,
    Size,
    TitleRule,
    bare_title,
    documentation_of,
    size_of,
    title_rule,
    title_tags,
)
from forktool.core.pr_template import NO_TEMPLATE, parse_template
from forktool.core.pull_request import (
    DUPLICATES_PENDING,
    Hooks,
    Known,
    PullRequestConfig,
    branch_name,
    compose,
    pull_request_config,
    unmentioned,
    upstream_message,
    with_duplicates,
)
from forktool.core.series import Patch, PatchName, parse_patch
from forktool.core.verdict import ProbeColour
from forktool.errors import PatchsetError, RequestError

VLLM_0_33_PATTERN = r"^(\[[^][]+\])+ +[^[:space:]].*$"
"""vllm-project/vllm, .github/workflows/pr-title.yml at 0.33.0."""

VLLM_0_16_GUIDE = b"""\
- `[Bugfix]` for bug fixes.
- `[CI/Build]` for build or continuous integration improvements.
- `[Hardware][Vendor]` for hardware-specific changes.
- The code needs to be well-documented.
(>500 LOC excluding kernel/data/config/test), we would expect a GitHub issue
"""
VLLM_0_33_GUIDE = b"""\
- `[Bugfix]`, `[Feature]`, `[Perf]`, and `[Refactor]` for code changes.
- `[CI]` or `[CI/Build]`, `[Test]`, and `[Doc]` or `[Docs]` for project
  infrastructure.
"""


def patch(message: str, diff: str = "") -> Patch:
    diff = diff or (
        "diff --git a/vllm/a.py b/vllm/a.py\nindex 1111111111111111111111111111111111111111.."
        "2222222222222222222222222222222222222222 100644\n--- a/vllm/a.py\n+++ b/vllm/a.py\n"
        "@@ -1,2 +1,2 @@\n one\n-two\n+deux\n"
    )
    subject, _newline, rest = message.partition("\n")
    text = (
        f"From {'0' * 40} Mon Sep 17 00:00:00 2001\nFrom: A B <a@b.org>\nDate: Sat, 1 Nov 2025 12:00:00 +0000\n"
        f"Subject: {subject}\n{rest}\n{diff}"
    )
    return parse_patch(PatchName("a"), text.encode(), file="a.patch")


SIGNED = (
    "[Bugfix] Say deux\n\nTwo is said in English.\nSay it in French.\n\nBecause of #12.\n\n"
    "Signed-off-by: A B <a@b.org>\n"
)


def known(message: str = SIGNED, **changes: object) -> Known:
    facts: dict[str, object] = {
        "patch": patch(message),
        "onto": "main at 0123456789ab",
        "probe_bare": ProbeColour.RED,
        "probe_patched": ProbeColour.GREEN,
        "probe_tests": ("deux is said",),
        "size": Size(added=1, removed=1, counted=2, limit=500, source="docs/contributing/README.md"),
        "documentation": Documentation(touched=(), visible=()),
        "hooks": Hooks(ran=True, passed=True),
    }
    return Known(**{**facts, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("title", "fits"),
    [
        ("[Bugfix] Fix it", True),
        ("[Bugfix][Spec Decode] Fix it", True),
        ("[Bugfix]Fix it", False),
        ("Fix it", False),
        ("[] Fix it", False),
        ("[Bugfix] ", False),
        ("[Bugfix] [x", True),
    ],
)
def test_upstreams_pattern_is_read_as_bash_reads_it(title: str, fits: bool) -> None:
    rule = TitleRule(pattern=VLLM_0_33_PATTERN, source="f")
    assert (rule.problem(title) is None) is fits


def test_the_rule_is_the_jobs_pattern_before_the_guides_tags() -> None:
    job = f"          pattern='{VLLM_0_33_PATTERN}'\n".encode()
    files = {".github/workflows/pr-title.yml": job, "docs/contributing/README.md": VLLM_0_16_GUIDE}
    assert title_rule(files.get).pattern == VLLM_0_33_PATTERN
    del files[".github/workflows/pr-title.yml"]
    rule = title_rule(files.get)
    assert rule.tags == ("Bugfix", "CI/Build", "Hardware")
    assert rule.problem("[Hardware][AMD] Fix") is None
    assert rule.problem("[Spec Decode] Fix") == (
        "it must begin with one of [Bugfix] [CI/Build] [Hardware] (docs/contributing/README.md)"
    )
    assert title_rule({"docs/contributing/README.md": VLLM_0_33_GUIDE}.get).tags == (
        "Bugfix", "Feature", "Perf", "Refactor", "CI", "CI/Build", "Test", "Doc", "Docs",
    )  # fmt: skip
    assert title_rule({}.get) == TitleRule()
    assert TitleRule().problem("anything") is None


def test_tags_and_the_rest_of_a_title() -> None:
    assert title_tags("[A][B c] Do [x] it") == ("A", "B c")
    assert bare_title("[A][B c] Do [x] it") == "Do [x] it"
    assert title_tags("Do [x] it") == ()


def test_size_leaves_out_what_upstreams_limit_leaves_out() -> None:
    diff = "".join(
        f"diff --git a/{path} b/{path}\nnew file mode 100644\nindex {'0' * 40}..{'1' * 40}\n"
        f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,2 @@\n+one\n+two\n"
        for path in ("vllm/a.py", "tests/test_a.py", "csrc/a.cu", "vllm/configs/a.json", "vllm/latest.py")
    )
    size = size_of(patch(SIGNED, diff).files, {"docs/contributing/README.md": VLLM_0_16_GUIDE}.get)
    assert (size.added, size.removed, size.counted, size.limit) == (10, 0, 4, 500)
    assert not size.needs_rfc
    assert Size(added=0, removed=0, counted=501, limit=500, source="").needs_rfc
    assert size_of(patch(SIGNED).files, {}.get).limit is None


def test_documentation_tells_what_a_user_can_see() -> None:
    diff = (
        f"diff --git a/vllm/cli.py b/vllm/cli.py\nindex {'1' * 40}..{'2' * 40} 100644\n--- a/vllm/cli.py\n"
        "+++ b/vllm/cli.py\n@@ -1,1 +1,3 @@\n one\n+p.add_argument('--x')\n+x = os.environ['X']\n"
    )
    assert documentation_of(patch(SIGNED, diff).files) == Documentation(
        touched=(), visible=("a command-line argument (vllm/cli.py)", "an environment variable (vllm/cli.py)")
    )
    assert documentation_of(patch(SIGNED, diff.replace("vllm/cli.py", "docs/cli.md")).files).touched == (
        "docs/cli.md",
    )


def test_the_forks_trailers_do_not_go_upstream() -> None:
    message = (
        "S\n\nBody\n\nReason: r\nForwarded: no\nOrigin: o\nSigned-off-by: A <a@b>\nCo-authored-by: C <c@d>\n"
    )
    assert upstream_message(message) == "S\n\nBody\n\nSigned-off-by: A <a@b>\nCo-authored-by: C <c@d>\n"


def test_a_body_says_what_is_known_and_lists_what_is_not() -> None:
    composed = compose(known(), parse_template(NO_TEMPLATE), TitleRule(), PullRequestConfig())
    assert composed.title == "[Bugfix] Say deux"
    assert composed.body == (
        "## Purpose\n\nTwo is said in English. Say it in French.\n\n- Say deux.\n- Deux is said.\n\n"
        "## Test plan\n\n- Source checks, run on main at 0123456789ab without and with this change: they must fail "
        "before and pass after.\n"
        "- `pre-commit run --files …` with this repository's own hooks, on the touched files.\n\n"
        "## Test result\n\n| check | before | after |\n|---|---|---|\n| deux is said | fail | pass |\n\n"
        "pre-commit: passed.\n\n"
        "## Details\n\nBecause of #12.\n\nSize: +1 −1 lines, 2 as docs/contributing/README.md counts them (an RFC is "
        "asked for above 500).\n\nDocumentation: none; the change adds no command-line argument and reads no "
        f"environment variable.\n\n{DUPLICATES_PENDING}\n\nSigned off by A B <a@b.org>.\n"
    )
    assert composed.todo == ("add results from a GPU where the change needs one: no matrix evidence is here",)


def test_a_patch_without_probe_claims_no_check() -> None:
    bare = known(probe_bare=ProbeColour.ABSENT, probe_patched=None, probe_tests=(), hooks=Hooks(ran=False))
    composed = compose(bare, parse_template(NO_TEMPLATE), TitleRule(), PullRequestConfig())
    assert "fail" not in composed.body.partition("## Details")[0]
    assert "- No check beyond review was run." in composed.body
    assert "say what fails before and passes after: the patch has no probe" in composed.todo
    assert "fill the section 'Test result'" in composed.todo


def test_a_large_change_asks_for_an_rfc() -> None:
    size = Size(added=600, removed=0, counted=600, limit=500, source="CONTRIBUTING.md")
    composed = compose(known(size=size), parse_template(NO_TEMPLATE), TitleRule(), PullRequestConfig())
    assert "open an RFC first: 600 lines are over upstream's 500" in composed.todo


def test_documentation_that_is_due_is_asked_for_unless_a_reason_is_given() -> None:
    due = known(documentation=Documentation(touched=(), visible=("an environment variable (a.py)",)))
    template = parse_template(NO_TEMPLATE)
    composed = compose(due, template, TitleRule(), PullRequestConfig())
    assert any(todo.startswith("say why no documentation is touched") for todo in composed.todo)
    given = compose(due, template, TitleRule(), PullRequestConfig(documentation={"a": "internal only."}))
    assert "Documentation: none; internal only." in given.body
    assert not any("documentation" in todo for todo in given.todo)


def test_no_sign_off_is_refused() -> None:
    with pytest.raises(RequestError, match="a has no Signed-off-by, which upstream's DCO check asks for"):
        compose(known("S\n\nBody\n"), parse_template(NO_TEMPLATE), TitleRule(), PullRequestConfig())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ask @someone, and @org/team.", "ask `@someone`, and `@org/team`."),
        ("mail a@b.org", "mail a@b.org"),
        ("`@torch.compile` and @torch.compile", "`@torch.compile` and `@torch.compile`"),
        ("```\n@decorated\n```\n", "```\n@decorated\n```\n"),
        ("https://x.org/@user", "https://x.org/@user"),
    ],
)
def test_nobody_is_mentioned(text: str, said: str) -> None:
    assert unmentioned(text) == said


@given(st.text(alphabet="@a`b/. \n-", max_size=40))
def test_a_text_without_mentions_stays_so(text: str) -> None:
    once = unmentioned(text)
    assert once.replace("`", "") == text.replace("`", "")


def test_the_outcome_of_the_search_takes_its_place() -> None:
    assert with_duplicates(f"a\n\n{DUPLICATES_PENDING}\n\nb\n", "None.") == "a\n\nNone.\n\nb\n"
    assert with_duplicates("a\n", "None.") == "a\n\nNone.\n"
    assert branch_name(PatchName("kimi")) == "forktool/kimi"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"upsteam": "a/b"}, r"\[pull-request\] upsteam is not known here; did you mean upstream\?"),
        ({"upstream": "vllm"}, "upstream must be OWNER/NAME, not vllm"),
        ({"upstream": 3}, "upstream must be a text"),
        ({"base-url": "https://u:p@ghe.org"}, "base-url must be an http or https URL without credentials"),
        ({"titles": {"a": 1}}, r"\[pull-request.titles\] must map patch names to texts"),
    ],
)
def test_a_table_that_makes_no_sense_is_named(table: dict[str, object], message: str) -> None:
    with pytest.raises(PatchsetError, match=message):
        pull_request_config(table, file="patchset.toml")


def test_the_table_is_read() -> None:
    found = pull_request_config(
        {"upstream": "o/n", "fork": "me/n", "base-url": "https://ghe/api/v3/", "titles": {"a": "[X] y"}},
        file="f",
    )
    assert found == PullRequestConfig(
        upstream="o/n", fork="me/n", base_url="https://ghe/api/v3", titles={"a": "[X] y"}
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "does not name the tree"),
        ('{"tree": "abc"}', "does not name the tree"),
        ('{"tree": "%s", "cells": [{}]}' % ("a" * 40), "`cells` must be a list of cells with identifiers"),
    ],
)
def test_evidence_that_is_malformed_is_refused(text: str, message: str) -> None:
    with pytest.raises(PatchsetError, match=message):
        parse_evidence(text, file="results.json")


def test_evidence_is_of_one_tree() -> None:
    cells = [
        {
            "identifier": "c",
            "outcome": "passed",
            "gates": [{"check": "faster", "detail": "1.5 | 2"}, {"check": "starts", "outcome": "passed"}],
            "evidence": {"gpus": ["B200", "B200"]},
        },
        {"identifier": "d", "outcome": "skipped"},
    ]
    found = parse_evidence(json.dumps({"tree": "a" * 40, "cells": cells}), file="f")
    assert found.cells == (
        CellEvidence(
            name="c",
            outcome="passed",
            hardware="2x B200",
            gates=(("faster", "1.5 | 2"), ("starts", "passed")),
        ),
    )
    composed = compose(known(matrix=found), parse_template(NO_TEMPLATE), TitleRule(), PullRequestConfig())
    assert "| cell | hardware | result | faster | starts |" in composed.body
    assert "| c | 2x B200 | passed | 1.5 \\| 2 | passed |" in composed.body
    check_tree(found, Oid("a" * 40), file="f")
    with pytest.raises(
        PatchsetError, match="the matrix tested tree aaaaaaaaaaaa, the tree at hand is bbbbbbbbbbbb"
    ):
        check_tree(found, Oid("b" * 40), file="f")
