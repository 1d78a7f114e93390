"""The acceptance test: the real series on real releases, each time from base v0.16.0."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.story import Result

pytestmark = [pytest.mark.upstream, pytest.mark.xdist_group("upstream"), pytest.mark.timeout(600)]

CARRIED = {"unchanged", "refreshed"}
GATE = "vllm/config/speculative.py"


def gate(root: Path) -> list[str]:
    """The EAGLE-3 targets that a tree's SpeculativeConfig accepts."""
    for node in ast.walk(ast.parse((root / GATE).read_text())):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id in ("eagle3_target_supported", "aux_hidden_states_supported")
        ):
            value: list[str] = ast.literal_eval(node.value)
            return value
    raise AssertionError("the gate is gone")


def test_the_series_is_sound_on_its_base(forktool: Callable[..., Result]) -> None:
    result = forktool("check", "--json")

    assert result.code == 0, result.out + result.err
    assert result.document == {"base": "v0.16.0", "ok": True, "problems": [], "misread": []}


def test_v0_17_0_carries_everything(forktool: Callable[..., Result], tmp_path: Path) -> None:
    result = forktool("rebase", "v0.17.0", "--json")

    assert result.code == 0, result.out + result.err
    verdicts = result.verdicts
    assert verdicts.pop("eagle3-whitelist") == "resolved"
    assert set(verdicts) == {
        "deepseek-supports-eagle3",
        "kimi-supports-eagle3",
        "mla-decode-padded-batch",
        "cpu-rope-3d-query",
    }
    assert set(verdicts.values()) <= CARRIED

    assert forktool("apply", str(tmp_path / "tree")).code == 0
    accepted = gate(tmp_path / "tree")
    assert [accepted.count(name) for name in ("nemotron_h", "kimi_k2", "deepseek_v3")] == [1, 1, 1]
    assert forktool("check").code == 0
    again = forktool("rebase", "v0.17.0", "--json")
    assert set(again.verdicts.values()) == {"unchanged"}


@pytest.mark.parametrize(
    ("tag", "whitelist"), [("v0.18.0", "absorbed"), ("v0.22.0", "obsolete"), ("v0.33.0", "obsolete")]
)
def test_later_tags_absorb_the_eagle3_patches(
    forktool: Callable[..., Result], tag: str, whitelist: str
) -> None:
    result = forktool("rebase", tag, "--json")

    assert result.code == 0, result.out + result.err
    verdicts = result.verdicts
    assert verdicts["eagle3-whitelist"] == whitelist
    assert verdicts["deepseek-supports-eagle3"] == "absorbed"
    assert verdicts["kimi-supports-eagle3"] == "absorbed"
    assert verdicts["mla-decode-padded-batch"] in CARRIED
    assert verdicts["cpu-rope-3d-query"] in CARRIED
    for name in ("eagle3-whitelist", "deepseek-supports-eagle3", "kimi-supports-eagle3"):
        kinds = {evidence["kind"] for evidence in result.patch(name)["evidence"]}
        assert len(kinds & {"history", "content", "target-gone", "probe"}) >= 2
    dropped = Path("patchset/dropped.toml").read_text()
    assert dropped.count("[[dropped]]") == 3
    assert forktool("check").code == 0


def test_every_release_is_judged_through_its_wheel(forktool: Callable[..., Result]) -> None:
    result = forktool("status", "--onto", "v0.16.0", "v0.16.0..v0.33.0", "--json")

    assert result.code == 0, result.out + result.err
    tags = result.document["tags"]
    assert len(tags) == 26
    table = {patch["name"]: patch["verdicts"] for patch in result.document["patches"]}
    for tag in tags:
        minor = int(tag.split(".")[1])
        row = {name: verdicts[tag] for name, verdicts in table.items()}
        assert row["mla-decode-padded-batch"] in CARRIED, tag
        assert row["cpu-rope-3d-query"] in CARRIED, tag
        eagle3 = (row["eagle3-whitelist"], row["deepseek-supports-eagle3"], row["kimi-supports-eagle3"])
        if minor == 16:
            assert set(eagle3) == {"unchanged"}, tag
        elif minor == 17:
            assert eagle3[0] == "resolved", tag
            assert set(eagle3[1:]) <= CARRIED, tag
        elif minor < 22:
            assert eagle3 == ("absorbed", "absorbed", "absorbed"), tag
        else:
            assert eagle3[0] in ("obsolete", "absorbed"), tag
            assert eagle3[1:] == ("absorbed", "absorbed"), tag


def test_v0_16_2_does_not_exist(forktool: Callable[..., Result]) -> None:
    result = forktool("rebase", "v0.16.2")

    assert result.code == 2
    assert "v0.16.0" in result.err
    assert "v0.17.0" in result.err


def test_v0_15_0_has_no_source_distribution(forktool: Callable[..., Result]) -> None:
    config = Path("patchset/patchset.toml")
    config.write_text(config.read_text().replace('sources = ["sdist", "git"]', 'sources = ["sdist"]'))

    result = forktool("rebase", "v0.15.0", "--dry-run")

    assert result.code == 2
    assert "v0.15.0" in result.err
    assert "hint:" in result.err


def test_a_patch_of_an_executable_file_is_judged_through_wheels(
    forktool: Callable[..., Result], tmp_path: Path
) -> None:
    """vllm/envs.py is executable in the sdist and not in the wheel."""
    assert forktool("apply", str(tmp_path / "tree")).code == 0
    envs = tmp_path / "tree" / "vllm" / "envs.py"
    envs.write_text("# ours\n" + envs.read_text())
    message = "Mark envs\n\nReason: a test\nSigned-off-by: T <t@example.org>"
    git = [
        "git",
        "-c",
        "user.name=T",
        "-c",
        "user.email=t@example.org",
        "commit",
        "--quiet",
        "--all",
        "-m",
        message,
    ]
    subprocess.run(git, cwd=tmp_path / "tree", check=True)
    assert forktool("export", str(tmp_path / "tree")).code == 0

    result = forktool("status", "--onto", "v0.17.0", "--json")

    assert result.code == 0, result.out + result.err
    assert result.patch("mark-envs")["verdicts"] == {"v0.17.0": "unchanged"}
