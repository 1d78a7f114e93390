"""What `forktool live` runs beside an installed package: self-contained, Python 3.9 or newer, standard library only.

`adapters.live_target` sends this file as text to `python3 -`, here or through ssh, with one request; nothing of
forktool need be there. It imports nothing of forktool for that reason, and nothing of the package it changes.

A change is a transaction. Beside the dist-info folder stands `NAME-VERSION.forktool-live/` with the originals
(`before/SHA256`) and `journal.json`, which says for every path what it held and what it is to hold. Once the journal
is there, a kill at any instant leaves each path old or new, and `undo` brings all of them back. Everything that is
new is listed in RECORD ("Recording installed projects" on packaging.python.org: rows may lack hash and size), so
that an uninstall takes it along.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import fcntl
import hashlib
import importlib.util
import io
import json
import os
import re
import site
import socket
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from email.parser import Parser
from typing import Any

FOLDER = ".forktool-live"
JOURNAL = "journal.json"
TEMPORARY = ".forktool-new"
CONTENT_LIMIT = 8 << 20
"""Bytes. No source file is larger; a library that was replaced is named and not sent."""

Document = dict[str, Any]


class RefusedError(Exception):
    """The request cannot be done here, and nothing was changed."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def main(request: Document) -> None:
    """Answer one request with one line on stdout: the request's token and JSON."""
    try:
        answer = {"inspect": inspect, "apply": apply, "revert": revert}[request["action"]](request)
    except RefusedError as error:
        answer = {"refused": str(error), "hint": error.hint}
    except OSError as error:
        answer = {"refused": f"{error.filename or 'the disk'}: {error.strerror or error}", "outside": True}
    sys.stdout.write(f"\n{request['token']} {json.dumps(answer)}\n")
    sys.stdout.flush()


# Finding the package


class Installed:
    """One installed distribution: the folder it is in and its dist-info."""

    def __init__(self, location: str, info: str) -> None:
        self.location = location
        self.info = info
        self.stem = info[: -len(".dist-info")]
        self.folder = os.path.join(location, self.stem + FOLDER)
        self.record = f"{info}/RECORD"

    def path(self, name: str) -> str:
        """The file that a path of RECORD names."""
        return os.path.join(self.location, *name.split("/"))

    def text(self, name: str) -> str:
        """A file of dist-info; empty where there is none."""
        try:
            return read(os.path.join(self.location, self.info, name)).decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def rows(self) -> dict[str, list[str]]:
        """RECORD, by path: hash and size."""
        return {row[0]: row[1:] for row in csv.reader(io.StringIO(self.text("RECORD"))) if row}


def normal(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def find(names: Iterable[str]) -> list[Installed]:
    """Every distribution with one of these names, in the order in which Python looks."""
    wanted = {normal(name) for name in names}
    found = []
    for location in dict.fromkeys(os.path.abspath(entry) for entry in sys.path if os.path.isdir(entry)):
        for name in sorted(os.listdir(location)):
            if name.endswith((".dist-info", ".egg-info", ".egg-link")):
                stem = name.rpartition(".")[0]
                if normal(stem.partition("-")[0]) in wanted:
                    found.append(Installed(location, name))
    return found


def one(request: Document) -> Installed:
    """The distribution that Python uses; refuses what cannot be changed safely."""
    found = find(request["distributions"])
    wanted = " or ".join(request["distributions"])
    if not found:
        raise RefusedError(
            f"{sys.executable} has no {wanted} installed", "name another one with --python PATH"
        )
    here = found[0]
    if not here.info.endswith(".dist-info"):
        raise RefusedError(f"{wanted} in {here.location} is a development or egg install ({here.info})")
    if json.loads(here.text("direct_url.json") or "{}").get("dir_info", {}).get("editable"):
        raise RefusedError(
            f"{here.stem} in {here.location} is an editable install: its source is a checkout",
            "forktool apply DIR writes the series as a git work tree to merge there",
        )
    if here.text("INSTALLER").strip() == "conda":
        raise RefusedError(
            f"{here.stem} in {here.location} was installed by conda, whose own list of files would go stale",
            "install the wheel with pip or uv in that environment",
        )
    if not here.text("RECORD"):
        raise RefusedError(
            f"{here.stem} in {here.location} has no RECORD: nothing says what was installed",
            "reinstall it with pip or uv",
        )
    own = within(here.location, sys.prefix) or within(here.location, site.getusersitepackages())
    if not own and sys.prefix != sys.base_prefix and within(here.location, sys.base_prefix):
        raise RefusedError(
            f"{here.location} belongs to the Python that this environment was made from, not to {sys.prefix}",
            f"to change it for everybody: --python {os.path.realpath(sys.executable)}",
        )
    for top in {name.partition("/")[0] for name in request["paths"] if "/" in name} & tops(here):
        spec = importlib.util.find_spec(top)
        places = list(spec.submodule_search_locations or [spec.origin or ""]) if spec else []
        if not any(within(place, here.location) for place in places):
            raise RefusedError(
                f"Python imports {top} from {places[0] if places else 'nowhere'}, not from {here.location}",
                "unset PYTHONPATH, or remove the other copy",
            )
    return here


def tops(here: Installed) -> set[str]:
    """The top-level folders that the distribution installed beside its dist-info."""
    names = {name.partition("/")[0] for name in here.rows() if "/" in name}
    return {name for name in names if name != ".." and not name.endswith((".dist-info", FOLDER))}


def within(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies below it; links are followed."""
    real, root = os.path.realpath(path), os.path.realpath(folder)
    return real == root or real.startswith(root.rstrip(os.sep) + os.sep)


# Looking


def inspect(request: Document) -> Document:
    """What is installed, what differs from RECORD, what an earlier apply left, and who has it loaded."""
    here = one(request)
    rows = here.rows()
    journal = load(here)
    original = {} if journal is None else {item["path"]: item["before"] for item in journal["files"]}
    files = {}
    for name in request["paths"]:
        row = rows.get(name)
        document = {"recorded": row is not None, **seen(here, name, row)}
        if name in original:
            document["original"] = kept(here, original[name])
        files[name] = document
    differs, missing = compare(here, rows) if request.get("compare") else ([], [])
    answer: Document = {
        "python": sys.executable,
        "python_version": ".".join(map(str, sys.version_info[:3])),
        "host": socket.gethostname(),
        "distribution": here.stem.partition("-")[0],
        "version": Parser().parsestr(here.text("METADATA"))["Version"],
        "location": here.location,
        "installer": here.text("INSTALLER").strip(),
        "shadowed": [os.path.join(item.location, item.info) for item in find(request["distributions"])[1:]],
        "tops": sorted(tops(here)),
        "files": files,
        "differs": differs,
        "missing": missing,
        "journal": None,
        "processes": processes(here),
    }
    if request.get("contents"):
        answer["added"] = added(here, rows)
        answer["contents"] = {name: seen(here, name, rows.get(name)) for name in (*differs, *answer["added"])}
    if journal is not None or os.path.isdir(here.folder):
        states = {} if journal is None else {item["path"]: state(here, item) for item in journal["files"]}
        answer["journal"] = {"note": journal and journal["note"], "states": states, "folder": here.folder}
    return answer


def seen(here: Installed, name: str, row: list[str] | None) -> Document:
    """One file: content in base64 or None, whether it is what RECORD says, executable or not."""
    path = here.path(name)
    if not os.path.isfile(path):
        return {"content": None, "matches": None, "executable": False}
    content = read(path) if os.path.getsize(path) <= CONTENT_LIMIT else None
    matches = None if row is None or not row[0] else hashed(path, row[0]) == row[0]
    return {
        "content": None if content is None else base64.b64encode(content).decode(),
        "too_large": content is None,
        "matches": matches,
        "executable": bool(os.stat(path).st_mode & 0o100),
    }


def compare(here: Installed, rows: dict[str, list[str]]) -> tuple[list[str], list[str]]:
    """The files that differ from RECORD, and those that are missing."""
    differs, missing = [], []
    for name, (digest, size) in rows.items():
        if not digest or name.partition("/")[0] == here.stem + FOLDER:
            continue
        path = here.path(name)
        if not os.path.isfile(path):
            missing.append(name)
        elif (size and os.path.getsize(path) != int(size)) or hashed(path, digest) != digest:
            differs.append(name)
    return differs, missing


def added(here: Installed, rows: dict[str, list[str]]) -> list[str]:
    """Files below the package's folders that RECORD does not list, without caches."""
    found = []
    for top in sorted(tops(here)):
        for folder, folders, names in os.walk(here.path(top)):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                path = os.path.relpath(os.path.join(folder, name), here.location).replace(os.sep, "/")
                if path not in rows and not name.endswith((".pyc", TEMPORARY)):
                    found.append(path)
    return found


def processes(here: Installed) -> list[Document]:
    """Running processes that have the package loaded, by their memory maps or else their command line.

    proc(5): `maps` of another user's process cannot be read; its command line can.
    """
    found = []
    mine, pid = {os.getpid()}, os.getppid()
    while pid > 1 and pid not in mine:
        mine.add(pid)
        pid = parent(pid)
    folders = [os.path.realpath(here.path(top)) + os.sep for top in tops(here)]
    either = "|".join(map(re.escape, tops(here))) or "$^"
    mentions, titled = (
        re.compile(rf"\b({either})\b", re.IGNORECASE),
        re.compile(rf"({either})::", re.IGNORECASE),
    )
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if not name.isdigit() or int(name) in mine:
            continue
        how = None
        with contextlib.suppress(OSError):
            arguments = read(f"/proc/{name}/cmdline").decode("utf-8", "replace").rstrip("\0").split("\0")
            line = " ".join(arguments).strip()
            # A process that gave itself a title (`NAME::Worker`) has no arguments left.
            if titled.match(line) or (mentions.search(line) and runs_here(name, arguments[0])):
                how = "by its command line"
            with contextlib.suppress(OSError):
                maps = read(f"/proc/{name}/maps").decode("utf-8", "replace")
                how = "has its libraries mapped" if any(folder in maps for folder in folders) else how
            if how is not None:
                found.append({"pid": int(name), "command": line[:200], "how": how})
    return sorted(found, key=lambda item: item["pid"])


def runs_here(pid: str, program: str) -> bool:
    """Whether a process is this interpreter: by its path, or for a bare `python` by its executable."""
    if os.path.basename(program)[:6] != "python":
        return False
    if os.sep in program:
        return os.path.dirname(program) == os.path.dirname(sys.executable)
    try:
        return os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(sys.executable)
    except OSError:
        return False


def parent(pid: int) -> int:
    """The parent of a process; 0 where it cannot be told."""
    try:
        return int(read(f"/proc/{pid}/stat").decode("utf-8", "replace").rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


# Changing


def apply(request: Document) -> Document:
    """Undo what an earlier apply did, then bring every file to its new content; all of them or none."""
    here = one(request)
    with locked(here):
        undone = undo(here)
        entries = []
        for change in request["changes"]:
            guard(here, change["path"])
            before = capture(here.path(change["path"]))
            if (before and before["sha256"]) != change["expect"]:
                raise RefusedError(
                    f"{change['path']} changed while this was being computed", "run the command again"
                )
            entries.append({"path": change["path"], "before": before, "after": target(change, before)})
        contents = {item["path"]: base64.b64decode(item["content"] or "") for item in request["changes"]}
        caches = [
            {"path": path, "before": capture(here.path(path))}
            for item in entries
            for path in compiled(here, item["path"])
        ]
        folders = new_folders(here, entries)
        record = capture(here.path(here.record))
        try:
            save(here, [*entries, *caches, {"path": here.record, "before": record}])
            contents[here.record] = edited_record(here, entries, contents)
            after = {"sha256": sha256(contents[here.record]), "mode": record and record["mode"]}
            entries.insert(0, {"path": here.record, "before": record, "after": after})
            journal = {"files": entries, "caches": caches, "folders": folders, "note": request["note"]}
            commit(here, journal)
            for name in folders:
                os.makedirs(here.path(name), exist_ok=True)
            for item in entries:
                if item["after"] is not None:
                    stage(here, item["path"], contents[item["path"]], item["after"], item["before"])
        except BaseException:
            undo(here)
            raise
        try:
            switch(here, entries, caches)
        except OSError:
            undo(here)
            raise
    return {"files": len(entries), "caches": len(caches), "undone": undone, "folder": here.folder}


def revert(request: Document) -> Document:
    """Bring back every byte that an apply changed."""
    here = one(request)
    with locked(here):
        return {"undone": undo(here), "folder": here.folder}


@contextlib.contextmanager
def locked(here: Installed) -> Iterator[None]:
    """Hold the distribution; the lock is on its folder itself, so that no lock file is left."""
    descriptor = os.open(os.path.join(here.location, here.info), os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefusedError(f"another forktool changes {here.stem} right now", "wait for it") from None
        yield
    finally:
        os.close(descriptor)


def guard(here: Installed, name: str) -> None:
    """Refuse a path that leads out of the folder that the package is installed in."""
    parts = name.split("/")
    if name.startswith("/") or {"", ".", ".."}.intersection(parts):
        raise RefusedError(f"{name} is no path inside a package")
    if not within(os.path.dirname(here.path(name)), here.location):
        raise RefusedError(f"{os.path.dirname(name)} is a link that leads out of {here.location}")


def capture(path: str) -> Document | None:
    """What is needed to make a file again; None where there is none."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    found: Document = {"sha256": sha256(read(path)), "mode": stat.S_IMODE(os.stat(path).st_mode)}
    if stat.S_ISLNK(status.st_mode):
        found["link"] = os.readlink(path)
    else:
        found["mtime_ns"] = status.st_mtime_ns
    return found


def target(change: Document, before: Document | None) -> Document | None:
    """What a file is to be: hash and mode, and a time that no cache of the old one can carry."""
    if change["content"] is None:
        return None
    mode = before["mode"] if before else 0o644
    if change["executable"] is not None:
        mode = mode | 0o111 if change["executable"] else mode & ~0o111
    # A .pyc holds its source's time in whole seconds and its size (PEP 552).
    old = (before or {}).get("mtime_ns", 0)
    return {
        "sha256": sha256(base64.b64decode(change["content"])),
        "mode": mode,
        "mtime_ns": max(time.time_ns(), old + 2_000_000_000),
    }


def compiled(here: Installed, name: str) -> list[str]:
    """The caches of one module, of every interpreter and level: those that its change makes stale."""
    folder, _, base = name.rpartition("/")
    if not base.endswith(".py"):
        return []
    stem = base[:-3] + "."
    try:
        names = os.listdir(here.path(f"{folder}/__pycache__"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [
        f"{folder}/__pycache__/{one}" for one in sorted(names) if re.match(re.escape(stem) + r".*\.pyc$", one)
    ]


def new_folders(here: Installed, entries: list[Document]) -> list[str]:
    """The folders that must be made, outermost first."""
    found: dict[str, None] = {}
    for item in entries:
        parts = item["path"].split("/")[:-1]
        for count in range(1, len(parts) + 1):
            name = "/".join(parts[:count])
            if item["after"] is not None and not os.path.isdir(here.path(name)):
                found[name] = None
    return list(found)


def save(here: Installed, items: list[Document]) -> None:
    """Keep a copy of every original, on the disk before anything changes. Never a hard link: nobody may write to it."""
    os.makedirs(os.path.join(here.folder, "before"), exist_ok=True)
    for item in items:
        if item["before"] is None or "link" in item["before"]:
            continue
        put(
            os.path.join(here.folder, "before", item["before"]["sha256"]),
            read(here.path(item["path"])),
            0o644,
        )
    sync(os.path.join(here.folder, "before"))
    sync(here.location)


def commit(here: Installed, journal: Document) -> None:
    """The instant from which the change can be undone."""
    path = os.path.join(here.folder, JOURNAL)
    put(path + TEMPORARY, json.dumps(journal, indent=1).encode(), 0o644)
    os.replace(path + TEMPORARY, path)
    sync(here.folder)


def load(here: Installed) -> Document | None:
    """The journal of an apply; None where there is none."""
    try:
        journal: Document = json.loads(read(os.path.join(here.folder, JOURNAL)))
    except FileNotFoundError:
        return None
    return journal


def kept(here: Installed, before: Document | None) -> str | None:
    """An original's content in base64; None where there was no file."""
    if before is None:
        return None
    if "link" in before:
        return base64.b64encode(read(os.path.join(here.location, before["link"]))).decode()
    return base64.b64encode(read(os.path.join(here.folder, "before", before["sha256"]))).decode()


def state(here: Installed, item: Document) -> str:
    """Whether a path of the journal is as `before`, as `after`, or `other`."""
    current = capture(here.path(item["path"]))
    digest = current and current["sha256"]
    for name in ("after", "before"):
        if digest == (item[name] and item[name]["sha256"]):
            return name
    return "other"


def stage(here: Installed, name: str, content: bytes, after: Document, before: Document | None) -> None:
    """Write a file's next content beside it, under a name that the journal implies."""
    path = here.path(name)
    put(temporary(path), content, after["mode"] or 0o644)
    owner = os.stat(path if before else os.path.dirname(path))
    if os.geteuid() == 0:
        os.chown(temporary(path), owner.st_uid, owner.st_gid)
    if after.get("mtime_ns"):
        os.utime(temporary(path), ns=(after["mtime_ns"], after["mtime_ns"]))


def temporary(path: str) -> str:
    """Where the next content of a file waits."""
    return os.path.join(os.path.dirname(path), f".{os.path.basename(path)}{TEMPORARY}")


def switch(here: Installed, entries: list[Document], caches: list[Document]) -> None:
    """Let every staged file take its place, and drop the caches that are stale."""
    for item in entries:
        path = here.path(item["path"])
        if item["after"] is None:
            os.unlink(path)
        else:
            os.replace(temporary(path), path)
    for item in caches:
        remove(here.path(item["path"]))
    for folder in {os.path.dirname(here.path(item["path"])) for item in [*entries, *caches]}:
        sync(folder)


def undo(here: Installed) -> bool:
    """Bring back what the journal says was there, and delete the journal; whether there was one.

    Refuses before it touches anything when a file was edited since. Safe to repeat after a kill.
    """
    journal = load(here)
    if journal is None:
        discard(here)
        return False
    states = {item["path"]: state(here, item) for item in journal["files"]}
    edited = [name for name, found in states.items() if found == "other" and name != here.record]
    if edited:
        raise RefusedError(
            f"{', '.join(edited)} was edited after the apply",
            "take the edit in with: forktool import --installed, or reinstall the package",
        )
    if states.get(here.record) == "other":
        raise RefusedError(f"{here.record} changed after the apply", "reinstall the package")
    # RECORD last: until then it lists whatever is still there.
    files = [*journal["files"][1:], journal["files"][0]]
    back = [item for item in files if states[item["path"]] != "before"]
    caches = {item["path"]: item["before"] for item in journal["caches"]}
    try:
        for item in back:
            if item["before"] is not None:
                restore(here, item["path"], item["before"])
    except OSError:
        for item in back:
            remove(temporary(here.path(item["path"])))
        raise
    for item in back:
        path = here.path(item["path"])
        if item["before"] is None:
            remove(path)
        else:
            os.replace(temporary(path), path)
    for item in files:
        remove(temporary(here.path(item["path"])))
        for name in compiled(here, item["path"]):
            found = capture(here.path(name))
            if found is None or found["sha256"] != (caches.get(name) or {}).get("sha256"):
                remove(here.path(name))
    for name, before in caches.items():
        path = here.path(name)
        if before is not None and not os.path.lexists(path):
            restore(here, name, before)
            os.replace(temporary(path), path)
        remove(temporary(path))
    for name in reversed(journal["folders"]):
        for folder in (here.path(f"{name}/__pycache__"), here.path(name)):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
    for folder in {os.path.dirname(here.path(item["path"])) for item in files}:
        if os.path.isdir(folder):
            sync(folder)
    discard(here)
    return True


def restore(here: Installed, name: str, before: Document) -> None:
    """Stage an original: a link as a link, a file with its mode and time."""
    path = here.path(name)
    if "link" in before:
        remove(temporary(path))
        os.symlink(before["link"], temporary(path))
        return
    content = read(os.path.join(here.folder, "before", before["sha256"]))
    stage(here, name, content, before, before if os.path.lexists(path) else None)


def discard(here: Installed) -> None:
    """Delete the folder of an apply, its journal last."""
    originals = os.path.join(here.folder, "before")
    for name in os.listdir(originals) if os.path.isdir(originals) else []:
        os.unlink(os.path.join(originals, name))
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(originals)
    remove(os.path.join(here.folder, JOURNAL + TEMPORARY))
    remove(os.path.join(here.folder, JOURNAL))
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(here.folder)


def edited_record(here: Installed, entries: list[Document], contents: dict[str, bytes]) -> bytes:
    """RECORD with the new hashes, the new files and the originals; every other line byte for byte."""
    rows: dict[str, list[str] | None] = {}
    for item in entries:
        name = item["path"]
        rows[name] = None if item["after"] is None else row(name, contents[name])
    originals = os.path.join(here.folder, "before")
    for name in sorted(os.listdir(originals)):
        path = f"{here.stem}{FOLDER}/before/{name}"
        rows[path] = row(path, read(os.path.join(originals, name)))
    rows[f"{here.stem}{FOLDER}/{JOURNAL}"] = [f"{here.stem}{FOLDER}/{JOURNAL}", "", ""]
    lines = read(here.path(here.record)).decode("utf-8").splitlines(keepends=True)
    end = "\r\n" if lines[0].endswith("\r\n") else "\n"
    text = io.StringIO()
    write = csv.writer(text, lineterminator=end).writerow
    for line in lines:
        name = next(csv.reader([line]), [""])[0]
        if name not in rows:
            text.write(line if line.endswith("\n") else line + end)
            continue
        changed = rows.pop(name)
        if changed is not None:
            write(changed)
    for changed in rows.values():
        if changed is not None:
            write(changed)
    return text.getvalue().encode("utf-8")


def row(name: str, content: bytes) -> list[str]:
    """A line of RECORD."""
    return [name, digest_field("sha256", hashlib.sha256(content).digest()), str(len(content))]


# The file system


def read(path: str) -> bytes:
    """A file's content."""
    with open(path, "rb") as stream:
        return stream.read()


def put(path: str, content: bytes, mode: int) -> None:
    """A new file, on the disk when this returns; what stood there is unlinked, never written through."""
    remove(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)


def remove(path: str) -> None:
    """Unlink a file if it is there."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path)


def sync(folder: str) -> None:
    """Bring a folder's entries to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(content: bytes) -> str:
    """In hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def hashed(path: str, like: str) -> str | None:
    """A file's hash as a RECORD spells it that uses the algorithm of `like`; None for an unknown one."""
    name = like.partition("=")[0]
    try:
        total = hashlib.new(name)
    except ValueError:
        return None
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            total.update(block)
    return digest_field(name, total.digest())


def digest_field(name: str, digest: bytes) -> str:
    """A hash as RECORD spells it: unpadded, URL-safe base64."""
    return f"{name}={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"
