"""Creates the first files of a project: settings, a backlog, a workflow on request.

Only the command line; `tools.starter` writes the files and overwrites none.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:  # run as a file, or imported by its bare name
    _ROOT = str(Path(__file__).resolve().parents[1])
    if __name__ == "__main__":
        sys.path[0] = _ROOT  # import from the checkout, not from this folder
    else:
        from importlib import import_module

        sys.path.append(_ROOT)
        sys.modules[__name__] = import_module("tools.init")

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from driver.git.private_git import Repository
    from tools.starter import Step

KINDS = ("github", "gitlab", "cron", "systemd")


def build_parser() -> argparse.ArgumentParser:
    from driver.cli.flags import Parser

    parser = Parser(prog="init.py", description="Create the files that a project needs.")
    add = parser.add_argument
    parser.add_shared("--repo", "--state-dir")
    add("--workflow", choices=KINDS, action="append", help="also create a nightly workflow")
    add("--gitignore", action="store_true", help="ignore the state folder for everybody")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    from tools.program import program

    return program(build_parser(), _run, argv)


def _run(args: argparse.Namespace) -> int:
    from driver.terminal.safe_text import safe_line, typed
    from state_store.documents.interpreter import interpreter_name

    for step in _steps(args):
        print(safe_line(str(step)), flush=True)
    run = Path(__file__).resolve().parents[1] / "driver" / "wave_scheduler.py"
    print("next: write items into the tracker, set an item to todo, and look at the plan:")
    given = (("--repo", args.repo), ("--state-dir", args.state_dir))
    flags = [word for name, value in given if value is not None for word in (name, value)]
    print("  " + typed(interpreter_name(), run, *flags))
    return 0


def _steps(args: argparse.Namespace) -> Iterator[Step]:
    import tomllib

    from driver.maintenance.reproduce import surroundings
    from driver.run_state.state_folder import check_state_dir, prepare_state_dir
    from state_store.documents.errors import InputError
    from tools import starter

    place = surroundings(args.repo, args.state_dir)
    if place.repository is None:
        raise InputError(
            "this folder is in no git repository: change to one, or give its path with --repo"
        )
    repo, state_dir = place.repository, place.state_dir
    check_state_dir(state_dir, repo.top)
    pyproject = repo.top / "pyproject.toml"
    tables = tomllib.loads(pyproject.read_text("utf-8")) if pyproject.is_file() else {}
    if "tidegate" in tables.get("tool", {}):
        note = "its [tool.tidegate] has the settings"
        yield starter.Step(pyproject, made=False, note=note)
    else:
        yield starter.place(repo.top / "tidegate.toml", starter.CONFIG)
    prepare_state_dir(state_dir, place.settings.environ)
    yield from starter.backlog(state_dir)
    yield _hidden(repo, state_dir, shared=args.gitignore)
    for kind in dict.fromkeys(args.workflow or ()):
        yield from starter.workflow(kind, repo.top, state_dir)


def _hidden(repo: Repository, state_dir: Path, *, shared: bool) -> Step:
    from tools.starter import Step, ignore

    top = repo.top.resolve()
    if not state_dir.is_relative_to(top):
        return Step(state_dir, made=True, note="outside the repository, so nothing to ignore")
    inside = f"/{state_dir.relative_to(top).as_posix()}/"
    if shared:
        return ignore(repo.top / ".gitignore", inside)
    # prepare_state_dir has written the line.
    return Step(repo.common_dir / "info" / "exclude", made=True, note=f"line {inside}")


if __name__ == "__main__":
    sys.exit(main())
