"""`forktool init`: a new, empty patchset for any upstream with releases or tags."""

from __future__ import annotations

from forktool.adapters.patchset_files import CONFIG, SERIES, Change, write_change
from forktool.adapters.upstream import Upstream
from forktool.commands.project import Project
from forktool.core.config import parse_config
from forktool.errors import ExitCode, RequestError

_TEMPLATE = """\
# What this fork sits on. The patches, their order (series) and this file are the truth; branches are derived.

[upstream]
{upstream}
[base]
tag = {tag}
tree = {tree}

[wheel]
label = "fork"
"""


def init(
    project: Project,
    *,
    package: str | None,
    repository: str | None,
    base: str,
    tag_pattern: str,
    dry_run: bool,
) -> ExitCode:
    """Make the patchset after looking the base up, so that a wrong name fails now.

    Args:
        project: where to make it.
        package: upstream's name on the package index.
        repository: upstream's git repository, URL or path.
        base: the tag that the patches will sit on.
        tag_pattern: how a version is written as a tag.
        dry_run: look up, write nothing.

    Raises:
        RequestError: there is a patchset already, no upstream is named, or it has no such tag.
        NetworkError: upstream was not reached.
    """
    if package is None and repository is None:
        raise RequestError("name an upstream", hint="forktool init --package NAME --base TAG")
    if (project.path / CONFIG).exists():
        raise RequestError(f"{project.path} is a patchset already", hint="name another with --patchset DIR")
    fields = {"package": package, "repository": repository, "tag": tag_pattern}
    sources = [name for name, given in (("sdist", package), ("git", repository)) if given]
    lines = [f"{key} = {_quoted(value)}" for key, value in fields.items() if value]
    lines.append(f"sources = [{', '.join(_quoted(source) for source in sources)}]")
    upstream_table = "".join(f"{line}\n" for line in lines)
    draft = _TEMPLATE.format(upstream=upstream_table, tag=_quoted(base), tree=_quoted("0" * 40))
    config = parse_config(draft, file=str(project.path / CONFIG))
    with project.state.lock(), project.store() as store:
        with Upstream(
            config.upstream,
            state=project.state,
            console=project.console,
            store=store,
            offline=project.offline,
        ) as upstream:
            tag = upstream.resolve(base)
            tree = store.tree_of(upstream.commit(tag))
        text = _TEMPLATE.format(upstream=upstream_table, tag=_quoted(tag), tree=_quoted(tree))
        files = {
            CONFIG: text.encode(),
            SERIES: b"# One NAME.patch a line, in the order in which they apply.\n",
        }
        if not dry_run:
            write_change(project.path, Change(write=files), project.state)
    name = package or repository
    project.console.document({"patchset": str(project.path), "base": tag, "tree": tree})
    project.console.answer(f"{'would start' if dry_run else 'started'} {project.path} on {name} {tag}")
    project.console.hint(f"forktool import SOURCE --patchset {project.path} adopts a patch")
    return ExitCode.DONE


def _quoted(text: str) -> str:
    # A TOML basic string escapes as JSON does (TOML 1.0, "String").
    import json

    return json.dumps(text)
