"""What a patched wheel says of itself: `dist-info/forktool.json`.

Schema 1, UTF-8 JSON, keys sorted, two spaces of indentation:

    schema      1
    version     the wheel's version, with its local part
    base        {package, version, tag, tree}: the release that the series was rebased onto; `tree` is its git
                tree id
    tree        the git tree id of the base with the series on it
    published   {filename, sha256}: the wheel that was copied
    series      {label, digest}: the digest is `Series.digest`
    patches     [{name, sha256, subject, verdict, kind, references}]: in the order applied; `kind` is
                CycloneDX's: unofficial, backport, cherry-pick
    files       {changed, added, deleted}: member names, sorted

PEP 770 and PEP 639 reserve sub-folders of dist-info, not files in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from forktool.errors import IntegrityError

PROVENANCE_NAME = "forktool.json"
SBOM_NAME = "sboms/forktool.cdx.json"
_SCHEMA = 1
_KINDS = ("unofficial", "backport", "cherry-pick")


@dataclass(frozen=True, kw_only=True, slots=True)
class CarriedPatch:
    """A patch in the wheel; `sha256` is of the patch file, `references` are URLs of requests and bugs."""

    name: str
    sha256: str
    subject: str
    verdict: str
    kind: str = "unofficial"
    references: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """The content of forktool.json; the module says what each part means."""

    version: str
    package: str
    base_version: str
    base_tag: str
    base_tree: str
    tree: str
    published_filename: str
    published_sha256: str
    label: str
    series_digest: str
    patches: tuple[CarriedPatch, ...]
    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


def format_provenance(provenance: Provenance) -> bytes:
    """Write forktool.json: the same bytes for the same provenance."""
    document = {
        "schema": _SCHEMA,
        "version": provenance.version,
        "base": {
            "package": provenance.package,
            "version": provenance.base_version,
            "tag": provenance.base_tag,
            "tree": provenance.base_tree,
        },
        "tree": provenance.tree,
        "published": {"filename": provenance.published_filename, "sha256": provenance.published_sha256},
        "series": {"label": provenance.label, "digest": provenance.series_digest},
        "patches": [asdict(patch) for patch in provenance.patches],
        "files": {
            "changed": sorted(provenance.changed),
            "added": sorted(provenance.added),
            "deleted": sorted(provenance.deleted),
        },
    }
    return (json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def parse_provenance(content: bytes, *, where: str) -> Provenance:
    """Read forktool.json.

    Raises:
        IntegrityError: not JSON of schema 1.
    """
    try:
        document = json.loads(content)
    except ValueError as error:
        raise IntegrityError(f"{where}: {PROVENANCE_NAME} is not JSON: {error}") from error
    if not isinstance(document, Mapping) or document.get("schema") != _SCHEMA:
        raise IntegrityError(
            f"{where}: {PROVENANCE_NAME} is not of schema {_SCHEMA}",
            hint="read it with the forktool that made it",
        )
    try:
        base, published = document["base"], document["published"]
        series, files = document["series"], document["files"]
        return Provenance(
            version=_text(document["version"]),
            package=_text(base["package"]),
            base_version=_text(base["version"]),
            base_tag=_text(base["tag"]),
            base_tree=_text(base["tree"]),
            tree=_text(document["tree"]),
            published_filename=_text(published["filename"]),
            published_sha256=_text(published["sha256"]),
            label=_text(series["label"]),
            series_digest=_text(series["digest"]),
            patches=tuple(_patch(item) for item in document["patches"]),
            changed=_texts(files["changed"]),
            added=_texts(files["added"]),
            deleted=_texts(files["deleted"]),
        )
    except (KeyError, TypeError) as error:
        raise IntegrityError(f"{where}: {PROVENANCE_NAME} lacks or misspells {error}") from error


def _patch(item: Mapping[str, object]) -> CarriedPatch:
    kind = _text(item["kind"])
    if kind not in _KINDS:
        raise TypeError(f"kind {kind!r}")
    return CarriedPatch(
        name=_text(item["name"]),
        sha256=_text(item["sha256"]),
        subject=_text(item["subject"]),
        verdict=_text(item["verdict"]),
        kind=kind,
        references=_texts(item["references"]),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text: {value!r}")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"a list: {value!r}")
    return tuple(_text(item) for item in value)
