"""What a stop shows: the patch, the versions in conflict, why upstream changed there, where things went, what to type."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.support.story import Files, Story

HEAD = "import os\n\n\n"
CLASS = """class Reader:
    def open(self, path):
        handle = os.open(path, os.O_RDONLY)
        self.handles.append(handle)
        return handle

    def read(self, path, size):
        handle = self.open(path)
        text = os.read(handle, size)
        self.count += len(text)
        return text
"""
READ = "        text = os.read(handle, size)\n"
PATCHED = CLASS.replace(READ, "        text = os.read(handle, size or 4096)\n")


def full_history(story: Story) -> None:
    """Have the patchset read upstream's history."""
    config = story.project / "patchset/patchset.toml"
    config.write_text(config.read_text().replace('sources = ["git"]', 'sources = ["git"]\nhistory = "full"'))


def work(story: Story) -> Path:
    """The work tree of the conflict."""
    return story.project / ".forktool/conflict"


def start(story: Story, files: Files, *, history: bool = True) -> None:
    story.release("v1.0", files)
    story.start("v1.0")
    if history:
        full_history(story)


MESSAGE = """Read 4 KiB where no size is given

Reason: our caller passes no size
Forwarded: https://github.com/acme/reader/pull/77
Signed-off-by: A Maintainer <maintainer@example.org>
"""


def conflict(story: Story) -> tuple[str, str]:
    """A patch on a line that upstream's last two commits changed; returns these commits, newest first."""
    start(story, {"io/reader.py": HEAD + CLASS})
    story.patch("sizes", {"io/reader.py": HEAD + PATCHED}, message=MESSAGE)
    bounded = CLASS.replace("os.read(handle, size)", "os.read(handle, min(size, LIMIT))")
    older = story.commit({"io/reader.py": HEAD + bounded}, "Bound what is read (#412)")
    story.commit(
        {"io/reader.py": HEAD + "LIMIT = 9\n" + bounded, "other.py": "x = 1\n"}, "Say the limit (#413)"
    )
    newer = bounded.replace("os.read(handle,", "os.pread(handle,")
    newest = story.commit({"io/reader.py": HEAD + "LIMIT = 9\n" + newer}, "Read at a place (#420)")
    story.release("v1.1", {"other.py": "x = 2\n"})
    return newest, older


def test_a_conflict_shows_the_patch_three_versions_causes_and_commands(story: Story) -> None:
    newest, older = conflict(story)
    with (story.project / "patchset/patchset.toml").open("a") as config:
        config.write('\n[pull-request]\nupstream = "acme/reader"\n')

    result = story.run("rebase", "v1.1")

    assert result.code == 3
    shown = result.err[result.err.index("stopped at") :]
    assert shown == (
        "stopped at sizes: Read 4 KiB where no size is given\n"
        "  carried because: our caller passes no size\n"
        "  forwarded: https://github.com/acme/reader/pull/77\n"
        "\n"
        "io/reader.py:13 in Reader.read\n"
        "  <<<<<<< upstream v1.1\n"
        "          text = os.pread(handle, min(size, LIMIT))\n"
        "  ||||||| base v1.0\n"
        "          text = os.read(handle, size)\n"
        "  =======\n"
        "          text = os.read(handle, size or 4096)\n"
        "  >>>>>>> patch sizes\n"
        "  upstream changed this in:\n"
        f"    {newest[:10]} 2025-06-15 #420 Read at a place\n"
        "      https://github.com/acme/reader/pull/420\n"
        f"    {older[:10]} 2025-06-15 #412 Bound what is read\n"
        "      https://github.com/acme/reader/pull/412\n"
        "\n"
        f"hint: settle it in {work(story)}\n"
        "hint: with git mergetool there, or an editor and git add\n"
        "hint: then: forktool rebase --continue\n"
        "hint: or leave the patch out: forktool rebase --skip, or forktool drop sizes --reason TEXT, then --continue\n"
        "hint: or forget the rebase: forktool rebase --abort\n"
    )


def test_the_answer_in_json_has_the_same_facts(story: Story) -> None:
    newest, older = conflict(story)

    stop = story.run("rebase", "v1.1", "--json").document["stop"]

    region = stop["conflicts"][0].pop("regions")[0]
    assert [(cause["commit"], cause["number"], cause["subject"]) for cause in region.pop("causes")] == [
        (newest, 420, "Read at a place"),
        (older, 412, "Bound what is read"),
    ]
    assert region == {
        "line": 13,
        "definition": "Reader.read",
        "upstream": "        text = os.pread(handle, min(size, LIMIT))\n",
        "base": READ,
        "patch": "        text = os.read(handle, size or 4096)\n",
    }
    assert stop["conflicts"] == [
        {
            "path": "io/reader.py",
            "kind": "text",
            "message": "",
            "causes": [],
            "deleted_by": None,
            "moved_from": None,
            "renamed_to": None,
            "moved_to": [],
            "commands": [],
        }
    ]
    assert stop["patch"] == "sizes"
    assert stop["reason"] == "our caller passes no size"
    assert stop["forwarded"] == "https://github.com/acme/reader/pull/77"
    assert stop["origin"] is None
    assert stop["verdict"] == "conflict"
    assert stop["unknown"] == []
    assert stop["work_tree"] == str(work(story))
    assert stop["commands"] == [
        f"cd {work(story)} && git mergetool",
        "forktool rebase --continue",
        "forktool rebase --skip",
        "forktool drop sizes --reason TEXT",
        "forktool rebase --abort",
    ]


def test_a_rebase_that_stops_nowhere_has_no_stop(story: Story) -> None:
    start(story, {"a.py": "a = 1\n", "b.py": "b = 1\n"})
    story.patch("two", {"a.py": "a = 2\n"})
    story.release("v1.1", {"b.py": "b = 2\n"})

    assert story.run("rebase", "v1.1", "--json").document["stop"] is None


def test_a_dry_run_shows_the_stop_and_makes_no_work_tree(story: Story) -> None:
    newest, _older = conflict(story)

    result = story.run("rebase", "v1.1", "--dry-run")

    assert result.code == 3
    assert newest[:10] in result.err
    assert "<<<<<<< upstream v1.1" in result.err
    assert result.err.endswith("hint: forktool rebase v1.1 stops there, with a work tree to settle it in\n")
    assert not work(story).exists()


def test_without_history_one_line_says_how_to_get_it(story: Story) -> None:
    start(story, {"a.py": "a = 1\n"}, history=False)
    story.patch("two", {"a.py": "a = 2\n"})
    story.release("v1.1", {"a.py": "a = 3\n"})

    result = story.run("rebase", "v1.1")

    assert '  why upstream changed it is not known: set history = "full" under [upstream]\n' in result.err


def test_a_commit_before_the_patches_carried_so_far_is_found_at_its_own_line(story: Story) -> None:
    """Patches carried before move the lines of upstream's file."""
    text = "".join(f"line_{number} = {number}\n" for number in range(1, 31))
    start(story, {"a.py": text})
    story.patch("head", {"a.py": "import os\nimport sys\nimport re\n" + text})
    story.patch("twenty", {"a.py": "import os\nimport sys\nimport re\n" + text.replace("= 20\n", "= 'x'\n")})
    story.commit({"a.py": text.replace("= 17\n", "= 0x11\n")}, "Seventeen (#17)")
    changed = text.replace("= 17\n", "= 0x11\n").replace("= 20\n", "= 0x14\n")
    story.commit({"a.py": changed}, "Twenty (#20)")
    story.commit({"a.py": changed.replace("= 23\n", "= 0x17\n")}, "Twenty-three (#23)")
    story.release("v1.1")

    stop = story.run("rebase", "v1.1", "--json").document["stop"]

    region = stop["conflicts"][0]["regions"][0]
    assert stop["patch"] == "twenty"
    assert region["line"] == 23
    assert [cause["subject"] for cause in region["causes"]] == ["Twenty"]


def test_lines_that_upstream_removed_are_found_too(story: Story) -> None:
    start(story, {"io/reader.py": HEAD + CLASS})
    story.patch("sizes", {"io/reader.py": HEAD + PATCHED})
    story.commit({"io/reader.py": HEAD + CLASS.replace(READ, "")}, "Read no more (#5)")
    story.release("v1.1", {"io/reader.py": HEAD + "X = 1\n" + CLASS.replace(READ, "")})

    stop = story.run("rebase", "v1.1", "--json").document["stop"]

    assert [cause["number"] for cause in stop["conflicts"][0]["regions"][0]["causes"]] == [5]


def test_many_causes_and_long_regions_are_cut(story: Story) -> None:
    body = "".join(f"    step({number})\n" for number in range(80))
    start(story, {"a.py": f"def run():\n{body}"})
    patched = body.replace("step(40)", "step('forty')").replace("    step(79)\n", "    step('last')\n")
    story.patch("forty", {"a.py": f"def run():\n{patched}"})
    for number in range(7):
        changed = "".join(f"    go({number}, {step})\n" for step in range(80))
        story.commit({"a.py": f"def run():\n{changed}"}, f"Go {number} (#{number})")
    story.release("v1.1")

    result = story.run("rebase", "v1.1")

    lines = result.err[result.err.index("a.py:2 in run") :].splitlines()
    assert len(lines) < 90
    assert max(map(len, lines[:-5])) <= 100
    assert "    … and 2 more" in lines
    told = [line for line in lines if "step('" in line]
    assert told == ["      step('forty')", "      step('last')"]
    # The line that is named is that of the work tree's file.
    text = (work(story) / "a.py").read_text().splitlines()
    patch_side = lines[lines.index("  =======") :]
    cut = next(line for line in patch_side if ", see a.py:" in line)
    above = patch_side[patch_side.index(cut) - 1]
    assert text[int(cut.rpartition(":")[2]) - 2] == above.removeprefix("  ")


def test_the_work_tree_shows_zdiff3_with_labels_and_three_stages(story: Story) -> None:
    start(story, {"a.py": "first\nmiddle\nlast\n"})
    story.patch("mine", {"a.py": "first\nshared\nmine\nshared end\nlast\n"})
    story.release("v1.1", {"a.py": "first\nshared\nyours\nshared end\nlast\n"})

    assert story.run("rebase", "v1.1").code == 3

    assert (work(story) / "a.py").read_text() == (
        "first\nshared\n<<<<<<< upstream v1.1\nyours\n||||||| base v1.0\nmiddle\n=======\nmine\n"
        ">>>>>>> patch mine\nshared end\nlast\n"
    )
    stages = story.git("ls-files", "--stage", "a.py", cwd=work(story)).splitlines()
    assert [line.split()[2] for line in stages] == ["1", "2", "3"]


def test_a_resolution_is_replayed_in_a_fresh_clone(story: Story, tmp_path: Path) -> None:
    """What both sides begin and end with stands outside of the conflict, here and in the replay."""
    text = "".join(f"line_{number} = {number}\n" for number in range(1, 31))
    mine = text.replace("line_10 = 10\n", "alpha = 1\nmine = 2\nomega = 3\n")
    yours = text.replace("line_10 = 10\n", "alpha = 1\nyours = 2\nomega = 3\n")
    start(story, {"a.py": text})
    probe = 'text = tree.read_text("a.py")\nassert "mine" in text or "both" in text'
    story.patch("mine", {"a.py": mine}, probe=probe)
    project = story.project
    for args in (
        ("init", "--quiet", "-b", "main"),
        ("add", "patchset"),
        ("commit", "--quiet", "-m", "Series"),
    ):
        story.git(*args, cwd=project)
    story.release("v1.1", {"a.py": yours})
    assert story.run("rebase", "v1.1").code == 3
    settled = text.replace("line_10 = 10\n", "alpha = 1\nboth = 2\nomega = 3\n")
    (work(story) / "a.py").write_text(settled)
    assert story.run("rebase", "--continue").code == 0
    story.git("add", "patchset/resolutions", cwd=project)
    story.git("commit", "--quiet", "-m", "Resolution", cwd=project)

    clone = tmp_path / "clone"
    story.git("clone", "--quiet", str(project), str(clone))
    result = story.run("--patchset", str(clone / "patchset"), "rebase", "v1.1", "--json")

    assert result.code == 0, result.err
    assert result.verdicts == {"mine": "resolved"}
    assert "recorded resolution in a.py" in str(result.patch("mine")["evidence"])
    assert (clone / "patchset/mine.patch").read_bytes() == (project / "patchset/mine.patch").read_bytes()
    assert "+both = 2" in (clone / "patchset/mine.patch").read_text()


def test_the_work_tree_replays_what_is_recorded_of_one_file_and_asks_about_the_other(story: Story) -> None:
    start(story, {"a.py": "a = 1\n", "b.py": "b = 1\n"})
    story.patch("mine", {"a.py": "a = 2\n", "b.py": "b = 2\n"})
    old = story.snapshot()
    story.release("v1.1", {"a.py": "a = 3\n"})
    assert story.run("rebase", "v1.1").code == 3
    (work(story) / "a.py").write_text("a = 5\n")
    assert story.run("rebase", "--continue").code == 0
    for name, content in old.items():
        (story.project / "patchset" / name).write_bytes(content)
    story.release("v1.2", {"b.py": "b = 3\n"})

    assert story.run("rebase", "v1.2").code == 3

    assert (work(story) / "a.py").read_text() == "a = 5\n"
    assert "<<<<<<< upstream v1.2" in (work(story) / "b.py").read_text()


def test_the_resolutions_of_all_stops_are_kept(story: Story) -> None:
    start(story, {"a.py": "a = 1\n", "b.py": "b = 1\n"})
    story.patch("one", {"a.py": "a = 2\n"})
    story.patch("two", {"b.py": "b = 2\n"})
    story.release("v1.1", {"a.py": "a = 3\n", "b.py": "b = 3\n"})
    assert story.run("rebase", "v1.1").code == 3
    (work(story) / "a.py").write_text("a = 5\n")
    assert story.run("rebase", "--continue").code == 3
    (work(story) / "b.py").write_text("b = 5\n")

    assert story.run("rebase", "--continue").code == 0

    settled = {image.read_text() for image in (story.project / "patchset/resolutions").glob("*/postimage")}
    assert settled == {"a = 5\n", "b = 5\n"}
    assert not (story.project / ".forktool/resolutions").exists()


def test_what_was_settled_before_an_abort_is_forgotten(story: Story) -> None:
    start(story, {"a.py": "a = 1\n", "b.py": "b = 1\n"})
    story.patch("one", {"a.py": "a = 2\n"})
    story.patch("two", {"b.py": "b = 2\n"})
    story.release("v1.1", {"a.py": "a = 3\n", "b.py": "b = 3\n"})
    assert story.run("rebase", "v1.1").code == 3
    (work(story) / "a.py").write_text("a = 5\n")
    assert story.run("rebase", "--continue").code == 3
    assert story.run("rebase", "--abort").code == 0

    assert story.run("rebase", "v1.1").code == 3
    assert "<<<<<<<" in (work(story) / "a.py").read_text()


def test_git_mergetool_settles_a_conflict(story: Story) -> None:
    start(story, {"a.py": "a = 1\n"})
    story.patch("mine", {"a.py": "a = 2\n"})
    story.release("v1.1", {"a.py": "a = 3\n"})
    assert story.run("rebase", "v1.1").code == 3
    # A tool that keeps both sides: mergetool gives it the three versions by name.
    command = 'cat "$LOCAL" "$REMOTE" "$BASE" > "$MERGED"'
    story.git(
        "-c", f"mergetool.scripted.cmd={command}", "-c", "mergetool.scripted.trustExitCode=true",
        "mergetool", "--no-prompt", "--tool=scripted", cwd=work(story),
    )  # fmt: skip
    assert story.git("ls-files", "--unmerged", cwd=work(story)) == ""

    done = story.run("rebase", "--continue", "--json")

    assert done.code == 0, done.err
    assert done.verdicts == {"mine": "resolved"}
    assert story.carried("a.py") == "a = 3\na = 2\na = 1\n"
    assert any((story.project / "patchset/resolutions").iterdir())
    assert ".orig" not in (story.project / "patchset/mine.patch").read_text()


def test_a_settlement_that_was_committed_counts(story: Story) -> None:
    start(story, {"a.py": "a = 1\n"})
    story.patch("mine", {"a.py": "a = 2\n"})
    story.release("v1.1", {"a.py": "a = 3\n"})
    assert story.run("rebase", "v1.1").code == 3
    (work(story) / "a.py").write_text("a = 5\n")
    story.git("commit", "--quiet", "--all", "--message", "Settled", cwd=work(story))

    done = story.run("rebase", "--continue", "--json")

    assert done.code == 0, done.err
    assert done.verdicts == {"mine": "resolved"}
    assert story.carried("a.py") == "a = 5\n"


LINES = "".join(f"line_{number} = {number}\n" for number in range(1, 31))
TEN = LINES.replace("= 10\n", "= 'ten'\n")
KINDS: dict[str, tuple[Files, Files, Files, str, str, Files]] = {
    "deleted upstream, kept": (
        {"a.py": LINES}, {"a.py": TEN}, {"a.py": None}, "deleted-upstream", "git add a.py", {"a.py": TEN},
    ),
    "deleted by the patch, kept deleted": (
        {"a.py": LINES}, {"a.py": None}, {"a.py": TEN}, "deleted-by-patch", "git rm a.py", {"a.py": None},
    ),
    "both added": (
        {}, {"a.py": "x = 1\n"}, {"a.py": "y = 1\n"}, "both-added", "printf 'z = 1\\n' > a.py && git add a.py",
        {"a.py": "z = 1\n"},
    ),
    "binary, the patch's": (
        {"a.bin": b"\0abc"}, {"a.bin": b"\0abd"}, {"a.bin": b"\0xyz"}, "binary",
        "git checkout --theirs -- a.bin && git add a.bin", {"a.bin": b"\0abd"},
    ),
    "both added a binary": (
        {}, {"a.bin": b"\0abd"}, {"a.bin": b"\0xyz"}, "binary",
        "git checkout --theirs -- a.bin && git add a.bin", {"a.bin": b"\0abd"},
    ),
    "renamed by the patch, deleted upstream": (
        {"a.py": LINES}, {"a.py": None, "c.py": LINES}, {"a.py": None}, "deleted-upstream", "git add c.py",
        {"c.py": LINES, "a.py": None},
    ),
    "renamed by both": (
        {"a.py": LINES}, {"a.py": None, "c.py": LINES}, {"a.py": None, "d.py": LINES}, "gone",
        "git rm -q a.py d.py && git add c.py", {"c.py": LINES, "d.py": None, "a.py": None},
    ),
    "a file where upstream has a folder": (
        {}, {"a": "x\n"}, {"a/b.py": "y\n"}, "in-the-way", "git add a~* && git mv a~* a.txt",
        {"a.txt": "x\n", "a/b.py": "y\n"},
    ),
    "a folder where upstream has a file": (
        {}, {"a/b.py": "y\n"}, {"a": "x\n"}, "in-the-way", "git add a~* && git mv a~* a.txt",
        {"a.txt": "x\n", "a/b.py": "y\n"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", KINDS)
def test_every_kind_of_conflict_says_what_settles_it(story: Story, case: str) -> None:
    base, patch, upstream, kind, command, result = KINDS[case]
    start(story, {"z.py": "z = 1\n", **base})
    story.patch("mine", patch)
    story.release("v1.1", upstream)

    stopped = story.run("rebase", "v1.1", "--json")

    assert stopped.code == 3
    conflicts = stopped.document["stop"]["conflicts"]
    assert conflicts[0]["kind"] == kind
    choices = [text.partition("  #")[0] for one in conflicts for text in one["commands"]]
    if kind not in ("both-added", "gone", "in-the-way"):
        assert command in choices
    untouched = story.run("rebase", "--continue")
    assert untouched.code == 3, "what nobody looked at is no settlement"
    assert "mine is undecided" in untouched.err or "conflict markers in a.py" in untouched.err

    story.git("-c", f"alias.settle=!{command}", "settle", cwd=work(story))
    done = story.run("rebase", "--continue", "--json")

    if done.code == 3:  # a person may keep what a finding doubts
        assert done.verdicts == {"mine": "suspect"}, done.err
        assert story.run("keep", "mine").code == 0
        done = story.run("rebase", "--continue", "--json")
    assert done.code == 0, done.err
    story.carried("z.py")
    for name, content in result.items():
        file = story.applied / name
        wanted = content.encode() if isinstance(content, str) else content
        assert (file.read_bytes() if file.exists() else None) == wanted


def test_a_patch_of_which_nothing_is_left_says_so(story: Story) -> None:
    start(story, {"a.py": LINES, "b.py": "b = 1\n"})
    story.patch("mine", {"a.py": TEN})
    story.release("v1.1", {"a.py": None})
    assert story.run("rebase", "v1.1").code == 3
    story.git("rm", "--quiet", "a.py", cwd=work(story))

    result = story.run("rebase", "--continue")

    assert result.code == 3
    assert "holds nothing of mine any more" in result.err
    assert "hint: forktool rebase --skip drops it" in result.err
    assert story.run("rebase", "--skip").code == 0


def test_a_deleted_file_names_the_commit_and_where_its_definitions_went(story: Story) -> None:
    start(story, {"io/reader.py": HEAD + CLASS, "io/writer.py": "import os\n"})
    story.patch("sizes", {"io/reader.py": HEAD + PATCHED})
    noise = "".join(f"def f{number}():\n    return {number} * {number}\n\n\n" for number in range(20))
    moved = noise + CLASS.replace("class Reader", "class FileReader") + noise.replace("def f", "def g")
    removed = story.commit({"io/reader.py": None, "io/files.py": moved}, "Sort files (#91)")
    story.release("v1.1", {"io/writer.py": "import os\nimport sys\n"})

    result = story.run("rebase", "v1.1")

    assert result.code == 3
    line = moved[: moved.index("    def read")].count("\n") + 1
    assert "io/reader.py: deleted upstream, changed by the patch\n" in result.err
    assert f"  upstream removed it in:\n    {removed[:10]} 2025-06-15 #91 Sort files\n" in result.err
    assert f"  Reader.read is now in io/files.py:{line} as FileReader.read (100% alike)\n" in result.err


def test_a_method_that_upstream_renamed_is_found(story: Story) -> None:
    start(story, {"io/reader.py": HEAD + CLASS})
    story.patch("sizes", {"io/reader.py": HEAD + PATCHED})
    renamed = CLASS.replace("def read(self, path, size)", "def read_some(self, path, *, size)")
    story.release(
        "v1.1", {"io/reader.py": HEAD + renamed.replace("os.read(handle, size)", "os.read(handle, n)")}
    )

    stop = story.run("rebase", "v1.1", "--json").document["stop"]

    assert stop["conflicts"][0]["regions"][0]["definition"] == "Reader.read"
    assert stop["conflicts"][0]["moved_to"] == [
        {
            "definition": "Reader.read",
            "path": "io/reader.py",
            "line": 10,
            "name": "Reader.read_some",
            "likeness": 0.75,
        }
    ]


def test_a_definition_that_is_further_down_now_is_pointed_at(story: Story) -> None:
    def lines(name: str) -> str:
        return "".join(f"        {name}_{number} = self.step({number})\n" for number in range(6))

    head, tail = "class Model:\n", "        return self.done()\n"
    forward = f"    def forward(self, x):\n{lines('go')}{tail}"
    start(story, {"model.py": head + forward})
    patched = forward.replace("go_3 = self.step(3)", "go_3 = self.step(33)")
    story.patch("step", {"model.py": head + patched})
    embed = f"    def embed(self, y):\n{lines('up')}{tail}\n"
    moved = "    def forward(self, x, scale):\n        y = self.embed(x)\n" + lines("go").replace(
        "step", "leap"
    )
    story.release("v1.1", {"model.py": head + embed + moved + tail})

    stop = story.run("rebase", "v1.1", "--json").document["stop"]

    there = stop["conflicts"][0]["moved_to"]
    text = (work(story) / "model.py").read_text().splitlines()
    assert [(one["definition"], one["name"]) for one in there] == [("Model.forward", "Model.forward")]
    assert text[there[0]["line"] - 1] == "    def forward(self, x, scale):"


def test_a_file_that_was_moved_and_changed_past_recognition_is_followed_commit_by_commit(
    story: Story,
) -> None:
    start(story, {"old/a.py": LINES, "z.py": "z = 1\n"})
    story.patch("ten", {"old/a.py": TEN})
    story.commit({"old/a.py": None, "new/a.py": LINES}, "Move (#1)")
    story.commit({"new/a.py": None, "final/b.py": LINES}, "Move again (#2)")
    story.release("v1.1", {"final/b.py": "".join(f"other_{number} = {number}\n" for number in range(60))})

    result = story.run("rebase", "v1.1", "--json")

    conflict_there = result.document["stop"]["conflicts"][0]
    assert conflict_there["kind"] == "deleted-upstream"
    assert conflict_there["deleted_by"]["subject"] == "Move"
    assert conflict_there["renamed_to"] == "final/b.py"


def test_a_file_that_the_merge_followed_names_where_it_was(story: Story) -> None:
    start(story, {"old/a.py": LINES})
    story.patch("ten", {"old/a.py": TEN})
    story.commit({"old/a.py": None, "new/a.py": LINES}, "Move (#1)")
    story.commit({"new/a.py": LINES.replace("= 10\n", "= 0xA\n")}, "Ten (#2)")
    story.release("v1.1")

    result = story.run("rebase", "v1.1", "--json")

    there = result.document["stop"]["conflicts"][0]
    assert (there["path"], there["moved_from"]) == ("new/a.py", "old/a.py")
    assert [cause["number"] for cause in there["regions"][0]["causes"]] == [2]


def test_a_tree_that_is_here_in_part_is_not_searched(story: Story) -> None:
    start(story, {"io/reader.py": HEAD + CLASS, "io/other.py": "x = 1\n"}, history=False)
    story.patch("sizes", {"io/reader.py": HEAD + PATCHED})
    story.release("v1.1", {"io/reader.py": None, "io/files.py": "y = 2\n" * 40, "io/other.py": "x = 3\n"})

    result = story.run("rebase", "v1.1")

    assert result.code == 3
    assert "where upstream moved it is not looked for: v1.1 is here in part" in result.err


def test_a_suspect_shows_its_evidence_and_the_result(story: Story) -> None:
    start(story, {"a.py": LINES})
    story.patch("ten", {"a.py": TEN}, probe="assert \"'ten'\" in tree.read_text('b.py')")
    story.release("v1.1", {"b.py": "x = 'ten'\n"})

    result = story.run("rebase", "v1.1")

    assert result.code == 3
    shown = result.err[result.err.index("stopped at") :]
    assert shown == (
        "stopped at ten: Change for ten\n"
        "  carried because: a test needs ten\n"
        "  probe: green on the bare tree\n"
        "\n"
        f"hint: the result as it would be carried: git -C {shlex.quote(str(work(story)))} diff --cached\n"
        "hint: carry it: forktool keep ten; or change it there; or leave it out: forktool drop ten --reason TEXT\n"
        "hint: then: forktool rebase --continue; or forget the rebase: forktool rebase --abort\n"
    )
    assert "+line_10 = 'ten'" in story.git("diff", "--cached", cwd=work(story))
