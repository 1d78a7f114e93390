"""The lm-evaluation-harness, run against a cell's server."""

from __future__ import annotations

import json
import os
from pathlib import Path

from forktool.adapters.environments import find_program
from forktool.adapters.openai_api import OpenAiApi
from forktool.adapters.state import translated
from forktool.commands.matrix_servers import CellServers, Place
from forktool.core.lm_eval import PROGRAM, Score, harness_command, read_results
from forktool.core.matrix import LmEval
from forktool.core.matrix_engine import cause_line
from forktool.errors import NetworkError, OutsideError, RequestError


class Harness:
    """Runs the harness for one cell.

    Args:
        program: its executable.
        servers: the cell's.
        place: where its task files are.
        spec: what it is asked.
    """

    def __init__(self, program: str, servers: CellServers, place: Place, spec: LmEval) -> None:
        self._program = program
        self._servers = servers
        self._place = place
        self._spec = spec

    def scores(self, api: OpenAiApi, side: str) -> dict[str, Score]:
        """The scores of each task, asked of one server; `side` is `with` or `without` speculation.

        Raises:
            CancelledError: the run was ended.
            GoneError: the cell's time was over.
            NetworkError: the server is gone.
            OutsideError: the harness failed while the server was well; the message holds its own words.
            RequestError: its results hold no such task or metric.
        """
        launch, spec = self._servers.launch, self._spec
        output = launch.folder / f"lm-eval-{side}-speculation"
        argv = harness_command(
            spec,
            program=self._program,
            port=api.port,
            model=launch.cell.model,
            tokenizer=str(launch.model),
            output=str(output),
            include=str(self._place.path(spec.include).resolve()) if spec.include else None,
            trust_remote_code="--trust-remote-code" in launch.cell.arguments,
        )
        well, lines = self._servers.program(argv, self._environment(), log=f"{output.name}.log")
        if not well:
            cause = cause_line(lines)
            if not api.is_healthy():
                raise NetworkError(f"the server is gone, and lm-eval says {cause}")
            raise OutsideError(f"lm-eval failed: {cause}")
        # `results_<time>.json`, in a folder named after the model.
        files = sorted(output.glob("**/results_*.json"), key=lambda path: path.stat().st_mtime)
        if not files:
            raise OutsideError(f"lm-eval wrote no results into {output}")
        with translated(f"cannot read {files[-1]}"):
            text = files[-1].read_text(encoding="utf-8")
        try:
            document = json.loads(text)
        except ValueError as error:
            raise RequestError(f"{files[-1]}: {error}") from error
        return read_results(document, spec, where=str(files[-1]))

    def _environment(self) -> dict[str, str]:
        """Data sets come from the user's own cache, not from the cell's, which is empty."""
        usual = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "huggingface"
        extra = {"HF_HOME": os.environ.get("HF_HOME", str(usual)), "PYTHONUNBUFFERED": "1"}
        return extra | ({"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"} if self._place.offline else {})


def find_harness(servers: CellServers, place: Place) -> Harness | None:
    """The harness for a cell that asks for it; None where it is not installed."""
    program, spec = find_program(PROGRAM), servers.launch.cell.lm_eval
    return None if program is None or spec is None else Harness(program, servers, place, spec)
