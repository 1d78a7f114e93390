"""The CPU rotary embedding never hands a three-dimensional query or key to the C++ kernel.

csrc/cpu/pos_encoding.cpp takes the number of heads from the last dimension and the step between tokens from the one
before it, from v0.16.0 to v0.33.0: right for [tokens, heads * size], wrong for [tokens, heads, size].
"""

import ast

BASE = "vllm/model_executor/layers/rotary_embedding/base.py"
FLATTENING = {"reshape", "view", "flatten"}
NATIVE = {"forward_native", "forward_static"}


def calls(node, names):
    return [
        part
        for part in ast.walk(node)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in names
    ]


def is_flat(value, function, before):
    """Whether a tensor is reshaped on its way to the kernel; followed through plain names only."""
    if not isinstance(value, ast.Name):
        return bool(calls(value, FLATTENING))
    sources = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and node.lineno < before
        and any(isinstance(target, ast.Name) and target.id == value.id for target in node.targets)
    ]
    return bool(sources) and bool(calls(sources[-1].value, FLATTENING))


def test_the_kernel_is_given_one_row_per_token(tree):
    assert "forward_native" in tree.class_methods(BASE, "RotaryEmbedding"), "RotaryEmbedding has moved"
    forward = tree.function(BASE, "RotaryEmbedding.forward_cpu")
    if forward is None:
        return  # CustomOp then dispatches to forward_native, which reshapes by itself
    kernel = calls(forward, {"rotary_embedding"})
    assert kernel or calls(forward, NATIVE), "forward_cpu rotates in a way unknown here"
    for call in kernel:
        _positions, query, key = call.args[:3]
        assert is_flat(query, forward, call.lineno), "the query reaches the CPU kernel as it came"
        assert is_flat(key, forward, call.lineno), "the key reaches the CPU kernel as it came"
