"""Proves a shipped commit again in a new checkout, and compares the result with its receipt.

Only the command line; the work is in `driver.maintenance.reproduce`. Exit code 0: same result, 1: a
difference, 2: no such commit, 4: the test cannot run here.
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
        sys.modules[__name__] = import_module("tools.reproduce")

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def build_parser() -> argparse.ArgumentParser:
    from driver.cli.flags import Parser

    parser = Parser(prog="reproduce.py", description="Prove a shipped commit again.")
    add = parser.add_argument
    add("wave", metavar="WAVE", help="the wave's id, or a prefix of it")
    add("item", metavar="ITEM", help="the item's slug or id")
    parser.add_shared("--repo", "--config", "--state-dir")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    from tools.program import program

    return program(build_parser(), _run, argv)


def _run(args: argparse.Namespace) -> int:
    from driver.maintenance.reproduce import find, reproduce, surroundings
    from driver.terminal.safe_text import safe_line
    from state_store.documents.errors import ExitCode, InputError
    from tools.program import show

    place = surroundings(args.repo, args.state_dir, args.config)
    if place.repository is None:
        raise InputError("this folder is in no repository: name the repository with --repo")
    shipped = find(place.repository, place.settings, args.wave, args.item)
    done = reproduce(shipped, place.repository, place.settings)
    now, commit = done.now, shipped.commit[:12]
    same = "the same as " + ("the receipt of then" if shipped.then else "what the commit says")
    head = f"{commit}: {now.command}: {now.kind} after {now.duration_s:.1f} s"
    lines = map(safe_line, (head, *(done.differences or (same,))))
    show(done.to_json(), lines, as_json=args.json)
    return ExitCode.NOT_ALL_SHIPPED if done.differences else ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
