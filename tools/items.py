"""Imports items into the backlog from a JSON document, or exports the backlog as one.

The backlog is the tracker file, or the store where there is no file.
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
        sys.modules[__name__] = import_module("tools.items")

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from driver.cli.flags import Parser
    from driver.maintenance.backlog_place import BacklogPlace

_STDIO = "-"
_ACTOR = "items"


def build_parser() -> Parser:
    from driver.cli.flags import Parser

    parser = Parser(prog="items.py", description="Import or export the items of the backlog.")
    words = parser.add_subparsers(dest="what", required=True)
    taken = words.add_parser("import", help="add all items of a file, or none")
    taken.add_argument("file", metavar="FILE", help='{"items": [...]} or a list; - is stdin')
    taken.add_argument("--update", action="store_true", help="change items that are there already")
    taken.add_argument("--dry-run", action="store_true", help="only check, and show the changes")
    given = words.add_parser("export", help="write all items as JSON")
    given.add_argument("file", metavar="FILE", nargs="?", help="(default: -, stdout)")
    words.metavar = f"{{{','.join(words.choices)}}}"
    for word in (taken, given):
        word.add_argument("--tracker", metavar="FILE", help="(default: STATE_DIR/tracker.json)")
        word.add_argument("--state-dir", help="the state folder (default: that of the settings)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The program. Returns exit code 2 if an item of an import cannot be taken."""
    from tools.program import program

    return program(build_parser(), _run, argv)


def _run(asked: argparse.Namespace) -> int:
    from driver.maintenance.backlog_place import BacklogPlace

    place = BacklogPlace.of(asked.state_dir, asked.tracker)
    return _import(asked, place) if asked.what == "import" else _export(asked, place)


def _import(asked: argparse.Namespace, place: BacklogPlace) -> int:
    from driver.maintenance.item_exchange import imported
    from state_store.documents.item_id import id_of
    from tools.importers.input_text import input_text
    from tools.program import show

    decide = imported(input_text(asked.file), asked.file, update=asked.update)
    made = decide(place.items()) if asked.dry_run else place.change(decide, _ACTOR)
    added = [id_of(item) for item in made.added]
    document = {
        "backlog": place.name,
        "changed": not asked.dry_run,
        "added": added,
        "updated": list(made.changes),
    }
    would = "would be " if asked.dry_run else ""
    line = f"{place.name}: {len(added)} {would}added, {len(made.changes)} {would}updated"
    show(document, [line], as_json=asked.json)
    return 0


def _export(asked: argparse.Namespace, place: BacklogPlace) -> int:
    import json

    from state_store.database.projections import tracker_document
    from state_store.documents.files import write_json_atomic
    from tools.program import show

    document = tracker_document(place.items())
    if asked.file in (None, _STDIO):
        show(document, [json.dumps(document, indent=2)], as_json=asked.json)
        return 0
    write_json_atomic(Path(asked.file), document)
    count = len(document["items"])
    answer = {"backlog": place.name, "file": asked.file, "items": count}
    show(answer, [f"{count} items of {place.name} are in {asked.file}"], as_json=asked.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
