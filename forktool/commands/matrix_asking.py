"""What a cell asks of its servers, and the gates that their answers make."""

from __future__ import annotations

from collections.abc import Sequence

from forktool.adapters.openai_api import Measurements, NoTemplateError, OpenAiApi
from forktool.commands.matrix_harness import Harness
from forktool.core.engines import ENGINES
from forktool.core.lm_eval import MISSING, Score, judge_lm_eval
from forktool.core.matrix import Cell, Check
from forktool.core.matrix_engine import Acceptance, Answer, added
from forktool.core.matrix_gates import (
    Comparison,
    Difference,
    first_difference,
    judge_accepted,
    judge_faster,
    judge_quality,
    judge_right,
)
from forktool.core.matrix_prompts import PromptItem, score
from forktool.core.matrix_result import Gate, GateOutcome

LIKELIEST = 5
_FORKS = 16
"""How often a prompt is taken up again behind a near-tie; what then remains counts as different."""


class Asking:
    """Asks one server after the other, and gathers the gates.

    Args:
        cell: what must be proven.
        items: its prompts.
        harness: runs the lm-evaluation-harness; None where it is not installed.
    """

    def __init__(self, cell: Cell, items: Sequence[PromptItem], *, harness: Harness | None) -> None:
        self.cell = cell
        self.gates: list[Gate] = []
        self.busy: Check | None = None
        """What is being asked, where that is not what comes next among the cell's checks."""
        self._items = tuple(items)
        self._harness = harness
        self._ours: tuple[Answer, ...] = ()
        self._plain: tuple[Answer, ...] = ()
        self._untold = False
        """Whether the model cannot be asked through a chat."""
        self._our_load = Measurements()
        self._plain_load = Measurements()
        self._scores: dict[str, dict[str, Score]] = {}

    @property
    def needs_plain(self) -> bool:
        """Whether a server without speculation is needed at all."""
        spec = self.cell.lm_eval
        compared = Check.LM_EVAL in self.cell.checks and spec is not None and spec.tolerance is not None
        return compared or bool({Check.RIGHT, Check.QUALITY, Check.FASTER} & set(self.cell.checks))

    def _up(self) -> None:
        if all(gate.check is not Check.STARTS for gate in self.gates):
            self.gates.insert(0, Gate(check=Check.STARTS, outcome=GateOutcome.PASSED, detail="up"))

    def ask_ours(self, api: OpenAiApi) -> None:
        """The prompts with speculation, and how much of the drafts was accepted over them."""
        self._up()
        before = self._acceptance(api)
        self._ours = self._answers(api)
        if Check.ACCEPTED in self.cell.checks:
            after = self._acceptance(api)
            counted = after.minus(before) if after and before else after
            told = added(answer.acceptance for answer in self._ours if answer.acceptance is not None)
            self.gates.append(judge_accepted(told or counted, self.cell.thresholds))
        self._evaluate(api, "with")

    def _acceptance(self, api: OpenAiApi) -> Acceptance | None:
        return ENGINES[self.cell.engine].acceptance(api.metrics())

    def ask_plain(self, api: OpenAiApi) -> None:
        """The prompts without speculation, compared while this server is up: near-ties ask it again."""
        self._up()
        self._plain = self._answers(api)
        if Check.RIGHT in self.cell.checks:
            pairs = zip(self._items, self._ours, self._plain, strict=True)
            comparisons = [
                self._compared(api, number, item, ours, plain)
                for number, (item, ours, plain) in enumerate(pairs)
                if not item.chat
            ]
            self.gates.append(judge_right(comparisons, self.cell.thresholds))
        self.judge_answers()
        spec = self.cell.lm_eval
        if spec is not None and (spec.tolerance is not None or not self.cell.speculates):
            self._evaluate(api, "without")

    def _answers(self, api: OpenAiApi) -> tuple[Answer, ...]:
        """Every prompt, one after the other: batches of other sizes may round differently."""
        return tuple(self._answer(api, item) for item in self._items)

    def _answer(self, api: OpenAiApi, item: PromptItem) -> Answer:
        tokens = self.cell.answer_tokens
        if not item.chat:
            return api.complete(item.prompt, tokens=len(item.tokens) or tokens, likeliest=LIKELIEST)
        try:
            return Answer(tokens=(), text=api.chat(str(item.prompt), tokens=tokens))
        except NoTemplateError:
            self._untold = True
            return Answer(tokens=())

    def _compared(
        self, api: OpenAiApi, number: int, item: PromptItem, ours: Answer, plain: Answer
    ) -> Comparison:
        """Compare two answers; behind a proven near-tie the other server goes on from our token."""
        differences: list[Difference] = []
        offset = 0
        while True:
            difference = first_difference(number, ours, plain, offset=offset)
            if difference is None:
                return Comparison(prompt=number, compared=len(ours.tokens), differences=tuple(differences))
            differences.append(difference)
            offset = difference.position + 1
            tie = difference.is_tie(self.cell.thresholds.near_tie)
            asked = item.prompt if isinstance(item.prompt, tuple) else ours.prompt
            if not tie or not asked or len(differences) > _FORKS or offset >= len(ours.tokens):
                return Comparison(prompt=number, compared=offset, differences=tuple(differences))
            prompt = (*asked, *ours.tokens[:offset])
            plain = api.complete(prompt, tokens=len(ours.tokens) - offset, likeliest=LIKELIEST)

    def judge_answers(self) -> None:
        """Score the answers of all servers that were asked."""
        if Check.QUALITY not in self.cell.checks:
            return
        sides: dict[str, Sequence[Answer]] = {"with": self._ours, "without": self._plain}
        scores: dict[str, list[tuple[int, int]]] = {}
        for side, answers in sides.items():
            if answers:
                marks = [
                    score(item, answer.tokens, answer.text)
                    for item, answer in zip(self._items, answers, strict=True)
                    if not (item.chat and self._untold)
                ]
                scores[side] = [mark for mark in marks if mark is not None]
        why = "the model has no chat template" if self._untold else "the prompts expect no answers"
        if any(scores.values()):
            self.gates.append(judge_quality(scores, self.cell.thresholds))
        else:
            self.gates.append(Gate(check=Check.QUALITY, outcome=GateOutcome.SKIPPED, detail=why))

    def load(self, api: OpenAiApi, *, speculative: bool) -> None:
        """One round of measuring one side at every concurrency."""
        load = self.cell.load
        prompts = [item.prompt for item in self._items if not item.chat]
        for level in load.concurrency:
            requests = max(load.requests, level)
            throughput, timings = api.measure(
                prompts, concurrency=level, requests=requests, tokens=load.tokens
            )
            (self._our_load if speculative else self._plain_load).add(level, throughput, timings)

    def judge_load(self) -> None:
        """Compare what was measured on both sides."""
        self.gates.append(
            judge_faster(self._our_load.measures(), self._plain_load.measures(), self.cell.thresholds)
        )

    def _evaluate(self, api: OpenAiApi, side: str) -> None:
        if Check.LM_EVAL not in self.cell.checks or self._harness is None:
            return
        self.busy = Check.LM_EVAL
        self._scores[side] = self._harness.scores(api, side)
        self.busy = None

    def judge_scores(self) -> None:
        """Judge the harness's scores, or say why there are none."""
        spec = self.cell.lm_eval
        if Check.LM_EVAL not in self.cell.checks or spec is None:
            return
        if self._harness is None:
            self.gates.append(Gate(check=Check.LM_EVAL, outcome=GateOutcome.SKIPPED, detail=MISSING))
        else:
            self.gates.append(judge_lm_eval(self._scores, spec))
