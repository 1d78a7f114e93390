"""What the GPU matrix found out, as far as another command may rely on it: evidence names a tree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forktool.core.objects import Oid, is_oid
from forktool.errors import PatchsetError


@dataclass(frozen=True, kw_only=True, slots=True)
class CellEvidence:
    """One cell of the matrix that ran.

    Attributes:
        name: the cell's identifier.
        outcome: in the matrix's own words, such as `passed`.
        hardware: what it ran on, empty where the file does not say.
        gates: each check with what it showed, in the matrix's words.
    """

    name: str
    outcome: str
    hardware: str = ""
    gates: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixEvidence:
    """The results of one run of the matrix, on one tree and one wheel."""

    tree: Oid
    wheel_sha256: str
    cells: tuple[CellEvidence, ...]


def parse_evidence(text: str, *, file: str) -> MatrixEvidence:
    """Read the results of the matrix.

    It is an object with `tree`, `wheel_sha256` and `cells`, each with `identifier`, `outcome`, `gates` and `evidence`.

    Raises:
        PatchsetError: malformed, or without the id of a tree.
    """
    hint = "forktool matrix run"
    try:
        document = json.loads(text)
    except ValueError as error:
        raise PatchsetError(f"{file}: not JSON: {error}", hint=hint) from error
    tree = document.get("tree") if isinstance(document, dict) else None
    if not isinstance(tree, str) or not is_oid(tree):
        raise PatchsetError(f"{file}: it does not name the tree that was tested", hint=hint)
    cells = document.get("cells", [])
    if not isinstance(cells, list) or not all(
        isinstance(cell, dict) and "identifier" in cell for cell in cells
    ):
        raise PatchsetError(f"{file}: `cells` must be a list of cells with identifiers", hint=hint)
    return MatrixEvidence(
        tree=Oid(tree),
        wheel_sha256=str(document.get("wheel_sha256") or ""),
        cells=tuple(_cell(cell) for cell in cells if cell.get("outcome") != "skipped"),
    )


def _cell(cell: Mapping[str, Any]) -> CellEvidence:
    ran_on = cell.get("evidence")
    gpus = ran_on.get("gpus") if isinstance(ran_on, dict) else None
    counts: dict[str, int] = {}
    for gpu in gpus if isinstance(gpus, list) else []:
        counts[str(gpu)] = counts.get(str(gpu), 0) + 1
    gates = cell.get("gates")
    return CellEvidence(
        name=str(cell["identifier"]),
        outcome=str(cell.get("outcome") or "unknown"),
        hardware=", ".join(f"{count}x {gpu}" for gpu, count in counts.items()),
        gates=tuple(
            (str(gate["check"]), str(gate.get("detail") or gate.get("outcome") or ""))
            for gate in (gates if isinstance(gates, list) else [])
            if isinstance(gate, dict) and "check" in gate
        ),
    )


def check_tree(evidence: MatrixEvidence, tree: Oid, *, file: str) -> None:
    """Refuse evidence of another tree.

    Raises:
        PatchsetError: the results are of another tree than `tree`.
    """
    if evidence.tree != tree:
        raise PatchsetError(
            f"{file}: the matrix tested tree {evidence.tree[:12]}, the tree at hand is {tree[:12]}",
            hint="forktool matrix run",
        )
