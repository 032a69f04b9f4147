"""Removes files of finished and dead runs that nobody needs.

Only the command line; `driver.maintenance.reclaim` decides which files may go.
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
        sys.modules[__name__] = import_module("tools.gc")

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

OLDER_THAN_DAYS = 14.0


def build_parser() -> argparse.ArgumentParser:
    from driver.cli.flags import Parser

    parser = Parser(prog="gc.py", description="Remove what finished and dead runs left.")
    add = parser.add_argument
    parser.add_shared("--repo", "--state-dir", "--config")
    add("--dry-run", action="store_true", help="only print the plan")
    add(
        "--older-than",
        metavar="DAYS",
        type=_days,
        default=OLDER_THAN_DAYS,
        help="age of outputs, journal entries, kept places and unsigned folders (default: 14)",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The program. Returns exit code 1 if a removal failed."""
    from tools.program import program

    return program(build_parser(), _run, argv)


def _run(args: argparse.Namespace) -> int:
    from contextlib import suppress

    from driver.maintenance.findings import Scope
    from driver.maintenance.reclaim import DAY_S, FAILED, reclaim
    from driver.maintenance.reproduce import existing_state, surroundings
    from driver.preparation.kept_places import folder_of
    from driver.workspace.setup import place_limits
    from state_store.values.lazy_dataclass import replace
    from tools.program import show, show_each

    place = surroundings(args.repo, args.state_dir, args.config)
    older_than_s, limits = args.older_than * DAY_S, place_limits(place.settings)
    scope = Scope(
        state_dir=existing_state(place),
        repository=place.repository,
        root=place.workspaces,
        environ=place.settings.environ,
        older_than_s=older_than_s,
        dry=args.dry_run,
        remote=place.settings.ship.remote,
        schema=place.settings.state.schema,
        places=replace(limits, age_s=min(limits.age_s, older_than_s)),
    )
    steps = show_each(reclaim(scope), as_json=args.json)
    root, repository = place.workspaces, place.repository
    if root and repository and place.settings.workspace.root is None and not args.dry_run:
        kept = folder_of(root, repository.top)
        for folder in (kept, kept.parent, root):
            with suppress(OSError):  # a run has something there, or there never was a run
                folder.rmdir()
    document = {"dry_run": args.dry_run, "steps": [step.to_json() for step in steps]}
    show(document, () if steps else ["nothing to reclaim"], as_json=args.json)
    return int(any(step.done == FAILED for step in steps))


def _days(text: str) -> float:
    from argparse import ArgumentTypeError

    try:
        days = float(text)
    except ValueError:
        days = -1
    if not 0 <= days < 1e6:
        raise ArgumentTypeError(f"{text!r} is no number of days")
    return days


if __name__ == "__main__":
    sys.exit(main())
