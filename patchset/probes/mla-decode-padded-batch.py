"""split_decodes_and_prefills with require_uniform neither crashes on padding nor counts it among the decodes.

Callers that ask for uniform decodes cut the decode tokens into num_decodes equal parts (in v0.16.0:
reshape_query_for_spec_decode for FlashMLA, the view in FlashInferMLAImpl, the TRTLLM decode of FlashInfer). So a
padding request, of query length 0, may be a decode only in a uniform batch whose tokens are padded as well, as in a
full CUDA graph.
"""

import __future__

import ast
from types import SimpleNamespace

import pytest

UTILS = "vllm/v1/attention/backends/utils.py"
NAME = "split_decodes_and_prefills"
THRESHOLD = 4  # three draft tokens and the one they follow

# name: (query lengths, tokens, (num_decodes, num_prefills, num_decode_tokens, num_prefill_tokens))
CASES = {
    "uniform": ([4, 4], 8, (2, 0, 8, 0)),
    "uniform and a prefill": ([4, 4, 10], 18, (2, 1, 8, 10)),
    "a short one among the uniform": ([4, 2, 4], 10, (1, 2, 4, 6)),
    "requests and tokens padded": ([4, 4, 0, 0], 16, (4, 0, 16, 0)),
    "requests padded, tokens not": ([4, 4, 0, 0], 8, (2, 2, 8, 0)),
    "idle rank, tokens not padded": ([1, 0], 1, (1, 1, 1, 0)),
    "idle rank, tokens padded": ([1, 0], 8, (2, 0, 8, 0)),
    "idle rank, one request": ([1], 4, (1, 0, 4, 0)),
    "padding between uniform decodes": ([4, 0, 4, 4], 16, (1, 3, 4, 12)),
    "padding behind a mixed batch": ([4, 4, 2, 0, 0], 10, (2, 3, 8, 2)),
    "padding behind a mixed batch, tokens padded": ([4, 4, 2, 0, 0], 16, (2, 3, 8, 8)),
    "padding inside a mixed batch": ([4, 0, 4, 10], 18, (1, 3, 4, 14)),
    "padding between decodes and prefills": ([4, 4, 0, 10], 18, (2, 2, 8, 10)),
}


def split(tree, torch, lengths, tokens):
    """Run the function, cut out of the tree, on one batch."""
    source = tree.function_source(UTILS, NAME)
    assert source is not None, f"{NAME} has moved"
    namespace = {"torch": torch}
    code = compile(source, UTILS, "exec", flags=__future__.annotations.compiler_flag, dont_inherit=True)
    exec(code, namespace)
    starts = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    batch = SimpleNamespace(
        max_query_len=max(THRESHOLD, *lengths),
        num_reqs=len(lengths),
        num_actual_tokens=tokens,
        query_start_loc=starts,
        query_start_loc_cpu=starts,
    )
    return tuple(map(int, namespace[NAME](batch, decode_threshold=THRESHOLD, require_uniform=True)))


@pytest.mark.parametrize("case", CASES)
def test_a_batch_is_split_so_that_decodes_stay_uniform(tree, case):
    torch = pytest.importorskip("torch")
    lengths, tokens, expected = CASES[case]
    assert split(tree, torch, lengths, tokens) == expected


def test_the_number_of_tokens_decides(tree):
    """The same answer where torch is missing: whether a request is a decode depends on num_tokens.

    v0.16.0 asserts something about it, v0.18.0 only passes it on; neither looks at it.
    """
    function = tree.function(UTILS, NAME)
    assert function is not None, f"{NAME} has moved"
    conditions = [node.test for node in ast.walk(function) if isinstance(node, ast.If | ast.IfExp)]
    derived = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and mentions(node.value, {"num_tokens"})
        for target in ast.walk(ast.Tuple(elts=node.targets))
        if isinstance(target, ast.Name)
    }
    # num_prefill_tokens is the rest of num_tokens, an answer and not a criterion.
    assert any(mentions(test, {"num_tokens", *derived} - {"num_prefill_tokens"}) for test in conditions), (
        "padding requests are decodes whether or not the tokens are padded"
    )


def mentions(expression, names):
    return any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(expression))
