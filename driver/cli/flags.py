"""The flags that both command lines share. Imports argparse only: --help has to stay quick."""

from __future__ import annotations

import argparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Tells a wrong command line in one sentence, as every other mistake is told."""

    def error(self, message: str) -> NoReturn:
        """Exit code 2."""
        from driver.terminal.safe_text import safe_line

        self.exit(2, f"tidegate: {safe_line(message)}; {self.prog} --help tells the flags\n")


def add_common(parser: argparse.ArgumentParser) -> None:
    """Everything but what to work on."""
    add = parser.add_argument
    add("--repo", metavar="DIR", help="the repository (default: the one you are in)")
    add("--config", metavar="FILE", help="configuration to use instead of the project's")
    add("--state-dir", metavar="DIR", help="where state is kept (default: ./state)")
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
