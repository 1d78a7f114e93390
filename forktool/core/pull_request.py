"""The pull request of one patch: what is known of it, as a title and a body in upstream's own form."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forktool.core.evidence import MatrixEvidence
from forktool.core.pr_rules import Documentation, Size, TitleRule, bare_title
from forktool.core.pr_template import Part, Template, fill
from forktool.core.series import Patch, PatchName
from forktool.core.trailers import FORK_KEYS, Trailer, join_trailers, split_trailers, values
from forktool.core.verdict import ProbeColour
from forktool.errors import PatchsetError, RequestError

DUPLICATES_PENDING = "Duplicate search: not done yet; `forktool pr submit` does it before anything is pushed."
"""Stands in a draft until `submit` has searched."""

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")
_KEYS = ("upstream", "fork", "base-url", "ai-assistance", "titles", "documentation")


@dataclass(frozen=True, kw_only=True, slots=True)
class PullRequestConfig:
    """The table `[pull-request]` of patchset.toml.

    Attributes:
        upstream: `OWNER/NAME` of the repository that gets the pull request.
        fork: `OWNER/NAME` of the one that it is pushed to; None takes the login's.
        base_url: of the REST API; another one than GitHub's own for an Enterprise Server.
        ai_assistance: the statement about AI assistance, where there is one to make.
        titles: a title for a patch whose subject is not one that upstream takes.
        documentation: why a patch needs none, where that cannot be told from its lines.
    """

    upstream: str | None = None
    fork: str | None = None
    base_url: str = "https://api.github.com"
    ai_assistance: str | None = None
    titles: Mapping[str, str] = field(default_factory=dict)
    documentation: Mapping[str, str] = field(default_factory=dict)


def pull_request_config(table: Mapping[str, Any], *, file: str) -> PullRequestConfig:
    """Read `[pull-request]`.

    Raises:
        PatchsetError: an unknown key (names the nearest), or a value of the wrong kind.
    """
    for key in table:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            meant = f"did you mean {near[0]}?" if near else ", ".join(_KEYS)
            raise PatchsetError(f"{file}: [pull-request] {key} is not known here; {meant}")
    texts: dict[str, str] = {}
    for key in _KEYS[:4]:
        value = table.get(key)
        if value is None:
            continue
        if not isinstance(value, str) or not value.strip():
            raise PatchsetError(f"{file}: [pull-request] {key} must be a text that is not empty")
        if key in ("upstream", "fork") and not _REPOSITORY.fullmatch(value):
            raise PatchsetError(f"{file}: [pull-request] {key} must be OWNER/NAME, not {value}")
        if key == "base-url" and not re.fullmatch(r"https?://[^\s@]+", value):
            raise PatchsetError(
                f"{file}: [pull-request] base-url must be an http or https URL without credentials",
                hint='as in base-url = "https://github.example.com/api/v3"',
            )
        texts[key] = value.strip()
    tables: dict[str, dict[str, str]] = {}
    for key in _KEYS[4:]:
        value = table.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            raise PatchsetError(f"{file}: [pull-request.{key}] must map patch names to texts")
        tables[key] = value
    return PullRequestConfig(
        upstream=texts.get("upstream"),
        fork=texts.get("fork"),
        base_url=texts.get("base-url", "https://api.github.com").rstrip("/"),
        ai_assistance=texts.get("ai-assistance"),
        titles=tables["titles"],
        documentation=tables["documentation"],
    )


def upstream_message(message: str) -> str:
    """A commit message as upstream gets it: the trailers that speak to the fork's maintainers are gone."""
    text, trailers = split_trailers(message)
    kept: tuple[Trailer, ...] = tuple(
        item for item in trailers if item[0].lower() not in {key.lower() for key in FORK_KEYS}
    )
    return join_trailers(text, kept)


def branch_name(name: PatchName) -> str:
    """The branch of a patch's pull request: the key by which it is found again."""
    return f"forktool/{name}"


def title_of(patch: Patch, rule: TitleRule, titles: Mapping[str, str]) -> str:
    """The title: that of patchset.toml, else the patch's subject.

    Raises:
        RequestError: upstream's rule refuses it.
    """
    title = titles.get(patch.name, patch.subject).strip()
    problem = rule.problem(title)
    if problem is not None:
        raise RequestError(
            f"{patch.name}: {title!r} is no title for upstream: {problem}",
            hint=f'set {patch.name} = "[Bugfix] …" under [pull-request.titles] in patchset.toml',
        )
    return title


@dataclass(frozen=True, kw_only=True, slots=True)
class Hooks:
    """How upstream's pre-commit hooks ended on the touched files; `ran` is False where they could not run."""

    ran: bool
    passed: bool = False
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """All that a draft may state, none of it made up.

    Attributes:
        patch: as it is in the series.
        onto: what it was replayed onto, as `main at 0123456789ab`.
        probe_bare: the probe's answer on bare upstream.
        probe_patched: on upstream with the patch; None where there is none.
        probe_tests: the tests of the probe, in words.
        matrix: evidence of this very tree.
        size: against upstream's limit.
        documentation: what is touched, and what a user can see.
        hooks: upstream's pre-commit hooks.
    """

    patch: Patch
    onto: str
    probe_bare: ProbeColour
    probe_patched: ProbeColour | None
    probe_tests: tuple[str, ...]
    size: Size
    documentation: Documentation
    hooks: Hooks
    matrix: MatrixEvidence | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Composed:
    """Title and body, and what a person still has to do."""

    title: str
    body: str
    todo: tuple[str, ...]


def compose(known: Known, template: Template, rule: TitleRule, config: PullRequestConfig) -> Composed:
    """Title and body of a patch's pull request, by upstream's template.

    Raises:
        RequestError: upstream's rule refuses the title, or the patch is not signed off.
    """
    patch = known.patch
    title = title_of(patch, rule, config.titles)
    text, trailers = split_trailers(upstream_message(patch.message))
    signed = values(trailers, "Signed-off-by")
    if not signed:
        raise RequestError(
            f"{patch.name} has no Signed-off-by, which upstream's DCO check asks for",
            hint=f"add a Signed-off-by trailer to {patch.name}: forktool apply DIR, git commit --amend --signoff",
        )
    paragraphs = [part for part in text.partition("\n")[2].strip("\n").split("\n\n") if part.strip()]
    summary = _flowed(paragraphs[0]) if paragraphs else title
    todo: list[str] = []
    parts = {
        Part.SUMMARY: summary,
        Part.CLAIMS: _claims(known),
        Part.PLAN: _plan(known),
        Part.RESULTS: _results(known, todo),
        Part.DETAILS: _details(known, paragraphs[1:], signed, config, todo),
    }
    true_of = ["test plan", "test result", "the purpose of the"]
    if config.ai_assistance is not None:
        true_of.append("ai assistance was used")
    if known.documentation.touched:
        true_of.append("documentation update")
    filled = fill(template, {part: unmentioned(text) for part, text in parts.items()}, true_of=true_of)
    todo += [f"fill the section {section!r}" for section in filled.empty]
    todo += [f"tick if true: {_short(box)}" for box in filled.open_boxes]
    return Composed(title=title, body=filled.body, todo=tuple(todo))


_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
_MENTION = re.compile(r"(?<![\w@/.])@([A-Za-z0-9][\w-]*(?:[./][\w-]+)*)")


def unmentioned(text: str) -> str:
    """The text with every `@name` outside code put into code: GitHub would notify that person."""
    pieces = _CODE.split(text)
    return "".join(
        piece if number % 2 else _MENTION.sub(r"`@\1`", piece) for number, piece in enumerate(pieces)
    )


def _short(text: str) -> str:
    return text if len(text) <= 90 else text[:89] + "…"


def _flowed(paragraph: str) -> str:
    """A hard-wrapped paragraph as one line, which GitHub would else break at each; lists and code stay."""
    if re.search(r"^(\s{4,}|[-*>|] |\d+\. |```)", paragraph, re.MULTILINE):
        return paragraph
    return " ".join(line.strip() for line in paragraph.splitlines())


def _claims(known: Known) -> str:
    lines = [f"- {bare_title(known.patch.subject)}."]
    lines += [f"- {test[:1].upper()}{test[1:]}." for test in known.probe_tests]
    return "\n".join(lines)


def _plan(known: Known) -> str:
    steps = []
    if known.probe_patched not in (None, ProbeColour.ABSENT):
        steps.append(
            f"- Source checks, run on {known.onto} without and with this change: they must fail before and pass "
            "after."
        )
    if known.matrix is not None:
        steps.append(f"- A GPU matrix of {len(known.matrix.cells)} cells on a wheel of this very tree.")
    if known.hooks.ran:
        steps.append("- `pre-commit run --files …` with this repository's own hooks, on the touched files.")
    return "\n".join(steps) or "- No check beyond review was run."


def _results(known: Known, todo: list[str]) -> str:
    colours = {ProbeColour.RED: "fail", ProbeColour.GREEN: "pass", ProbeColour.ABSENT: "not run"}
    chunks: list[str] = []
    if known.probe_patched not in (None, ProbeColour.ABSENT):
        rows = ["| check | before | after |", "|---|---|---|"]
        tests = known.probe_tests or ("source checks",)
        before = colours[known.probe_bare]
        after = colours[known.probe_patched or ProbeColour.ABSENT]
        # One probe answers for all its tests; only a green one speaks for each.
        rows += [f"| {'; '.join(tests)} | {before} | {after} |"]
        chunks.append("\n".join(rows))
    else:
        todo.append("say what fails before and passes after: the patch has no probe")
    if known.matrix is not None:
        chunks.append(_matrix_table(known.matrix))
    else:
        todo.append("add results from a GPU where the change needs one: no matrix evidence is here")
    if known.hooks.ran:
        chunks.append(f"pre-commit: {'passed' if known.hooks.passed else 'failed: ' + known.hooks.detail}.")
    return "\n\n".join(chunks)


def _matrix_table(matrix: MatrixEvidence) -> str:
    names = tuple(dict.fromkeys(name for cell in matrix.cells for name, _detail in cell.gates))
    rows = [
        f"Run outside upstream's CI, on tree `{matrix.tree[:12]}`"
        + (f", wheel sha256 `{matrix.wheel_sha256[:12]}`" if matrix.wheel_sha256 else "")
        + ":",
        "",
        "| " + " | ".join(["cell", "hardware", "result", *names]) + " |",
        "|" + "---|" * (3 + len(names)),
    ]
    for cell in matrix.cells:
        gates = dict(cell.gates)
        cells = [cell.name, cell.hardware or "–", cell.outcome, *(gates.get(name, "–") for name in names)]
        rows.append("| " + " | ".join(text.replace("|", "\\|").replace("\n", " ") for text in cells) + " |")
    return "\n".join(rows)


def _details(
    known: Known,
    paragraphs: Sequence[str],
    signed: Sequence[str],
    config: PullRequestConfig,
    todo: list[str],
) -> str:
    size = known.size
    chunks = [_flowed(paragraph) for paragraph in paragraphs]
    line = f"Size: +{size.added} −{size.removed} lines"
    if size.limit is not None:
        line += f", {size.counted} as {size.source} counts them (an RFC is asked for above {size.limit})"
    chunks.append(line + ".")
    if size.needs_rfc:
        todo.append(f"open an RFC first: {size.counted} lines are over upstream's {size.limit}")
        chunks.append("RFC: _link it here_.")
    chunks.append(_documentation(known, config, todo))
    chunks.append(DUPLICATES_PENDING)
    if config.ai_assistance is not None:
        chunks.append(f"AI assistance: {config.ai_assistance}")
    chunks.append(f"Signed off by {', '.join(signed)}.")
    return "\n\n".join(chunks)


def _documentation(known: Known, config: PullRequestConfig, todo: list[str]) -> str:
    found = known.documentation
    given = config.documentation.get(known.patch.name)
    if found.touched:
        return f"Documentation: {', '.join(f'`{path}`' for path in found.touched)}."
    if given is not None:
        return f"Documentation: none; {given}"
    if found.visible:
        todo.append(f"say why no documentation is touched, though the change adds {', '.join(found.visible)}")
        return f"Documentation: none, though the change adds {', '.join(found.visible)}: _say why_."
    return "Documentation: none; the change adds no command-line argument and reads no environment variable."


def with_duplicates(body: str, statement: str) -> str:
    """The body with the outcome of the search for duplicates."""
    if DUPLICATES_PENDING in body:
        return body.replace(DUPLICATES_PENDING, statement)
    return body.rstrip("\n") + f"\n\n{statement}\n"
