"""Remove what finished and dead runs left, where nothing would be lost by it.

The command line only; what may go is decided in `driver.reclaim`.
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

OLDER_THAN_DAYS = 14.0


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    from driver.cli.flags import Parser

    parser = Parser(prog="gc.py", description="Remove what finished and dead runs left.")
    add = parser.add_argument
    add("--repo", metavar="DIR", help="the repository (default: the one you are in)")
    add("--state-dir", metavar="DIR", help="where state is kept (default: ./state)")
    add("--config", metavar="FILE", help="configuration to use instead of the project's")
    add("--dry-run", action="store_true", help="say what would be done and do nothing")
    add(
        "--older-than",
        metavar="DAYS",
        type=_days,
        default=OLDER_THAN_DAYS,
        help="age of outputs, journal entries and folders nobody signed (default: 14)",
    )
    add("--json", action="store_true", help="print one JSON document")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The program; returns the exit code: 1 when something that could go is still there."""
    args = build_parser().parse_args(argv)
    from tools.program import told

    return told("gc", lambda: _run(args))


def _run(args: argparse.Namespace) -> int:
    from driver.maintenance.reclaim import DAY_S, FAILED, Scope, reclaim
    from driver.maintenance.reproduce import existing_state, surroundings

    place = surroundings(args.repo, args.state_dir, args.config)
    scope = Scope(
        state_dir=existing_state(place),
        repository=place.repository,
        root=place.workspaces,
        environ=place.settings.environ,
        older_than_s=args.older_than * DAY_S,
        dry=args.dry_run,
    )
    steps = []
    for step in reclaim(scope):
        steps.append(step)
        if not args.json:
            print(step, flush=True)
    if args.json:
        import json

        print(json.dumps({"dry_run": args.dry_run, "steps": [step.to_json() for step in steps]}))
    elif not steps:
        print("nothing to reclaim")
    return int(any(step.done == FAILED for step in steps))


def _days(text: str) -> float:
    days = float(text)
    if not 0 <= days < 1e6:
        raise ValueError(text)
    return days


if __name__ == "__main__":
    sys.exit(main())
