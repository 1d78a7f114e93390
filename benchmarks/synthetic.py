"""Upstreams of any size, made by `git fast-import` from a seed: the same trees and commits on every machine.

A module is a list of sections, one a definition. Upstream edits the even ones and the patches the odd ones, so that
plain git can carry every patch as well: often on the very next lines, so that there is something to merge.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measure import git

BASE, ONTO = "v1.0.0", "v1.1.0"
_NAMES = (
    "batch", "block", "budget", "cache", "chunk", "codec", "config", "cursor", "draft", "expert", "frame",
    "graph", "group", "head", "index", "kernel", "layer", "limit", "logits", "mask", "merge", "model",
    "output", "page", "parser", "pool", "prefix", "queue", "rank", "region", "router", "sample", "scale",
    "shard", "slot", "state", "stride", "table", "tensor", "token", "trace", "units", "weight", "window",
    "worker",
)  # fmt: skip
_SECTIONS = 14
_PATH_PARTS = (20, 20)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """What a benchmark works on.

    Args:
        patches: how many the series has.
        commits: how many upstream made between base and tag.
        files: how many the tree has.
        moved: of so many patched files upstream changed the path.
        wide: so many files are touched by one more patch.
        large: (path, lines) of a text of 100 bytes a line, which both sides edit.
        binary: MiB of a file that one more patch adds and another one edits.
    """

    patches: int
    commits: int = 300
    files: int = 10_000
    moved: int = 0
    wide: int = 0
    large: tuple[str, int] | None = None
    binary: int = 0


class Module:
    """One Python file of a few kilobytes."""

    def __init__(self, number: int) -> None:
        chosen = random.Random(number)
        word = chosen.choice(_NAMES)
        self.sections = [_head(chosen, word, number)]
        for place in range(1, _SECTIONS):
            self.sections.append(_definition(chosen, place, is_method=5 <= place <= 9))

    def edit(self, section: int, line: int, text: str) -> None:
        """Change one statement of a definition."""
        lines = self.sections[section]
        places = [at for at, line in enumerate(lines) if " = " in line]
        at = places[line % len(places)]
        lines[at] = f"{lines[at].partition(' = ')[0]} = {text}"

    def grow(self, section: int, name: str) -> None:
        """Add a definition after another one."""
        indent = "    " if 5 <= section <= 9 else ""
        self.sections[section] += [
            f"{indent}def {name}(value):",
            f"{indent}    return value * {len(name)}",
            *([""] if indent else ["", ""]),
        ]

    @property
    def content(self) -> bytes:
        """The file."""
        return "\n".join(line for section in self.sections for line in section).encode()


def _head(chosen: random.Random, word: str, number: int) -> list[str]:
    names = sorted(chosen.sample(_NAMES, 4))
    return [
        f'"""The {word} of part {number}."""', "", "import os", "import sys", "from collections import OrderedDict",
        f"from package.common import {', '.join(names)}", "",
        *(f"{name.upper()}_{number % 89} = {chosen.randrange(1000)}" for name in names), "", "",
    ]  # fmt: skip


def _definition(chosen: random.Random, place: int, *, is_method: bool) -> list[str]:
    first, second, third = chosen.sample(_NAMES, 3)
    indent = "    " if is_method else ""
    lines = []
    if place == 5:
        lines += [
            f"class {first.capitalize()}{second.capitalize()}(OrderedDict):",
            '    """Keeps what is used."""',
            "",
        ]
    me = "self, " if is_method else ""
    lines += [
        f"{indent}def {first}_{second}_{place}({me}{first}, {third}=None):",
        f'{indent}    """Compute the {third} of a {first}, with {chosen.randrange(100)} to spare."""',
        f"{indent}    {second} = len({first}) + {chosen.randrange(1000)}",
        f"{indent}    if {third} is None:",
        f"{indent}        {third} = {second} * {chosen.randrange(2, 90)}",
        *(f"{indent}    total_{step} = {second} + {third} * {chosen.randrange(1000)}" for step in range(3)),
        f"{indent}    {second} = max(total_0, total_1) - total_2",
        f"{indent}    return {second}, {third}",
        *([""] if 5 <= place < 9 else ["", ""]),
    ]  # fmt: skip
    return lines


def path_of(number: int, *, is_moved: bool = False) -> str:
    """Where a module is."""
    areas, groups = _PATH_PARTS
    area, group = number % areas, number // areas % groups
    folder = "moved" if is_moved else f"group{group:02}"
    return f"package/area{area:02}/{folder}/module_{number:05}.py"


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """A repository `plain/` with tags and the branch `series`, and a forktool project `project/` beside it."""

    folder: Path
    scene: Scene
    mails: list[Path] = field(default_factory=list)

    @property
    def plain(self) -> Path:
        """A repository with a work tree."""
        return self.folder / "plain"

    @property
    def project(self) -> Path:
        """The folder that holds patchset/."""
        return self.folder / "project"

    def make(self) -> None:
        """Lay everything out, if it is not there."""
        mails = self.folder / "mails"
        if not (self.folder / "made").exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.plain.mkdir(parents=True)
            git(self.plain, "init", "--quiet", "--initial-branch=main")
            with subprocess.Popen(
                ["git", "fast-import", "--quiet", "--done"], cwd=self.plain, stdin=subprocess.PIPE
            ) as importer:
                if importer.stdin is None:
                    raise SystemExit("git fast-import has no pipe")
                importer.stdin.writelines(_Stream(self.scene).commands())
                importer.stdin.close()
                if importer.wait():
                    raise SystemExit("git fast-import failed")
            flags = (
                "--keep-subject", "--full-index", "--binary", "--zero-commit", "--no-signature", "--no-stat",
                "--no-numbered", "--quiet", "--output-directory",
            )  # fmt: skip
            git(self.plain, "format-patch", *flags, str(mails), f"{BASE}..series")
            self._make_project(mails)
            (self.folder / "made").touch()
        self.mails.extend(sorted(mails.iterdir(), key=lambda file: int(file.name.partition("-")[0])))

    def _make_project(self, mails: Path) -> None:
        patchset = self.project / "patchset"
        patchset.mkdir(parents=True)
        names = []
        for number, file in enumerate(
            sorted(mails.iterdir(), key=lambda one: int(one.name.partition("-")[0])), 1
        ):
            names.append(f"change-{number}.patch")
            shutil.copy(file, patchset / names[-1])
        (patchset / "series").write_text("".join(f"{name}\n" for name in names))
        tree = git(self.plain, "rev-parse", f"{BASE}^{{tree}}")
        (patchset / "patchset.toml").write_text(
            f'[upstream]\nrepository = "{self.plain}"\nsources = ["git"]\nhistory = "full"\n\n'
            f'[base]\ntag = "{BASE}"\ntree = "{tree}"\n\n[policy]\nprobe = false\n'
        )


class _Stream:
    """The commands of git-fast-import(1) for one scene."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._chosen = random.Random(7)
        self._clock = 1_700_000_000
        self._modules: dict[int, Module] = {}

    def commands(self) -> Iterator[bytes]:
        """The base, upstream's commits, and the series."""
        scene = self._scene
        yield from self._commit("refs/heads/main", "Start", None)
        for number in range(scene.files):
            yield from _file(path_of(number), Module(number).content)
        if scene.large is not None:
            yield from _file(scene.large[0], _large(scene.large, ()))
        yield f"reset refs/tags/{BASE}\nfrom refs/heads/main\n\n".encode()
        patched = self._patched()
        yield from self._upstream(patched)
        yield f"reset refs/tags/{ONTO}\nfrom refs/heads/main\n\n".encode()
        self._modules.clear()
        yield from self._series(patched)
        yield b"done\n"

    def _patched(self) -> list[list[int]]:
        """The modules that each patch edits: mostly one of its own, sometimes a busy one, sometimes several."""
        scene = self._scene
        busy = range(max(1, scene.patches // 25))
        patched = []
        for number in range(scene.patches):
            match number % 10:
                case 7 | 8:
                    patched.append([self._chosen.choice(busy)])
                case 9:
                    patched.append(
                        sorted(self._chosen.sample(range(scene.files), self._chosen.randint(3, 8)))
                    )
                case _:
                    patched.append([self._chosen.randrange(len(busy), scene.files)])
        return patched

    def _upstream(self, patched: list[list[int]]) -> Iterator[bytes]:
        scene = self._scene
        near = [number for numbers in patched for number in numbers] or [*range(scene.wide)]
        edits = max(scene.files // 2, scene.commits)
        for count in range(scene.commits):
            yield from self._commit("refs/heads/main", f"Upstream's change {count} (#{count + 100})", None)
            for _ in range(edits * (count + 1) // scene.commits - edits * count // scene.commits):
                number = (
                    self._chosen.choice(near)
                    if self._chosen.random() < 0.5
                    else self._chosen.randrange(scene.files)
                )
                module = self._module(number)
                section = 2 * self._chosen.randrange(1, _SECTIONS // 2)
                if self._chosen.random() < 0.2 and len(module.content) < 20_000:
                    module.grow(section, f"added_{count}")
                else:
                    module.edit(section, self._chosen.randrange(6), f"upstream({count})")
                yield from _file(path_of(number), module.content)
        moved = sorted({numbers[0] for numbers in patched if len(numbers) == 1})[: scene.moved]
        if moved:
            yield from self._commit("refs/heads/main", "Move some modules", None)
            for number in moved:
                yield f"R {path_of(number)} {path_of(number, is_moved=True)}\n".encode()
        if scene.large is not None:
            yield from self._commit("refs/heads/main", "Edit the large file", None)
            lines = scene.large[1]
            yield from _file(scene.large[0], _large(scene.large, (lines // 10, lines // 2 + 10, lines - 20)))

    def _series(self, patched: list[list[int]]) -> Iterator[bytes]:
        scene, start = self._scene, f"refs/tags/{BASE}"
        for count, numbers in enumerate(patched):
            yield from self._patch(f"Change {count}", start if count == 0 else None)
            for number in numbers:
                module = self._module(number)
                section = 2 * self._chosen.randrange(_SECTIONS // 2) + 1
                module.edit(section, self._chosen.randrange(6), f"patched({count})")
                yield from _file(path_of(number), module.content)
        if scene.wide:
            yield from self._patch(f"Change {scene.wide} files", start if not patched else None)
            for number in range(scene.wide):
                module = self._module(number)
                module.edit(3, 1, "patched_everywhere")
                yield from _file(path_of(number), module.content)
        if scene.large is not None:
            yield from self._patch("Edit the large file", start if not patched else None)
            yield from _file(scene.large[0], _large(scene.large, (scene.large[1] // 2,)))
        if scene.binary:
            content = bytearray(random.Random(3).randbytes(scene.binary << 20))
            yield from self._patch("Add a binary file", start if not patched else None)
            yield from _file("package/table.bin", content)
            yield from self._patch("Edit the binary file", None)
            content[len(content) // 2 : len(content) // 2] = b"patched"
            yield from _file("package/table.bin", content)

    def _patch(self, subject: str, start: str | None) -> Iterable[bytes]:
        message = f"{subject}\n\nReason: a benchmark\nSigned-off-by: bench <bench@example.org>\n"
        return self._commit("refs/heads/series", message, start)

    def _module(self, number: int) -> Module:
        return self._modules.setdefault(number, Module(number))

    def _commit(self, ref: str, message: str, start: str | None) -> Iterator[bytes]:
        self._clock += 60
        text = message.encode()
        yield f"commit {ref}\ncommitter bench <bench@example.org> {self._clock} +0000\n".encode()
        yield b"data %d\n%s\n" % (len(text), text)
        if start is not None:
            yield f"from {start}\n".encode()


def _file(path: str, content: bytes | bytearray) -> Iterator[bytes]:
    yield f"M 100644 inline {path}\ndata {len(content)}\n".encode()
    yield bytes(content)
    yield b"\n"


def _large(large: tuple[str, int], changed: tuple[int, ...]) -> bytes:
    """A table of many lines, all different; it is Python where its name says so."""
    path, count = large
    is_python = path.endswith(".py")
    head = "TABLE = {\n" if is_python else ""
    rows = [
        f'    "row{number:09}": ("{number * 7919 % 1_000_003:>64}", {number}),'
        if is_python
        else f"{number:09},{number * 7919 % 1_000_003:>80},{number}"
        for number in range(count)
    ]
    for number in changed:
        rows[number] = rows[number].replace(" ", "_", 40)
    return (head + "\n".join(rows) + ("\n}\n" if is_python else "\n")).encode()
