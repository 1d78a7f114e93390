"""The lm-evaluation-harness: its command line, its results, and what they must be.

Names are those of lm-eval 0.4.13 (_cli/run.py, models/openai_completions.py, loggers/evaluation_tracker.py), the
distribution `lm-eval` of https://github.com/EleutherAI/lm-evaluation-harness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forktool.core.matrix import Check, LmEval
from forktool.core.matrix_result import Gate, GateOutcome
from forktool.errors import RequestError

PROGRAM = "lm_eval"
MISSING = "lm-eval is not installed (pip install 'lm-eval[api]' transformers)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """One task's score, its standard error where the harness gives one, and how many documents it is of."""

    value: float
    error: float | None = None
    documents: int | None = None


def harness_command(
    spec: LmEval,
    *,
    program: str,
    port: int,
    model: str,
    tokenizer: str,
    output: str,
    include: str | None,
    trust_remote_code: bool,
) -> tuple[str, ...]:
    """Its command line against a server's OpenAI API.

    Args:
        spec: what is asked.
        program: the executable.
        port: the server's, on the loopback interface.
        model: the name that it serves.
        tokenizer: the model's folder.
        output: a folder for the results.
        include: `spec.include`, ready for use.
        trust_remote_code: whether the tokenizer may bring code.

    Raises:
        RequestError: a path holds a comma, which `--model_args` has no way to write.
    """
    if "," in tokenizer:
        raise RequestError(f"{tokenizer}: lm_eval's --model_args can write no path with a comma")
    kind = "chat/completions" if spec.chat else "completions"
    arguments = {
        "model": model,
        "base_url": f"http://127.0.0.1:{port}/v1/{kind}",
        "tokenizer": tokenizer,
        "tokenizer_backend": "huggingface",
        "num_concurrent": spec.concurrency,
        "max_retries": 1,
        "trust_remote_code": trust_remote_code,
    }
    joined = ",".join([*(f"{name}={value}" for name, value in arguments.items()), *spec.model_arguments])
    words = [
        program,
        "--model",
        "local-chat-completions" if spec.chat else "local-completions",
        "--model_args",
        joined,
        "--tasks",
        ",".join(spec.tasks),
    ]
    words += ["--output_path", output]
    for option, value in (
        ("--limit", spec.limit),
        ("--num_fewshot", spec.shots),
        ("--include_path", include),
    ):
        words += [option, str(value)] if value is not None else []
    words += ["--apply_chat_template"] if spec.chat else []
    return (*words, *spec.arguments)


def read_results(document: Mapping[str, Any], spec: LmEval, *, where: str) -> dict[str, Score]:
    """The scores of each task that was asked, from a results file.

    Args:
        document: its JSON.
        spec: what was asked.
        where: its name, for errors.

    Raises:
        RequestError: it is no results file, a task or the metric is not in it, or lower is better for the metric.
    """
    try:
        return {task: _score(document, task, spec.metric, where) for task in spec.tasks}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RequestError(f"{where} holds no results of lm-eval: {error!r}") from error


def _score(document: Mapping[str, Any], task: str, metric: str, where: str) -> Score:
    results = document["results"]
    # A group has its mean under its own name too, in newer versions beside the tasks.
    found = results.get(task) or document.get("groups", {}).get(task)
    if found is None:
        raise RequestError(f"{where}: no task {task}; it has {', '.join(sorted(results))}")
    values = {
        key: float(value)
        for key, value in found.items()
        if metric in (key, key.partition(",")[0]) and isinstance(value, int | float)
    }
    if not values:
        known = sorted(key for key in found if "," in key and "_stderr" not in key)
        raise RequestError(f"{where}: {task} has no metric {metric}; it has {', '.join(known)}")
    key = min(values, key=values.__getitem__)
    name, _, rest = key.partition(",")
    if document.get("higher_is_better", {}).get(task, {}).get(name) is False:
        raise RequestError(f"{where}: of {task}'s {name} lower is better; a floor cannot hold it")
    error = found.get(f"{name}_stderr,{rest}" if rest else f"{name}_stderr")
    documents = document.get("n-samples", {}).get(task, {}).get("effective")
    return Score(
        value=values[key],
        error=float(error) if isinstance(error, int | float) else None,
        documents=int(documents) if documents is not None else None,
    )


def judge_lm_eval(scores: Mapping[str, Mapping[str, Score]], spec: LmEval) -> Gate:
    """Whether the harness's scores are what they should be.

    Args:
        scores: by side (`with`, `without` speculation) and task.
        spec: its floor holds both sides, its tolerance the side with speculation against the other.
    """
    missed, parts = [], []
    for task in spec.tasks:
        sides = {side: found[task] for side, found in scores.items()}
        parts.append(f"{task} {', '.join(f'{_shown(score)} {side}' for side, score in sides.items())}")
        missed += [
            f"{task} {score.value:.4g} {side} speculation, {spec.floor - score.value:.4g} below {spec.floor:g}"
            for side, score in sides.items()
            if spec.floor is not None and score.value < spec.floor
        ]
        if spec.tolerance is not None and len(sides) == 2:
            loss = sides["without"].value - sides["with"].value
            # The last digits of two means that are equal may differ.
            if loss > spec.tolerance + 1e-9:
                missed.append(f"{task} {loss:.4g} lower with speculation, {spec.tolerance:g} allowed")
    numbers = {
        "metric": spec.metric,
        "floor": spec.floor,
        "tolerance": spec.tolerance,
        **{
            side: {
                task: {"score": round(score.value, 6), "error": score.error, "documents": score.documents}
                for task, score in found.items()
            }
            for side, found in scores.items()
        },
    }
    return Gate(
        check=Check.LM_EVAL,
        outcome=GateOutcome.FAILED if missed else GateOutcome.PASSED,
        detail="; ".join([f"{spec.metric}: {'; '.join(parts)}{' speculation' if parts else ''}", *missed]),
        numbers=numbers,
    )


def _shown(score: Score) -> str:
    error = f" ± {score.error:.2g}" if score.error else ""
    return f"{score.value:.4g}{error}"
