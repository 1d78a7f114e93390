from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from forktool.adapters.git_repo import commits, head, object_folder, uncommitted
from forktool.adapters.git_source import GitSource
from forktool.adapters.git_store import GitStore
from forktool.adapters.http import OfflineError
from forktool.adapters.state import State
from forktool.core.objects import Person
from forktool.core.upstream_config import History
from forktool.core.versions import TagPattern
from forktool.errors import ForktoolError, GitError, NetworkError, RequestError

_IDENTITY = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "Ann Author",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_AUTHOR_DATE": "1700000000 +0200",
    "GIT_COMMITTER_NAME": "Cy Committer",
    "GIT_COMMITTER_EMAIL": "cy@example.org",
    "GIT_COMMITTER_DATE": "1700000001 -0330",
}


def git(folder: Path, *args: str, stdin: bytes | None = None) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | _IDENTITY
    done = subprocess.run(["git", *args], cwd=folder, env=env, input=stdin, capture_output=True, check=True)
    return done.stdout.decode().strip()


def commit(folder: Path, message: str, **files: str) -> str:
    for name, content in files.items():
        (folder / name).write_text(content)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "--cleanup=verbatim", "-F", "-", stdin=message.encode())
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "work tree"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "one\n", a="1\n", b="b\n")
    git(folder, "tag", "v1.0")
    commit(folder, "two\n", a="2\n")
    git(folder, "tag", "-a", "-m", "annotated", "v1.1")
    git(folder, "tag", "nightly")
    git(folder, "tag", "v-none")
    commit(folder, "three\n", a="3\n", c="c\n")
    git(folder, "tag", "v1.2rc1")
    return folder


@pytest.fixture
def served(tmp_path: Path, repository: Path) -> Path:
    bare = tmp_path / "served.git"
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(bare))
    git(bare, "config", "uploadpack.allowFilter", "true")
    return bare


class Sourced:
    def __init__(self, home: Path) -> None:
        self.state = State(home / "state")
        self.store = GitStore(self.state.directory() / "upstream.git")
        self.store.create()

    def source(self, repository: str | Path, **options: Any) -> GitSource:
        return GitSource(
            store=self.store, state=self.state, repository=str(repository), pattern=TagPattern(), **options
        )

    def blobs(self) -> int:
        listed = self.store.git("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").split()
        return listed.count(b"blob")

    def refs(self) -> bytes:
        return self.store.git("for-each-ref")


@pytest.fixture
def sourced(tmp_path: Path) -> Iterator[Sourced]:
    made = Sourced(tmp_path)
    with made.store:
        yield made


def test_tags_by_pattern_with_the_commits_they_name(sourced: Sourced, served: Path, repository: Path) -> None:
    source = sourced.source(served)
    assert source.known() == {}
    expected = {tag: git(repository, "rev-parse", f"{tag}^{{commit}}") for tag in ("v1.0", "v1.1", "v1.2rc1")}
    assert source.tags() == expected
    assert sourced.source(served, offline=True).tags() == expected
    assert sourced.source(served).known() == expected


def test_a_tag_comes_alone_and_its_files_when_they_are_read(
    sourced: Sourced, served: Path, repository: Path
) -> None:
    source = sourced.source(served)
    found = source.fetch("v1.1")
    assert found == git(repository, "rev-parse", "v1.1^{commit}")
    assert sourced.refs() == b""
    assert sourced.blobs() == 0
    tree = sourced.store.tree(sourced.store.tree_of(found), label="v1.1")
    assert tree.read("a") == b"2\n"
    assert sourced.blobs() == 1
    assert sourced.store.try_git("rev-parse", "--verify", "-q", f"{found}^").returncode, "shallow"


def test_files_can_be_fetched_ahead_in_one_request(sourced: Sourced, served: Path) -> None:
    source = sourced.source(served)
    found = source.fetch("v1.2rc1")
    source.fetch_files(found, ("a", "c", "not/there"))
    assert sourced.blobs() == 2
    served.rename(served.with_name("gone.git"))
    source.fetch_files(found, ("a",))
    tree = sourced.store.tree(sourced.store.tree_of(found), label="x")
    assert (tree.read("a"), tree.read("c")) == (b"3\n", b"c\n")
    with pytest.raises(GitError):
        tree.read("b")


def test_full_history_when_asked(sourced: Sourced, served: Path) -> None:
    found = sourced.source(served, history=History.FULL).fetch("v1.2rc1")
    assert sourced.store.git("log", "--format=%s", found).split() == [b"three", b"two", b"one"]
    served.rename(served.with_name("gone.git"))
    tree = sourced.store.tree(sourced.store.tree_of(found), label="x")
    assert [tree.read(path) for path in "abc"] == [b"3\n", b"b\n", b"c\n"]


def test_full_history_after_a_shallow_fetch(sourced: Sourced, served: Path) -> None:
    sourced.source(served).fetch("v1.1")
    found = sourced.source(served, history=History.FULL).fetch("v1.2rc1")
    assert sourced.store.git("log", "--format=%s", found).split() == [b"three", b"two", b"one"]
    tree = sourced.store.tree(sourced.store.tree_of(found), label="x")
    assert [tree.read(path) for path in "abc"] == [b"3\n", b"b\n", b"c\n"]


def test_a_server_that_cannot_filter_sends_everything(sourced: Sourced, served: Path) -> None:
    git(served, "config", "uploadpack.allowFilter", "false")
    found = sourced.source(served).fetch("v1.1")
    assert sourced.blobs() == 2
    assert sourced.store.git("log", "--format=%s", found).split() == [b"two"]


def test_a_work_tree_and_a_relative_path_serve_too(
    sourced: Sourced, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository.parent)
    assert sourced.source(repository.name).fetch("v1.0") == git(repository, "rev-parse", "v1.0")


def test_a_tag_that_is_not_there(sourced: Sourced, served: Path) -> None:
    with pytest.raises(RequestError, match="has no tag v9") as caught:
        sourced.source(served).fetch("v9")
    assert caught.value.exit_code == 2
    assert sourced.refs() == b""


@pytest.mark.parametrize(
    ("repository", "kind", "message"),
    [
        ("http://127.0.0.1:1/none.git", NetworkError, "127.0.0.1"),
        ("file:///nonexistent/none.git", NetworkError, "nonexistent"),
        ("ext::sh -c true", ForktoolError, "ext"),
        ("--upload-pack=true", ForktoolError, "upload-pack"),
    ],
)
def test_a_repository_that_cannot_be_reached(
    sourced: Sourced, repository: str, kind: type[ForktoolError], message: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        sourced.source(repository).tags()
    assert caught.value.exit_code == 4


def test_a_folder_that_is_no_repository(sourced: Sourced, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(RequestError, match="is not a git repository"):
        sourced.source(tmp_path / "plain").tags()


def test_offline_fetches_nothing(sourced: Sourced, served: Path) -> None:
    with pytest.raises(OfflineError, match="--offline forbids it"):
        sourced.source(served, offline=True).fetch("v1.0")


def test_the_environment_of_a_hook_changes_nothing(
    sourced: Sourced, served: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"):
        monkeypatch.setenv(name, "/nonexistent")
    assert sourced.source(served).fetch("v1.0") == git(repository, "rev-parse", "v1.0")
    found = commits(repository, "v1.0..v1.1")
    assert [item.subject for item in found] == ["two"]
    assert os.environ["GIT_DIR"] == "/nonexistent"


class _Backend(BaseHTTPRequestHandler):
    """git http-backend behind Basic authentication."""

    server: Any
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.server.token and self.headers.get("Authorization") != self.server.token:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _mark, query = self.path.partition("?")
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.server.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=False)
        head_, _blank, content = done.stdout.partition(b"\r\n\r\n")
        headers = [line.split(": ", 1) for line in head_.decode().split("\r\n") if line]
        self.send_response(next((int(value.split()[0]) for name, value in headers if name == "Status"), 200))
        for name, value in headers:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = _answer  # noqa: N815


@pytest.fixture
def backend(served: Path) -> Iterator[ThreadingHTTPServer]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Backend)
    server.root, server.token = served.parent, ""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_over_http(sourced: Sourced, backend: Any, repository: Path) -> None:
    source = sourced.source(f"http://127.0.0.1:{backend.server_address[1]}/served.git")
    assert "v1.1" in source.tags()
    found = source.fetch("v1.1")
    assert sourced.blobs() == 0
    assert sourced.store.tree(sourced.store.tree_of(found), label="x").read("a") == b"2\n"


def test_credentials_are_never_asked_for(sourced: Sourced, backend: Any) -> None:
    backend.token = "Basic dXNlcjpzZWNyZXQ="  # user:secret
    address = f"127.0.0.1:{backend.server_address[1]}/served.git"
    with pytest.raises(NetworkError, match="asks for credentials"):
        sourced.source(f"http://{address}").tags()
    assert "v1.1" in sourced.source(f"http://user:secret@{address}").tags()
    with pytest.raises(RequestError, match="has no tag v9") as caught:
        sourced.source(f"http://user:secret@{address}").fetch("v9")
    assert "secret" not in f"{caught.value.message} {caught.value.hint}"


# A user's repository


def test_commits_oldest_first_with_everything_a_patch_needs(repository: Path) -> None:
    found = commits(repository, "v1.0..")
    assert [item.message for item in found] == ["two\n", "three\n"]
    assert found[0].oid == git(repository, "rev-parse", "v1.1^{commit}")
    assert found[0].tree == git(repository, "rev-parse", "v1.1^{tree}")
    assert found[0].parents == (git(repository, "rev-parse", "v1.0"),)
    assert found[0].author == Person(name="Ann Author", email="ann@example.org", when="1700000000 +0200")
    assert found[0].committer.when == "1700000001 -0330"
    assert head(repository) == found[1].oid


def test_a_message_is_text_whatever_its_encoding(repository: Path) -> None:
    message = "[Bugfix][V1] Größe\n\nbody\n\n\nlast  \n"
    for encoding in ("ISO-8859-1", "UTF-8"):
        configuration = ("-c", f"i18n.commitEncoding={encoding}")
        options = ("--allow-empty", "--cleanup=verbatim", "-F", "-")
        git(repository, *configuration, "commit", "-q", *options, stdin=message.encode(encoding))
    assert [item.message for item in commits(repository, "v1.2rc1..HEAD")] == [message, message]


def test_a_signature_is_no_header_of_ours(repository: Path) -> None:
    raw = git(repository, "cat-file", "commit", "HEAD").encode()
    signed = raw.replace(b"\n\n", b"\ngpgsig -----BEGIN\n tree 0000\n author x\n -----END\n\n", 1) + b"\n"
    made = git(repository, "hash-object", "-t", "commit", "-w", "--stdin", stdin=signed)
    git(repository, "branch", "signed", made)
    [found] = commits(repository, "v1.1..signed")
    assert (found.author.name, found.subject) == ("Ann Author", "three")


def test_a_merge_is_refused_by_name(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "side", "v1.0")
    commit(repository, "side\n", d="d\n")
    git(repository, "merge", "-q", "-m", "the merge", "main")
    merge = git(repository, "rev-parse", "HEAD")
    with pytest.raises(RequestError, match=f"{merge[:12]} 'the merge' is a merge") as caught:
        commits(repository, "v1.0..side")
    assert caught.value.hint == f"git -C {repository} rebase v1.0"


def test_history_that_is_cut_off_is_refused(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", repository.as_uri(), "shallow")
    git(tmp_path / "shallow", "fetch", "-q", "--depth=1", "origin", "tag", "v1.0")
    with pytest.raises(RequestError, match="'three' has no parent here"):
        commits(tmp_path / "shallow", "v1.0..HEAD")


@pytest.mark.parametrize(
    ("span", "message"),
    [
        ("v1.0", "is not a span"),
        ("v1.0...v1.1", "is not a span"),
        ("v1.0..v7", "has no commit v7"),
        ("--all..v1.1", "has no commit --all"),
        ("v1.1..v1.1", "holds no commits"),
    ],
)
def test_a_span_that_makes_no_series(repository: Path, span: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        commits(repository, span)


def test_a_path_that_is_no_repository(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="does not exist"):
        head(tmp_path / "none")
    with pytest.raises(RequestError, match="is not a git repository"):
        head(tmp_path)
    git(tmp_path, "init", "-q", "empty")
    with pytest.raises(RequestError, match="has no commit HEAD"):
        head(tmp_path / "empty")


def test_what_is_not_committed(repository: Path) -> None:
    assert uncommitted(repository) == ()
    (repository / "a").write_text("changed\n")
    (repository / "new file").write_text("x")
    (repository / "ignored").write_text("x")
    (repository / ".git" / "info" / "exclude").write_text("ignored\n")
    git(repository, "rm", "-q", "--cached", "c")
    assert uncommitted(repository) == ("a", "c", "c", "new file")


def test_where_objects_are(repository: Path, tmp_path: Path) -> None:
    assert object_folder(repository) == repository.resolve() / ".git" / "objects"
    git(repository, "worktree", "add", "-q", str(tmp_path / "linked"), "v1.0")
    assert object_folder(tmp_path / "linked") == repository.resolve() / ".git" / "objects"
    assert head(tmp_path / "linked") == git(repository, "rev-parse", "v1.0")


def test_gitpython_is_not_imported_before_it_is_needed() -> None:
    code = (
        "import sys, forktool.adapters.git_repo, forktool.adapters.upstream\n"
        "print([name for name in ('git', 'requests', 'remotezip', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
