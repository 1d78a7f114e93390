"""DeepSeek-V3 and Kimi-K2 pass the gate that refuses an EAGLE-3 drafter by the target's model type."""

import ast

import pytest

CONFIG = "vllm/config/speculative.py"


def gates(tree):
    """The `if` statements that refuse EAGLE-3 by model type; v0.22.0 has taken the last one out."""
    for node in ast.walk(tree.parse(CONFIG)):
        if isinstance(node, ast.If) and any(isinstance(statement, ast.Raise) for statement in node.body):
            parts = list(ast.walk(node.test))
            about_eagle3 = any(isinstance(part, ast.Constant) and part.value == "eagle3" for part in parts)
            by_model_type = any(
                isinstance(part, ast.Attribute) and part.attr == "model_type" for part in parts
            )
            if about_eagle3 and by_model_type:
                yield node


def accepted(tree, gate):
    """The entries of the list that a gate runs through, whatever upstream calls it."""
    for part in ast.walk(gate.test):
        if isinstance(part, ast.comprehension) and isinstance(part.iter, ast.Name):
            return tree.literal(CONFIG, part.iter.id)
    return None


# config.json of Kimi-K2.5 says kimi_k25 at the top and kimi_k2 in text_config, which is the one vLLM asks.
@pytest.mark.parametrize("model_type", ["deepseek_v3", "kimi_k2", "kimi_k25"])
def test_the_target_is_accepted(tree, model_type):
    assert "use_eagle" in tree.class_methods(CONFIG, "SpeculativeConfig"), "SpeculativeConfig has moved"
    for gate in gates(tree):
        entries = accepted(tree, gate)
        assert entries, "the gate no longer runs through a list of model types"
        assert any(entry in model_type for entry in entries), f"{model_type} is not among {entries}"
