"""Prove a shipped commit again, elsewhere, and compare with what was written down of it.

The command line only; the work is `driver.reproduction`. Exit code 0 when all is as it was, 1 when
something differs, 2 when there is no such commit, 4 when the test cannot be run here.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:  # run as a file: import from the checkout, not from this folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from driver.maintenance.reproduce import Reproduction


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    from driver.cli.flags import Parser

    parser = Parser(prog="reproduce.py", description="Prove a shipped commit again.")
    add = parser.add_argument
    add("wave", metavar="WAVE", help="the wave's id, or how it begins")
    add("item", metavar="ITEM", help="the item's slug or id")
    add("--repo", metavar="DIR", help="the repository (default: the one you are in)")
    add("--config", metavar="FILE", help="configuration to use instead of the project's")
    add("--state-dir", metavar="DIR", help="where state is kept (default: ./state)")
    add("--json", action="store_true", help="print one JSON document")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The program; returns the exit code."""
    args = build_parser().parse_args(argv)
    from tools.program import told

    return told("reproduce", lambda: _run(args))


def _run(args: argparse.Namespace) -> int:
    from driver.maintenance.reproduce import find, reproduce, surroundings
    from state_store.documents.errors import ExitCode, InputError

    place = surroundings(args.repo, args.state_dir, args.config)
    if place.repository is None:
        raise InputError("this is no repository: name the one that was shipped to with --repo")
    shipped = find(place.repository, place.settings, args.wave, args.item)
    done = reproduce(shipped, place.repository, place.settings)
    _tell(done, as_json=args.json)
    return ExitCode.NOT_ALL_SHIPPED if done.differences else ExitCode.DONE


def _tell(done: Reproduction, *, as_json: bool) -> None:
    import json

    from driver.terminal.safe_text import safe_line

    if as_json:
        print(json.dumps(done.to_json()))
        return
    told = "the receipt of then" if done.shipped.then else "what the commit says"
    now, commit = done.now, done.shipped.commit[:12]
    print(safe_line(f"{commit}: {now.command}: {now.kind} after {now.duration_s:.1f} s"))
    for line in done.differences or (f"the same as {told}",):
        print(safe_line(line))


if __name__ == "__main__":
    sys.exit(main())
