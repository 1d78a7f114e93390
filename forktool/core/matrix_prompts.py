"""The prompts that `right` compares and the questions that `quality` scores, where a cell brings none of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forktool.errors import RequestError


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptItem:
    """One prompt: text or token ids, and what is expected: token ids, or a text that the answer must contain."""

    prompt: str | tuple[int, ...]
    tokens: tuple[int, ...] = ()
    answer: str | None = None
    chat: bool = False


BUILT_IN: tuple[PromptItem, ...] = (
    *(
        PromptItem(prompt=text)
        for text in (
            "The three laws of thermodynamics, in plain words, are these. First,",
            "def merge_sorted(left, right):\n    ",
            "Dear Dr. Okafor,\n\nThank you for your letter about the water pumps. We",
            "1, 1, 2, 3, 5, 8, 13,",
            "Translate into French, German and Spanish: 'The train leaves at half past nine.'\nFrench:",
            "SELECT customers.name, COUNT(*) FROM orders JOIN",
            "Once the snow had melted, the villagers found that the bridge",
            '{"name": "report", "pages": 12, "sections": [',
            "The integral of x squared from zero to three is computed as follows:",
            "A short history of the printing press. Before Gutenberg,",
            "Q: Why is the sky blue?\nA:",
            "#!/bin/sh\n# Back up the given folder, keeping the last seven copies.\n",
        )
    ),
    *(
        PromptItem(prompt=question, answer=answer, chat=True)
        for question, answer in (
            ("What is 17 times 23? Answer with the number alone.", "391"),
            ("What is the capital of Mongolia? Answer with one word.", "Ulaanbaatar"),
            ("How many days has February in a leap year? Answer with the number alone.", "29"),
            ("Write the word 'stressed' backwards. Answer with the word alone.", "desserts"),
            ("Which chemical element has the symbol Fe? Answer with one word.", "iron"),
            ("What is 2 to the power of 12? Answer with the number alone.", "4096"),
            ("In Python, what does len('tokens') return? Answer with the number alone.", "6"),
            ("Which planet is nearest to the sun? Answer with one word.", "Mercury"),
        )
    ),
)


def parse_prompts(document: object, *, where: str) -> tuple[PromptItem, ...]:
    """Read a prompts file: a list of objects with `prompt`, and `tokens` or `answer` where one is expected.

    Raises:
        RequestError: it is something else; names the item, from 0.
    """
    if not isinstance(document, list) or not document:
        raise RequestError(f"{where}: must be a list of prompts that is not empty")
    return tuple(_item(item, f"{where}: item {number}") for number, item in enumerate(document))


def _item(item: Any, where: str) -> PromptItem:
    if not isinstance(item, dict):
        raise RequestError(f"{where}: must be an object")
    unknown = sorted(set(item) - {"prompt", "tokens", "answer", "chat"})
    if unknown:
        raise RequestError(f"{where}: {unknown[0]} is not known here; prompt, tokens, answer, chat")
    prompt, tokens, answer = item.get("prompt"), item.get("tokens", []), item.get("answer")
    if not (isinstance(prompt, str) and prompt) and not (prompt and _are_ids(prompt)):
        raise RequestError(f"{where}: prompt must be a text or a list of token ids")
    if not _are_ids(tokens):
        raise RequestError(f"{where}: tokens must be a list of token ids")
    if answer is not None and not isinstance(answer, str):
        raise RequestError(f"{where}: answer must be a text")
    return PromptItem(
        prompt=prompt if isinstance(prompt, str) else tuple(prompt),
        tokens=tuple(tokens),
        answer=answer,
        chat=bool(item.get("chat", False)) and isinstance(prompt, str),
    )


def _are_ids(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, int) and not isinstance(item, bool) for item in value
    )


def score(item: PromptItem, tokens: Sequence[int], text: str) -> tuple[int, int] | None:
    """How many of how many agree with what was expected; None where nothing is expected."""
    if item.tokens:
        return sum(1 for mine, wanted in zip(tokens, item.tokens, strict=False) if mine == wanted), len(
            item.tokens
        )
    if item.answer is not None:
        return int(item.answer.lower() in text.lower()), 1
    return None
