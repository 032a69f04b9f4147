"""The shared flags of the command lines. Imports only argparse, so that --help is quick."""

from __future__ import annotations

import argparse
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_SHARED: dict[str, dict[str, Any]] = {
    "--repo": {"metavar": "DIR", "help": "the repository (default: of the current folder)"},
    "--config": {"metavar": "FILE", "help": "configuration to use instead of the project's"},
    "--state-dir": {"metavar": "DIR", "help": "the folder of the state (default: ./state)"},
    "--json": {"action": "store_true", "help": "print one JSON document"},
}


class Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one sentence, like every other error. Flags cannot be
    abbreviated: `--exec` is no `--execute`, and a new flag changes no old command line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        """Ends the program with exit code 2."""
        from driver.terminal.safe_text import safe_line

        self.exit(2, f"tidegate: {safe_line(message)}; {self.prog} --help lists the flags\n")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Ends the program, even if the reader of the help has closed stdout."""
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except BrokenPipeError:
            from tools.program import silence_stdout

            silence_stdout()
        super().exit(status, message)

    def add_shared(self, *flags: str) -> None:
        """Adds flags with one meaning in all programs, such as `--state-dir`."""
        for flag in flags:
            self.add_argument(flag, **_SHARED[flag])


def add_common(parser: Parser) -> None:
    """Adds the flags of both engine programs, except those that select work."""
    add = parser.add_argument
    parser.add_shared("--repo", "--config", "--state-dir")
    add("--driver", metavar="NAME", help="a backend of docs/drivers.md (default: configured)")
    add("--target", metavar="BRANCH", help="start from and ship to it (default: checked out)")
    add("--max-workers", metavar="N", type=int, help="agents that work in parallel (default: 8)")
    add("--output", metavar="FILE", help="write the report to FILE, not to stdout")
    add("--record", metavar="FILE", help="record every agent's answer for the replay backend")
    add("--dry-run", action="store_true", help="only print the plan; overrides other flags")
    add(
        "--demo",
        metavar="DIR",
        nargs="?",
        const="",
        help="make a small repository and run a recorded wave on it; needs no agent and no key",
    )
