"""The word `version`: prints the version, the Python that runs, and the folder of this copy."""

from __future__ import annotations

import json
import os
import sys

import driver
from driver.terminal.invocation import current, schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """The program."""
    words = sys.argv[1:] if argv is None else argv
    if [word for word in words if word != "--json"]:
        from driver.cli.flags import Parser

        Parser(prog="version.py", description="Print the version.").parse_args(words)
    python = sys.version.partition(" ")[0]
    home = os.path.dirname(os.path.dirname(os.path.abspath(driver.__file__)))
    if current().json:
        facts = {"version": driver.__version__, "python": python, "home": home}
        print(json.dumps({"schema": schema(), **facts}))
    else:
        print(f"tidegate {driver.__version__} (Python {python}, {home})")
    return 0
