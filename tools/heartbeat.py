"""Writes and checks heartbeats: files that tell when a program last gave a sign of life.

`<state>/heartbeats/<name>`, or with `brain` `~/.claude/.heartbeats/<name>`, for all projects of the
user. The first line is the time in seconds since the epoch, the second a status, if there is one.
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
        sys.modules[__name__] = import_module("tools.heartbeat")

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from typing import NoReturn

MAX_AGE_S = 300
NO_TIME_S = 99999  # the age of a heartbeat without a time
NO_COMMAND = STALE = 1


def beat(
    name: str,
    status: str | None = None,
    state_dir: str | Path | None = None,
    brain: bool = False,
) -> None:
    """Write a heartbeat, and print where. Raises InvalidValue for a name that is a path, and
    CannotRunError if the file cannot be written."""
    import time

    from driver.terminal.safe_text import safe_line
    from state_store.documents.errors import InvalidValue
    from state_store.documents.files import write_text_atomic
    from state_store.documents.heartbeats import is_name

    if not is_name(name):
        raise InvalidValue(f"{name!r} is no name for a heartbeat: it must be a plain file name")
    lines = [str(int(time.time())), *([status] if status else [])]
    folder = _brain_folder() if brain else _state_folder(state_dir)
    write_text_atomic(folder / name, "".join(f"{line}\n" for line in lines))
    print(safe_line(f"beat: {name} written to {'brain' if brain else 'state'}"))


def check(max_age: float = MAX_AGE_S, state_dir: str | Path | None = None) -> NoReturn:
    """Print the age of every heartbeat. Ends with SystemExit: 1 if one is stale, else 0."""
    from driver.terminal.safe_text import safe_line
    from state_store.documents.heartbeats import MAX_AHEAD_S

    any_stale = False
    for shown, age in _ages(state_dir):
        stale = age > max_age or age < -MAX_AHEAD_S
        any_stale = any_stale or stale
        print(safe_line(f"{shown} {'STALE' if stale else 'ALIVE'} age:{age}s"))
    raise SystemExit(STALE if any_stale else 0)


def build_parser() -> argparse.ArgumentParser:
    from driver.cli.flags import Parser

    parser = Parser(prog="heartbeat.py", description="Write heartbeats, or see who is alive.")
    actions = parser.add_subparsers(dest="action")
    beating = actions.add_parser("beat", help="write a heartbeat")
    beating.add_argument("name", metavar="NAME", help="the name of the heartbeat")
    beating.add_argument("status", metavar="STATUS", nargs="?", help="a word about the work")
    beating.add_argument("--brain", action="store_true", help="in ~/.claude/.heartbeats")
    checking = actions.add_parser("check", help="print the age of each, exit 1 if one is stale")
    checking.add_argument("--max-age", metavar="S", type=int, default=MAX_AGE_S, help="in seconds")
    for action in (beating, checking):
        action.add_shared("--state-dir")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The program. Returns exit code 1 without a command, or if a heartbeat is stale."""
    from tools.program import program

    parser = build_parser()

    def run(asked: argparse.Namespace) -> int:
        if asked.action == "beat":
            beat(asked.name, asked.status, asked.state_dir, asked.brain)
            return 0
        if asked.action == "check":
            check(asked.max_age, asked.state_dir)
        parser.print_help()
        return NO_COMMAND

    return program(parser, run, argv)


def _ages(state_dir: str | Path | None) -> Iterator[tuple[str, int]]:
    """Yields `state/<name>` or `brain/<name>`, and the age in whole seconds."""
    import time

    from state_store.documents.heartbeats import heartbeat_time

    for kind, folder in (("state", _state_folder(state_dir)), ("brain", _brain_folder())):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.name.endswith(".tmp"):  # being written
                continue
            try:
                age = int(time.time() - heartbeat_time(path))
            except ValueError:
                age = NO_TIME_S
            yield f"{kind}/{path.name}", age


def _state_folder(state_dir: str | Path | None) -> Path:
    from state_store.documents.heartbeats import FOLDER
    from tools.settings import load as settings

    return settings.resolve_state_dir(state_dir) / FOLDER


def _brain_folder() -> Path:
    return Path.home() / ".claude" / ".heartbeats"


if __name__ == "__main__":
    sys.exit(main())
