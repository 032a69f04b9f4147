"""Checks that the database is complete and undamaged, and rebuilds it on request.

Only the command line: the checks are in `state_store.database.integrity` and
`state_store.views.anchors`, the rebuild in `state_store.views.rebuild`. Exit code 0 if the database
is sound, else 4.
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
        sys.modules[__name__] = import_module("tools.verify_state")

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from driver.maintenance.reproduce import Surroundings
    from state_store.views.anchors import Anchor


def build_parser() -> argparse.ArgumentParser:
    from driver.cli.flags import Parser

    parser = Parser(prog="verify_state.py", description="Check the database of a state folder.")
    add = parser.add_argument
    parser.add_shared("--state-dir")
    add("--repo", metavar="DIR", help="compare with the commits on its wave branches, too")
    add("--rebuild", action="store_true", help="rebuild it from journal and tracker")
    add("--tracker", metavar="FILE", help="for --rebuild (default: tracker.json in the folder)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    from tools.program import program

    return program(build_parser(), _run, argv)


def _run(args: argparse.Namespace) -> int:
    from driver.maintenance.past_waves import live_waves
    from driver.maintenance.reproduce import existing_state, surroundings
    from state_store.documents.errors import ExitCode, StoppedByPolicyError
    from state_store.place import has_begun, name_of
    from state_store.views.anchors import rebuild_hint
    from state_store.views.rebuild import examine, rebuild
    from state_store.write_api import STATE_DB_FILENAME
    from tools.program import show

    place = surroundings(args.repo, args.state_dir)
    database = existing_state(place) / STATE_DB_FILENAME
    anchors = _anchors(place, with_repository=args.repo is not None)
    health, rebuilt = examine(database, anchors), None
    if args.rebuild and not health.is_whole:
        if live := sorted(live_waves(place.state_dir)):
            raise StoppedByPolicyError(f"wave {live[0]} is running: rebuild after its end")
        tracker = Path(args.tracker) if args.tracker else place.state_dir / "tracker.json"
        rebuilt = rebuild(database, health, tracker, anchors)
    remedy = None if health.is_whole or rebuilt else rebuild_hint(database.parent, args.repo)
    document = {
        "database": name_of(database),
        "whole": health.is_whole,
        "problems": list(health.sentences),
        "remedy": remedy,
        "rebuilt": rebuilt.to_json() if rebuilt else None,
    }
    whole = "is complete" if has_begun(database) else "does not exist yet; a run creates it"
    lines: list[object] = [*health.sentences] or [f"{name_of(database)} {whole}"]
    if rebuilt or remedy:
        lines.append(rebuilt or f"put back a copy of it, or {remedy}")
    show(document, lines, as_json=args.json)
    return ExitCode.DONE if health.is_whole or rebuilt else ExitCode.CANNOT_RUN_HERE


def _anchors(place: Surroundings, *, with_repository: bool) -> set[Anchor]:
    from driver.publishing.wave_branches import wave_branches
    from state_store.views.anchors import in_journal

    anchors = in_journal(place.state_dir)
    if with_repository and place.repository is not None:
        for branch in wave_branches(place.repository, place.settings.environ):
            anchors.update(branch.anchors)
    return anchors


if __name__ == "__main__":
    sys.exit(main())
