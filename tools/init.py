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
    from collections.abc import Callable, Iterator, Sequence

    from driver.git.private_git import Repository
    from driver.maintenance.reproduce import Surroundings
    from tools.starter import Step

    Ask = Callable[[str], str]

KINDS = ("github", "gitlab", "cron", "systemd", "github-matrix", "kubernetes", "compose")
DEFAULT_AGENT = "claude"
EXAMPLE = ("Say hello", "--owns", "hello.txt", "--test", "grep -qx hello hello.txt", "--dry-run")


def build_parser() -> argparse.ArgumentParser:
    from driver.cli.flags import Parser
    from tools.first_settings import PROGRAMS

    parser = Parser(prog="init.py", description="Create the files that a project needs.")
    add = parser.add_argument
    parser.add_shared("--repo", "--state-dir")
    add("--workflow", choices=KINDS, action="append", help="also create a nightly workflow")
    add("--gitignore", action="store_true", help="ignore the state folder for everybody")
    agents = f"{', '.join(PROGRAMS)}, or the command line of another program"
    add("--agent", metavar="AGENT", help=f"{agents} (default: {DEFAULT_AGENT})")
    add("--test", metavar="CMD", help="the project's tests, which each wave has to pass as well")
    add("--skills", action="store_true", help="commands /power and /buildsystem for Claude Code")
    add("--yes", action="store_true", help="ask nothing, also at a terminal")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The program. Asks for agent, tests and nightly runs if a person is at the terminal."""
    from tools.program import program

    return program(build_parser(), _run, argv)


def _run(args: argparse.Namespace) -> int:
    from driver.terminal.color import is_terminal
    from driver.terminal.safe_text import safe_line
    from tools.found_tests import found_tests
    from tools.program import show

    place, repo, state_dir = _place(args)
    found = found_tests(repo.top)
    silent = args.yes or args.json or args.quiet
    begun = (repo.top / "tidegate.toml").exists()
    if not silent and not begun and is_terminal(sys.stdin) and is_terminal(sys.stdout):
        ask_for(args, found, input)
    steps = []
    for step in _steps(args, place, repo, state_dir):
        steps.append(step)
        if not (args.json or args.quiet):
            print(safe_line(str(step)), flush=True)
    commands = _next_commands(args, state_dir)
    document = {
        "made": [str(step.path) for step in steps if step.made],
        "kept": [str(step.path) for step in steps if not step.made],
        "tests_found": found,
        "next": commands,
    }
    lines = [
        "next: see what is missing, try an item, add your own without --dry-run, look at the plan:"
    ]
    if found and not args.test and not begun:
        lines.insert(0, f"tests found: {found[0]}; --test writes them into the settings")
    shown = () if args.quiet else (*lines, *(f"  {one}" for one in commands))
    show(document, map(safe_line, shown), as_json=args.json)
    return 0


def ask_for(args: argparse.Namespace, tests: Sequence[str], ask: Ask) -> None:
    """Asks for what no flag answers: the agent, the tests of the project, nightly runs. An empty
    answer takes the value in brackets, and so does the end of the input."""
    import shutil

    from state_store.documents.errors import InputError
    from tools.first_settings import PROGRAMS

    if args.agent is None:
        there = (name for name, program in PROGRAMS.items() if shutil.which(program))
        proposed = next(there, DEFAULT_AGENT)
        names = ", ".join(PROGRAMS)
        args.agent = _answer(ask, f"agent: {names}, or a command line", proposed)
    if args.test is None:
        args.test = _answer(ask, "command that runs the tests of the project, or -", *tests[:1])
        args.test = "" if args.test == "-" else args.test
    if args.workflow is None:
        kind = _answer(ask, f"nightly runs: no, {', '.join(KINDS)}", "no")
        if kind not in ("no", *KINDS):
            from driver.cli.flags import guess

            raise InputError(
                f"nightly runs: {kind!r} is none of no, {', '.join(KINDS)}{guess(kind, KINDS)}"
            )
        args.workflow = [] if kind == "no" else [kind]


def _answer(ask: Ask, question: str, proposed: str = "") -> str:
    shown = f" [{proposed}]" if proposed else ""
    try:
        return ask(f"{question}{shown}: ").strip() or proposed
    except EOFError:
        return proposed


def _place(args: argparse.Namespace) -> tuple[Surroundings, Repository, Path]:
    """The surroundings, the repository, and the state folder, which is at the top of the repository
    also if the command was typed elsewhere."""
    from driver.maintenance.reproduce import surroundings
    from driver.run_state.state_folder import check_state_dir
    from state_store.documents.errors import InputError
    from tools.settings.load import STATE_VARIABLES, resolve_state_dir

    place = surroundings(args.repo, args.state_dir)
    if place.repository is None:
        raise InputError(
            "this folder is in no git repository: change to one, or give its path with --repo"
        )
    repo, state_dir, environ = place.repository, place.state_dir, place.settings.environ
    if args.repo and args.state_dir is None and not any(map(environ.get, STATE_VARIABLES)):
        state_dir = resolve_state_dir(project=repo.top, cwd=repo.top, environ=environ).resolve()
    check_state_dir(state_dir, repo.top)
    return place, repo, state_dir


def _steps(
    args: argparse.Namespace, place: Surroundings, repo: Repository, state_dir: Path
) -> Iterator[Step]:
    from driver.run_state.state_folder import prepare_state_dir
    from state_store.documents.errors import InputError
    from state_store.documents.files import read_text
    from state_store.documents.strict_json import parse_toml
    from tools import starter

    pyproject = repo.top / "pyproject.toml"
    try:
        tables = parse_toml(read_text(pyproject)) if pyproject.is_file() else {}
    except ValueError as error:
        raise InputError(f"{pyproject} is not valid TOML: {error}; correct it") from error
    if "tidegate" in tables.get("tool", {}):
        note = "its [tool.tidegate] has the settings"
        yield starter.Step(pyproject, made=False, note=note)
    else:
        yield starter.place(repo.top / "tidegate.toml", _settings_text(args))
    before = _excluded(repo)
    prepare_state_dir(state_dir, place.settings.environ)
    written = _excluded(repo) != before
    yield from starter.backlog(state_dir)
    yield _hidden(repo, state_dir, shared=args.gitignore, written=written)
    for kind in dict.fromkeys(args.workflow or ()):
        yield from starter.workflow(kind, repo.top, state_dir)
    if args.skills:
        yield from starter.skills(repo.top, _program())


def _settings_text(args: argparse.Namespace) -> str:
    """The new settings. Raises InputError for a name that is nearly that of an agent."""
    import shlex
    import shutil

    from driver.cli.flags import guess
    from state_store.documents.errors import InputError
    from tools.first_settings import PROGRAMS, config_text

    agent = args.agent or DEFAULT_AGENT
    if agent in PROGRAMS:
        return config_text(agent, args.test or "")
    try:
        words = shlex.split(agent)
    except ValueError as error:
        raise InputError(f"--agent {agent} is no command line: {error}") from error
    near = guess(agent, PROGRAMS)
    if near and len(words) == 1 and shutil.which(words[0]) is None:
        raise InputError(f"--agent {agent} is no known agent and no program{near}")
    return config_text(words, args.test or "")


def _program() -> str:
    """The command `tidegate` as it is typed here."""
    from driver.terminal.invocation import current
    from driver.terminal.safe_text import typed
    from state_store.documents.interpreter import interpreter_name

    if named := current().without_word:
        return named
    return typed(interpreter_name(), Path(__file__).resolve().parents[1] / "driver" / "tidegate.py")


def _next_commands(args: argparse.Namespace, state_dir: Path) -> list[str]:
    """The first commands, with the flags that find the same places from this folder."""
    from driver.terminal.safe_text import typed
    from tools.settings.load import resolve_state_dir

    state = args.state_dir
    if state is None and resolve_state_dir().resolve() != state_dir:
        state = str(state_dir)
    in_state = ("--state-dir", state) if state is not None else ()
    in_both = (*(("--repo", args.repo) if args.repo is not None else ()), *in_state)
    words = (("doctor", *in_both), ("add", *EXAMPLE, *in_state), ("plan", *in_both))
    return [f"{_program()} {typed(*one)}" for one in words]


def _excluded(repo: Repository) -> bytes:
    from state_store.documents.files import read_bytes

    path = repo.common_dir / "info" / "exclude"
    return read_bytes(path) if path.is_file() else b""


def _hidden(repo: Repository, state_dir: Path, *, shared: bool, written: bool) -> Step:
    from tools.starter import Step, ignore

    top = repo.top.resolve()
    if not state_dir.is_relative_to(top):
        return Step(state_dir, made=True, note="outside the repository, so nothing to ignore")
    inside = f"/{state_dir.relative_to(top).as_posix()}/"
    if shared:
        return ignore(repo.top / ".gitignore", inside)
    # prepare_state_dir has written the line, unless it was there.
    return Step(repo.common_dir / "info" / "exclude", made=written, note=f"line {inside}")


if __name__ == "__main__":
    sys.exit(main())
