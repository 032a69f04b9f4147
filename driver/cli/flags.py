"""The flags that several command lines share. Imports argparse only, so that --help is quick."""

from __future__ import annotations

import argparse
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_SHARED: dict[str, dict[str, Any]] = {
    "--repo": {"metavar": "DIR", "help": "the repository (default: the one you are in)"},
    "--config": {"metavar": "FILE", "help": "configuration to use instead of the project's"},
    "--state-dir": {"metavar": "DIR", "help": "where state is kept (default: ./state)"},
    "--json": {"action": "store_true", "help": "print one JSON document"},
}


class Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one sentence, as every other mistake is reported."""

    def error(self, message: str) -> NoReturn:
        """Ends the program with exit code 2."""
        from driver.terminal.safe_text import safe_line

        self.exit(2, f"tidegate: {safe_line(message)}; {self.prog} --help lists the flags\n")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Ends the program, also where the reader of the help has closed stdout."""
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except BrokenPipeError:
            from tools.program import silence_stdout

            silence_stdout()
        super().exit(status, message)

    def add_shared(self, *flags: str) -> None:
        """Adds flags that mean the same in every program, such as `--state-dir`."""
        for flag in flags:
            self.add_argument(flag, **_SHARED[flag])


def add_common(parser: Parser) -> None:
    """Adds all flags of the two engine programs but those that name the work."""
    add = parser.add_argument
    parser.add_shared("--repo", "--config", "--state-dir")
    add("--driver", metavar="NAME", help="a backend of docs/drivers.md (default: configured)")
    add("--target", metavar="BRANCH", help="start from it, ship for it (default: checked out)")
    add("--max-workers", metavar="N", type=int, help="agents at once (default: 8)")
    add("--output", metavar="FILE", help="write the report there instead of to stdout")
    add("--record", metavar="FILE", help="record every agent's answer for the replay backend")
    add("--dry-run", action="store_true", help="print what would be done; wins over all else")
    add(
        "--demo",
        metavar="DIR",
        nargs="?",
        const="",
        help="make a small repository and run a recorded wave on it; needs no agent and no key",
    )
