"""Where offered patches come from: what each word of the command line means."""

from __future__ import annotations

from pathlib import Path

import pytest

from forktool.adapters.git_identity import identity
from forktool.adapters.patch_sources import find_texts
from forktool.core.loose_diff import RefusedError
from forktool.errors import RequestError
from tests.support.story import Story

DIFF = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"


def sources(*words: str) -> list[tuple[str, str | None]]:
    return [(text.source, text.name) for text in find_texts(words, offline=True)]


def error(*words: str) -> str:
    with pytest.raises(RequestError) as caught:
        find_texts(words, offline=True)
    return caught.value.message


def test_a_folder_is_read_in_the_order_of_its_numbers(tmp_path: Path) -> None:
    for name in ("10-b.patch", "9-a.diff", "z.mbox", "notes.txt", "README"):
        (tmp_path / name).write_text(DIFF)

    assert [Path(source).name for source, _name in sources(str(tmp_path))] == [
        "9-a.diff",
        "10-b.patch",
        "z.mbox",
    ]


@pytest.mark.parametrize("place", ["", "patches", "debian/patches"])
def test_a_quilt_series_gives_order_and_names(tmp_path: Path, place: str) -> None:
    folder = tmp_path / place
    (folder / "sub").mkdir(parents=True)
    (folder / "series").write_text("# first\nsub/b.diff -p0\na.patch # why\n\n")
    for name in ("sub/b.diff", "a.patch", "left-out.patch"):
        (folder / name).write_text(DIFF)

    assert sources(str(tmp_path)) == [(str(folder / "sub/b.diff"), "b"), (str(folder / "a.patch"), "a")]


def test_what_a_quilt_series_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "a.patch").write_text(DIFF)
    (tmp_path / "series").write_text("a.patch -R\n")
    assert error(str(tmp_path)) == f"{tmp_path}/series:1: a.patch is applied in reverse"
    (tmp_path / "series").write_text("\nb.patch\n")
    assert error(str(tmp_path)) == f"{tmp_path}/series:2: b.patch is not in {tmp_path}"


def test_words_that_name_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()

    assert error("nothing.patch") == "nothing.patch does not exist"
    assert error("v1..v2") == "v1..v2 is a span of commits without a repository"
    assert error("empty") == "empty holds no patches and no series file"
    assert error("empty", "v1..v2") == "empty is not a git repository"
    assert error("../gone.patch") == "../gone.patch does not exist"


def test_several_words_keep_their_order(story: Story) -> None:
    story.release("v1", {"x": "a\n"})
    story.commit({"x": "b\n"}, "Second")
    file = story.project / "one.patch"
    file.write_text(DIFF)

    found = find_texts([str(file), str(story.upstream), "v1..main", str(file)], offline=True)

    assert [text.commit is not None for text in found] == [False, True, False]
    (offered,) = found[1].offered()
    assert (offered.message, offered.author) == ("Second\n", ("A Maintainer", "maintainer@example.org"))
    assert offered.source == f"{story.upstream}@{story.git('rev-parse', 'main')[:12]}"


def test_a_commit_in_another_encoding_and_zone(story: Story) -> None:
    story.release("v1", {"x": "a\n"})
    story.write({"x": "b\n"})
    story.git(
        "-c",
        "i18n.commitEncoding=ISO-8859-1",
        "commit",
        "--all",
        "--message",
        "Caf\udce9",
        "--date=1750000000 -0000",
    )

    (text,) = find_texts([str(story.upstream), "v1.."], offline=True)

    (offered,) = text.offered()
    assert offered.message == "Café\n"
    assert offered.when == "1750000000 +0000"


def test_a_commit_that_changes_nothing(story: Story) -> None:
    story.release("v1", {"x": "a\n"})
    story.release("v2")
    (text,) = find_texts([str(story.upstream), "v1..v2"], offline=True)

    with pytest.raises(RefusedError, match="the commit 'Release v2' changes nothing"):
        text.offered()


def test_who_the_user_is(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RequestError, match=r"user\.name is not set"):
        identity(story.project)
    story.git("config", "user.name", "Local")
    story.git("config", "user.email", "l@example.org")
    assert identity(story.upstream) == ("Local", "l@example.org")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Env")
    monkeypatch.setenv("GIT_DIR", str(story.project / "nowhere"))
    assert identity(story.upstream) == ("Env", "l@example.org")
