"""Kimi-K2.5 declares SupportsEagle3, and the drafter's loader finds its image token."""

import ast

MODEL = "vllm/model_executor/models/kimi_k25.py"
INTERFACES = "vllm/model_executor/models/interfaces.py"
# v0.20.0 moved the loader from the first to the second.
LOADERS = ("vllm/v1/spec_decode/eagle.py", "vllm/v1/spec_decode/llm_base_proposer.py")
CLASS = "KimiK25ForConditionalGeneration"


def is_stub(function):
    return all(
        isinstance(statement, ast.Pass)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in function.body
    )


def names(nodes, attribute):
    return {getattr(part, attribute, None) for node in nodes for part in ast.walk(node)}


def test_the_model_declares_the_interface(tree):
    assert "SupportsEagle3" in tree.class_bases(MODEL, CLASS)


def test_the_model_answers_what_the_interface_asks(tree):
    protocol = tree.class_methods(INTERFACES, "SupportsEagle3")
    assert "set_aux_hidden_state_layers" in protocol, "SupportsEagle3 no longer asks for the layers"
    # From v0.18.0 on the protocol's own methods go to the language model themselves.
    asked = {name for name in protocol if is_stub(tree.function(INTERFACES, f"SupportsEagle3.{name}"))}
    assert not asked - tree.class_methods(MODEL, CLASS)


def test_the_answers_come_from_the_language_model(tree):
    for name in ("set_aux_hidden_state_layers", "get_eagle3_aux_hidden_state_layers"):
        method = tree.function(MODEL, f"{CLASS}.{name}")
        if method is not None:
            assert "language_model" in names([method], "attr"), f"{name} does not ask the language model"


def test_the_drafter_finds_the_image_token(tree):
    copying = [
        path
        for path in LOADERS
        if tree.exists(path) and "image_token_index" in names([tree.parse(path)], "attr")
    ]
    assert copying, "the loader that copies the target's image token has moved"
    # KimiK25Config has no image_token_index, which the loader reads of every model it does not know by name.
    branches = [
        node
        for path in copying
        for node in ast.walk(tree.parse(path))
        if isinstance(node, ast.If) and CLASS in names([node.test], "value")
    ]
    assert any("media_placeholder_token_id" in names(branch.body, "attr") for branch in branches), (
        f"the loader has no branch for {CLASS}"
    )
