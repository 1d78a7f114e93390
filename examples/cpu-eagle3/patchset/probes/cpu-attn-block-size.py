"""CPU_ATTN and CPU_MLA have a block size in common: an MLA target can have a Llama drafter on the CPU.

The two lists are read from the return statements; a class that announces none takes any size.
"""

import ast

ATTENTION = ("vllm/v1/attention/backends/cpu_attn.py", "CPUAttentionBackend")
MLA = ("vllm/v1/attention/backends/mla/cpu_mla.py", "CPUMLABackend")
ANNOUNCED = "get_supported_kernel_block_sizes"


def sizes(tree, path, name):
    """The announced sizes as (number, whether its multiples count), or None where any will do."""
    function = tree.function(path, f"{name}.{ANNOUNCED}")
    if function is None:
        return None
    returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    assert len(returned) == 1, f"{name}.{ANNOUNCED} has several answers"
    assert isinstance(returned[0], ast.List), f"{name}.{ANNOUNCED} no longer returns a list"
    found = []
    for element in returned[0].elts:
        if isinstance(element, ast.Call):
            found.append((element.args[0].value, True))
        else:
            found.append((element.value, False))
    return found


def agree(one, other):
    (size, multiples), (second, second_multiples) = one, other
    if not multiples and not second_multiples:
        return size == second
    if multiples and second_multiples:
        return True
    exact, factor = (second, size) if multiples else (size, second)
    return exact % factor == 0


def test_a_block_size_is_common(tree):
    assert tree.exists(MLA[0]), "CPU_MLA is not in this release"
    assert tree.class_methods(*ATTENTION), "CPUAttentionBackend has moved"
    attention, mla = sizes(tree, *ATTENTION), sizes(tree, *MLA)
    if attention is None or mla is None:
        return
    assert any(agree(one, other) for one in attention for other in mla), f"{attention} and {mla}"
