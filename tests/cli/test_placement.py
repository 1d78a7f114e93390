"""Where a patch lands, and what upstream already has of it: never in the wrong place, never twice, never in silence."""

from __future__ import annotations

import pytest

from tests.support.story import Story


def twin(name: str) -> str:
    return (
        f"class {name}(Base):\n\n    def __init__(self, config):\n        super().__init__()\n"
        "        self.config = config\n        self.scale = 1.0\n        self.bias = None\n\n"
        "    def forward(self, x):\n        x = self.project(x)\n        x = x * self.scale\n        return x\n\n\n"
    )


def test_a_patch_of_a_class_stays_in_it_where_upstream_inserts_its_twin_before(story: Story) -> None:
    shifted = twin("B").replace("x * self.scale", "x * self.scale + 1")
    story.release("v1.0", {"m.py": twin("A") + twin("B") + twin("C")})
    story.start("v1.0")
    story.patch("shift", {"m.py": twin("A") + shifted + twin("C")})
    story.release("v1.1", {"m.py": twin("A") + twin("NEW") + twin("B") + twin("C")})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 0, result.err
    assert result.verdicts == {"shift": "refreshed"}
    assert story.carried("m.py") == twin("A") + twin("NEW") + shifted + twin("C")


def test_an_edit_that_git_merges_into_another_class_is_a_suspect(story: Story) -> None:
    """Upstream swaps the names of two classes: git keeps the place, and the edit of B is then in A."""
    first, second = (
        twin("A").replace("1.0", "1.1"),
        twin("B").replace("1.0", "2.2").replace("project", "turn"),
    )
    guarded = second.replace("        return x\n", "        x = guard(x)\n        return x\n")
    story.release("v1.0", {"m.py": first + second})
    story.start("v1.0")
    story.patch("guard", {"m.py": first + guarded})
    story.release(
        "v1.1", {"m.py": first.replace("class A", "class B") + second.replace("class B", "class A")}
    )

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3, result.out
    assert result.verdicts == {"guard": "suspect"}
    assert [finding["kind"] for finding in result.patch("guard")["findings"]] == ["moved-scope"]
    assert "belongs in B.forward and is in A.forward" in result.patch("guard")["findings"][0]["detail"]


# What base, patch and upstream say, and the verdict without a probe: never carried in silence.
HEAD = "import a\n\n\ndef x():\n    return 1\n\n\ndef z():\n    return 3\n"
Y = "def y():\n    return 2\n\n\n"
W = "def w():\n    return 9\n\n\n"
LIST = "names = [\n    'aa',\n    'bb',\n    'cc',\n]\n"
KEYS = "d = {}\n" + "".join(f"d['k{number}'] = {number}\n" for number in range(12))


def with_y(text: str = HEAD, added: str = Y) -> str:
    return text.replace("def z", f"{added}def z")


CC, DD, EE = "    'cc',\n", "    'dd',\n", "    'ee',\n"
ALREADY = {
    "the same line between blank lines": (
        "first()\n\n\n\nlast()\n", "first()\n\nmiddle()\n\n\n\nlast()\n", "first()\n\n\n\nmiddle()\n\nlast()\n",
    ),
    "the same function elsewhere": (HEAD, with_y(), HEAD + "\n\ndef y():\n    return 2\n"),
    "the same function and one after it": (HEAD, with_y(), with_y(added=Y + W)),
    "the same function and one before it": (HEAD, with_y(), with_y(added=W + Y)),
    "the same function, shifted": (HEAD, with_y(), "import q\n" * 5 + with_y()),
    "the same function among other changes": (HEAD, with_y(), with_y().replace("return 1", "return 10")),
    "the same element and another before it": (
        LIST, LIST.replace(CC, CC + DD), LIST.replace(CC, CC + EE + DD),
    ),
    "the same element and another after it": (
        LIST, LIST.replace(CC, CC + DD), LIST.replace(CC, CC + DD + EE),
    ),
    "the same assignment far away": (
        KEYS, KEYS.replace("d['k5'] = 5\n", "d['k5'] = 5\nd['new'] = 1\n"), KEYS + "d['new'] = 1\n",
    ),
}  # fmt: skip


PROSE = (
    "the same line between blank lines",
    "the same element and another after it",
    "the same assignment far away",
)


@pytest.mark.parametrize(("name", "cases"), [("f.py", tuple(ALREADY)), ("f.txt", PROSE)])
def test_what_upstream_already_has_is_never_added_again_in_silence(
    story: Story, name: str, cases: tuple[str, ...]
) -> None:
    """Git merges some of these with a line or a function twice, and stops at others: each is for a person."""
    chosen = {f"{number}/{name}": ALREADY[what] for number, what in enumerate(cases)}
    story.release("v1.0", {path: base for path, (base, _, _) in chosen.items()})
    story.start("v1.0")
    for number, (path, (_, patched, _)) in enumerate(chosen.items()):
        story.patch(f"patch-{number}", {path: patched})
    story.release("v1.1", {path: upstream for path, (_, _, upstream) in chosen.items()})
    before = story.snapshot()

    verdicts = {}
    for number, what in enumerate(cases):
        result = story.run("rebase", *(["--skip"] if number else ["v1.1"]), "--json")
        assert result.code == 3, what
        verdicts[what] = result.verdicts[f"patch-{number}"]
    assert verdicts == dict.fromkeys(cases, "suspect")
    assert story.snapshot() == before


def test_a_green_probe_is_the_second_kind_of_evidence_for_what_upstream_already_has(story: Story) -> None:
    """Two kinds, content and probe: the patches leave without a question, whether git merges or stops."""
    chosen = {
        f"f{number}.py": texts for number, (what, texts) in enumerate(ALREADY.items()) if "function" in what
    }
    story.release("v1.0", {path: base for path, (base, _, _) in chosen.items()})
    story.start("v1.0")
    for path, (_, patched, _) in chosen.items():
        story.patch(f"add-{path[:2]}", {path: patched}, probe=f"assert 'def y' in tree.read_text({path!r})")
    story.release("v1.1", {path: upstream for path, (_, _, upstream) in chosen.items()})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 0, result.out
    assert set(result.verdicts.values()) == {"absorbed"}
    for patch in result.document["patches"]:
        assert {evidence["kind"] for evidence in patch["evidence"]} == {"content", "probe"}


def test_the_same_change_in_other_words_is_absorbed_only_with_a_green_probe(story: Story) -> None:
    """A renamed local variable: the definition is there, its lines are not the patch's."""
    reworded = "def y():\n    two = 2\n    return two\n\n\n"
    story.release("v1.0", {"f.py": HEAD, "g.py": HEAD})
    story.start("v1.0")
    story.patch("mute", {"g.py": with_y()})
    story.release("v1.1", {"f.py": with_y(added=reworded), "g.py": with_y(added=reworded)})

    mute = story.run("rebase", "v1.1", "--json")

    assert mute.code == 3
    assert mute.verdicts == {"mute": "suspect"}
    assert mute.patch("mute")["conflicts"] == ["g.py"]
    assert "<<<<<<<" in (story.project / ".forktool/conflict/g.py").read_text()
    assert "where upstream has it: forktool drop mute --reason" in mute.err
    assert story.run("rebase", "--abort").code == 0
    story.probe("mute", "assert 'def y' in tree.read_text('g.py')")
    told = story.run("rebase", "v1.1", "--json")
    assert told.code == 0, told.out
    assert told.verdicts == {"mute": "absorbed"}


def test_a_probe_that_stays_red_keeps_what_looks_absorbed_a_suspect(story: Story) -> None:
    story.release("v1.0", {"f.py": HEAD})
    story.start("v1.0")
    story.patch(
        "add",
        {"f.py": with_y()},
        probe="assert 'def y' in tree.read_text('f.py')\nassert tree.exists('never')",
    )
    story.release("v1.1", {"f.py": with_y()})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3
    assert result.verdicts == {"add": "suspect"}
    assert {"content", "probe"} <= {evidence["kind"] for evidence in result.patch("add")["evidence"]}


def test_a_change_that_upstream_merged_and_reverted_is_carried(story: Story) -> None:
    """`git rebase` drops it: the change is in the history. Here the tree is asked, not the history."""
    story.release("v1.0", {"f.py": HEAD})
    story.start("v1.0")
    story.patch("add", {"f.py": with_y()}, probe="assert 'def y' in tree.read_text('f.py')")
    story.commit({"f.py": with_y()}, "Change for add")
    story.git("revert", "--no-edit", "HEAD")
    story.release("v1.1", {"other.py": "x = 1\n"})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 0, result.out
    assert result.verdicts == {"add": "unchanged"}
    assert story.carried("f.py") == with_y()


def test_a_change_that_is_on_main_but_not_in_the_tag_is_carried(story: Story) -> None:
    story.release("v1.0", {"f.py": HEAD})
    story.start("v1.0")
    story.patch("add", {"f.py": with_y()}, probe="assert 'def y' in tree.read_text('f.py')")
    story.git("checkout", "--quiet", "-b", "releases")
    story.release("v1.1", {"other.py": "x = 1\n"})
    story.git("checkout", "--quiet", "main")
    story.commit({"f.py": with_y()}, "Change for add (#1)")
    story.release("v1.2", {"other.py": "x = 2\n"})

    assert story.run("status", "--onto", "v1.1", "v1.2", "--json").document["patches"][0]["verdicts"] == {
        "v1.1": "unchanged",
        "v1.2": "absorbed",
    }
    assert story.run("rebase", "v1.1", "--json").verdicts == {"add": "unchanged"}


def test_a_release_that_holds_the_change_under_another_commit_has_absorbed_it(story: Story) -> None:
    """Release branches cherry-pick: the commit id of main says nothing."""
    story.release("v1.0", {"f.py": HEAD})
    story.start("v1.0")
    story.patch("add", {"f.py": with_y()}, probe="assert 'def y' in tree.read_text('f.py')")
    picked = story.commit({"f.py": with_y()}, "Change for add (#1)")
    story.git("checkout", "--quiet", "-b", "releases", "v1.0")
    story.git("cherry-pick", picked)
    story.release("v1.1", {"other.py": "x = 1\n"})

    assert story.run("rebase", "v1.1", "--json").verdicts == {"add": "absorbed"}


def test_overlapping_changes_stop_and_lose_no_line_of_either_side(story: Story) -> None:
    text = "".join(f"line_{number} = {number}\n" for number in range(1, 21))
    story.release("v1.0", {"a.py": text})
    story.start("v1.0")
    story.patch("ours", {"a.py": text.replace("line_10 = 10\n", "line_10 = 'ours'\n")})
    theirs = text.replace("line_10 = 10\n", "line_10 = 'theirs'\nline_10b = 'upstream added it'\n")
    story.release("v1.1", {"a.py": theirs})

    result = story.run("rebase", "v1.1", "--json")

    assert result.code == 3
    assert result.verdicts == {"ours": "conflict"}
    shown = (story.project / ".forktool/conflict/a.py").read_text()
    for line in ("line_10 = 'ours'", "line_10 = 'theirs'", "line_10b = 'upstream added it'", "line_10 = 10"):
        assert line in shown
