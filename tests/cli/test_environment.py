"""The user's git configuration, environment and machine change no result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.story import Story

TEXT = "".join(f"line_{number} = {number}\n" for number in range(1, 61))
OTHER = TEXT.replace("line", "other")

# Each of these changed what some git command wrote, in one of git 2.30 to 2.45, or is meant to.
HOSTILE = (
    "core.abbrev=12", "core.quotePath=false", "core.autocrlf=true", "core.eol=crlf", "core.safecrlf=true",
    "core.fileMode=false", "core.symlinks=false", "core.ignoreCase=true", "core.whitespace=cr-at-eol",
    "core.pager=false", "core.editor=false", "core.fsmonitor=true", "core.commentChar=x", "core.logAllRefUpdates=false",
    "core.bigFileThreshold=1", "core.compression=0", "core.sharedRepository=group",
    "diff.context=0", "diff.interHunkContext=5", "diff.orderFile=/no/such/file", "diff.renameLimit=1",
    "diff.renames=false", "diff.suppressBlankEmpty=true", "diff.noprefix=true", "diff.mnemonicPrefix=true",
    "diff.ignoreSubmodules=all", "diff.submodule=log", "diff.algorithm=histogram", "diff.external=/bin/true",
    "diff.wsErrorHighlight=all", "diff.colorMoved=zebra", "diff.wordRegex=.", "diff.relative=true", "diff.noIndex=1",
    "diff.indentHeuristic=false", "diff.statGraphWidth=10", "diff.srcPrefix=x/", "diff.dstPrefix=y/",
    "format.attach=true", "format.cc=c@example.org", "format.to=a@example.org", "format.encodeEmailHeaders=false",
    "format.headers=X-A: b", "format.notes=true", "format.numbered=true", "format.signature=me", "format.signOff=true",
    "format.subjectPrefix=X", "format.thread=true", "format.useAutoBase=true", "format.from=true",
    "format.coverLetter=true", "format.filenameMaxLength=10", "format.suffix=.txt", "format.noprefix=true",
    "format.pretty=oneline", "format.outputDirectory=/no/such/folder",
    "i18n.logOutputEncoding=ISO-8859-1", "i18n.commitEncoding=ISO-8859-1", "color.ui=always", "color.diff=always",
    "log.showSignature=true", "log.date=relative", "log.mailmap=true", "mailinfo.scissors=true", "am.threeWay=true",
    "am.keepcr=false", "apply.whitespace=error", "commit.gpgSign=true", "commit.cleanup=scissors", "tag.gpgSign=true",
    "gpg.program=false", "user.useConfigOnly=true", "merge.conflictStyle=merge", "merge.renames=false",
    "merge.directoryRenames=true", "merge.default=binary", "merge.ff=only", "rerere.enabled=true",
    "rerere.autoUpdate=true", "gc.auto=1", "gc.autoDetach=false", "maintenance.auto=true", "index.version=4",
    "feature.manyFiles=true", "feature.experimental=true", "init.defaultBranch=trunk", "fetch.prune=true",
    "fetch.fsckObjects=true", "transfer.fsckObjects=true", "fetch.writeCommitGraph=true",
    "fetch.recurseSubmodules=true", "fetch.parallel=0", "pull.rebase=true", "status.showUntrackedFiles=no", "status.relativePaths=false",
    "submodule.recurse=true", "versionsort.suffix=-rc", "worktree.guessRemote=true", "checkout.defaultRemote=upstream",
    "remote.upstream.fetch=+refs/heads/*:refs/heads/hostile/*", "remote.upstream.tagOpt=--tags",
    "remote.upstream.prune=true", "protocol.version=0", "advice.detachedHead=true", "safe.bareRepository=all",
)  # fmt: skip
# What cannot be said together with another of the list.
OTHERWISE = (
    "diff.context=9", "diff.renames=copies", "diff.algorithm=patience", "diff.submodule=diff", "core.abbrev=40",
    "core.autocrlf=input", "format.attach=", "merge.conflictStyle=zdiff3", "merge.renames=true",
    "merge.directoryRenames=false", "color.ui=false", "protocol.version=2", "core.fsmonitor=/bin/true",
)  # fmt: skip


def file_of(settings: tuple[str, ...]) -> str:
    lines = []
    for setting in settings:
        name, _, value = setting.partition("=")
        section, _, key = name.rpartition(".")
        top, dot, below = section.partition(".")
        lines.append(f'[{top} "{below}"]' if dot else f"[{top}]")
        lines.append(f'\t{key} = "{value}"')
    return "".join(f"{line}\n" for line in lines)


def environment_of(settings: tuple[str, ...]) -> dict[str, str]:
    found = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, setting in enumerate(settings):
        name, _, value = setting.partition("=")
        found |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def write_series(story: Story) -> None:
    """A base, five patches and a tag on which they are refreshed, followed and resolved."""
    story.write({"m.py": TEXT, "source.py": OTHER, "old.py": TEXT + OTHER, "crlf.txt": b"c\r\nd\r\ne\r\n"})
    story.write({"lat.txt": b"l\xe9\n", "na me é.txt": "f\n", "x b/y.py": "q\n", "b.bin": b"b\0in"})
    (story.upstream / "link").symlink_to("m.py")
    (story.upstream / "module").mkdir()
    story.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    story.release("v1.0", {"run.sh": "#!/bin/sh\n", "ß.py": TEXT, "moves/a.py": TEXT.replace("line", "a")})
    story.start("v1.0")
    story.require("reason", "signed-off-by")

    def edit(root: Path) -> None:
        (root / "old.py").rename(root / "renamed.py")
        (root / "renamed.py").chmod(0o755)
        (root / "link").unlink()
        (root / "link").symlink_to("lat.txt")
        story.git("update-index", "--cacheinfo", f"160000,{'2' * 40},module", cwd=root)

    changed = TEXT.replace("line_20 = 20", "line_20 = 'twenty'").replace(
        "line_27 = 27\n", "\nline_27 = 'ws'  \n"
    )
    tail = "\n\nReason: a test\nSigned-off-by: A Maintainer <maintainer@example.org>\n"
    story.patch("one", {"m.py": changed, "source.py": OTHER + "more = 1\n", "copy.py": OTHER}, edit=edit)
    story.patch(
        "two",
        {"b.bin": b"b\0out", "na me é.txt": "f\ng\n", "x b/y.py": "q\nr\n", "empty.py": ""},
        message="[Core][Bugfix] Ändere é things in a subject that is long enough to be folded over two lines"
        + tail,
    )
    story.patch(
        "three",
        {"crlf.txt": b"c\r\nD\r\ne\r\n", "lat.txt": b"l\xe9\n\xfc no newline", "run.sh": "#!/bin/sh\n:\n"},
    )
    story.patch("four", {"moves/a.py": TEXT.replace("line", "a") + "a_61 = 61\n"})
    story.release("v1.1", {"m.py": "import os\n" + TEXT, "crlf.txt": b"b\r\nc\r\nd\r\ne\r\n", "moves/a.py": None,
                           "moved.py": "import sys\n" + TEXT.replace("line", "a")})  # fmt: skip


def restore(story: Story, files: Mapping[str, bytes]) -> None:
    """Put the patchset back, and forget everything that was fetched or computed."""
    import shutil

    for folder in ("patchset", ".forktool"):
        shutil.rmtree(story.project / folder, ignore_errors=True)
    for name, content in files.items():
        file = story.project / "patchset" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def test_no_git_setting_changes_a_byte(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    write_series(story)
    old = story.snapshot()
    assert story.run("rebase", "v1.1", "--json").verdicts == dict.fromkeys(
        ["one", "three", "four"], "refreshed"
    ) | {"two": "unchanged"}
    new, tree = story.snapshot(), story.carried_tree()
    global_file = Path.home() / ".gitconfig"
    for settings in (HOSTILE, OTHERWISE):
        for way in ("file", "environment"):
            restore(story, old)
            with monkeypatch.context() as hostile:
                if way == "file":
                    global_file.write_text(file_of(settings))
                else:
                    for name, value in environment_of(settings).items():
                        hostile.setenv(name, value)
                rebased = story.run("rebase", "v1.1")
                applied = story.run("apply", str(story.applied), "--force")
                exported = story.run("export", str(story.applied))
                checked = story.run("check")
                told = story.run("diff")
            global_file.unlink(missing_ok=True)
            assert rebased.code == 0, rebased.err
            assert story.snapshot() == new, way
            assert applied.code == 0, applied.err
            assert exported.out == "nothing changed\n", exported.out + exported.err
            assert checked.code == 0, checked.out
            assert told.code == 0, told.err
            assert "\x1b" not in told.out
            assert story.git("rev-parse", "HEAD^{tree}", cwd=story.applied).strip() == tree


def test_a_conflict_is_settled_the_same_way_under_hostile_settings(
    story: Story, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No identity, a signing program that fails, hooks that fail, CRLF conversion, attributes that break merging."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in (
        "pre-commit",
        "commit-msg",
        "post-checkout",
        "post-index-change",
        "reference-transaction",
        "post-rewrite",
    ):
        (hooks / name).write_text("#!/bin/sh\necho hook >&2\nexit 1\n")
        (hooks / name).chmod(0o755)
    attributes = tmp_path / "attributes"
    attributes.write_text("* -diff -merge text eol=crlf working-tree-encoding=UTF-16 ident filter=broken\n")
    story.release("v1.0", {"m.py": TEXT})
    story.start("v1.0")
    story.patch("ten", {"m.py": TEXT.replace("line_10 = 10", "line_10 = 'ten'")})
    story.release("v1.1", {"m.py": TEXT.replace("line_10 = 10", "line_10 = 0x0A")})
    paths = (
        f"[core]\n\thooksPath = {hooks}\n\tattributesFile = {attributes}\n"
        '[filter "broken"]\n\tclean = false\n\trequired\n'
    )
    (Path.home() / ".gitconfig").write_text(file_of(HOSTILE) + paths)
    work = story.project / ".forktool/conflict/m.py"

    assert story.run("rebase", "v1.1").code == 3
    shown = work.read_bytes()
    assert b"\r" not in shown
    assert b"|||||||" in shown
    work.write_text(TEXT.replace("line_10 = 10", "line_10 = 'TEN'"))
    done = story.run("rebase", "--continue", "--json")

    assert done.code == 0, done.err
    assert done.verdicts == {"ten": "resolved"}
    assert story.carried("m.py") == TEXT.replace("line_10 = 10", "line_10 = 'TEN'")


def test_git_variables_of_a_hook_lead_nowhere(
    story: Story, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A hook of another repository runs with GIT_DIR, GIT_INDEX_FILE and their like set."""
    write_series(story)
    other = tmp_path / "other"
    other.mkdir()
    story.git("init", "--quiet", cwd=other)
    (other / "f").write_text("f\n")
    story.git("add", "f", cwd=other)
    story.git("commit", "--quiet", "--message", "f", cwd=other)
    before = {file: file.read_bytes() for file in sorted(other.rglob("*")) if file.is_file()}
    with monkeypatch.context() as hook:
        hook.setenv("GIT_DIR", str(other / ".git"))
        hook.setenv("GIT_WORK_TREE", str(other))
        hook.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
        hook.setenv("GIT_OBJECT_DIRECTORY", str(other / ".git/objects"))
        hook.setenv("GIT_COMMON_DIR", str(other / ".git"))
        hook.setenv("GIT_NAMESPACE", "hostile")
        hook.setenv("GIT_PREFIX", "sub/")
        hook.setenv("GIT_LITERAL_PATHSPECS", "1")
        hook.setenv("GIT_EXTERNAL_DIFF", "/bin/true")
        hook.setenv("GIT_DIFF_OPTS", "--unified=0")
        hook.setenv("GIT_DEFAULT_HASH", "sha256")
        hook.setenv("GIT_AUTHOR_DATE", "not a date")
        results = [
            story.run("rebase", "v1.1"),
            story.run("apply", str(story.applied)),
            story.run("export", str(story.applied)),
            story.run("check"),
        ]
    assert [result.code for result in results] == [0, 0, 0, 0], [result.err for result in results]
    assert results[2].out == "nothing changed\n"
    assert {file: file.read_bytes() for file in sorted(other.rglob("*")) if file.is_file()} == before


def test_locale_time_zone_umask_and_a_home_that_cannot_be_used_change_nothing(story: Story) -> None:
    write_series(story)
    story.probe("two", "assert 'g' in tree.read_text('na me é.txt')")
    old = story.snapshot()
    assert story.run("rebase", "v1.1").code == 0
    new = story.snapshot()
    restore(story, old)
    program = "import os, sys; os.umask(0o077); from forktool.cli import entry_point; sys.exit(entry_point())"
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "HOME": "/proc/no/such/home",
        "LC_ALL": "C",
        "LANGUAGE": "de",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONUTF8": "0",
        "TZ": "Pacific/Kiritimati",
    }

    def forktool(*words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-c", program, *words],
            cwd=story.project,
            env=environment,
            capture_output=True,
            check=False,
        )

    done = forktool("rebase", "v1.1")
    assert done.returncode == 0, done.stderr
    assert story.snapshot() == new
    listed = forktool("status")
    assert listed.returncode == 0, listed.stderr
    assert b"two" in listed.stdout
    subjects = [patch["subject"] for patch in json.loads(forktool("status", "--json").stdout)["patches"]]
    assert subjects[1].startswith("[Core][Bugfix] Ändere é things")
    assert forktool("check").returncode == 0
