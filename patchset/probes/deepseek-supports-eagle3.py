"""DeepSeek-V2 and V3 declare SupportsEagle3, answer its calls and hand out auxiliary hidden states."""

import ast

MODEL = "vllm/model_executor/models/deepseek_v2.py"
INTERFACES = "vllm/model_executor/models/interfaces.py"


def unanswered(tree, class_name):
    """What SupportsEagle3 asks and the class does not answer.

    v0.18.0 renamed one of the two methods and gave both a body that serves most models.
    """
    protocol = {
        name: tree.function(INTERFACES, f"SupportsEagle3.{name}")
        for name in tree.class_methods(INTERFACES, "SupportsEagle3")
    }
    assert "set_aux_hidden_state_layers" in protocol, "SupportsEagle3 no longer asks for the layers"
    asked = {name for name, method in protocol.items() if is_stub(method)}
    return asked - tree.class_methods(MODEL, class_name)


def is_stub(function):
    return all(
        isinstance(statement, ast.Pass)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in function.body
    )


def test_v3_declares_the_interface(tree):
    assert "SupportsEagle3" in tree.class_bases(MODEL, "DeepseekV3ForCausalLM")


def test_v3_answers_what_the_interface_asks(tree):
    assert not unanswered(tree, "DeepseekV3ForCausalLM")


def test_forward_hands_out_what_it_collects(tree):
    forward = tree.function(MODEL, "DeepseekV2Model.forward")
    assert forward is not None, "DeepseekV2Model.forward has moved"
    # Models on EagleModelMixin (v0.18.0) leave the collecting to its _maybe_add_hidden_state.
    collectors = {"aux_hidden_state_layers", "_maybe_add_hidden_state"}
    parts = list(ast.walk(forward))
    assert any(isinstance(part, ast.Attribute) and part.attr in collectors for part in parts), (
        "forward collects no auxiliary hidden states"
    )
    assert any(isinstance(part, ast.Return) and isinstance(part.value, ast.Tuple) for part in parts), (
        "forward returns no auxiliary hidden states"
    )
