"""Imports work from GitHub issues, Markdown files or a CSV file into the tracker, each item once.

Only the command line; `tools.importers` reads the files and merges the items into the tracker.
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
        sys.modules[__name__] = import_module("tools.intake")

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from tools.importers.drafts import Drafts, NotConverted
    from tools.importers.merge import Fate

KINDS = ("github", "markdown", "csv")


def build_parser() -> argparse.ArgumentParser:
    from driver.cli.flags import Parser

    parser = Parser(prog="intake.py", description="Import work of other systems into the tracker.")
    add = parser.add_argument
    add("kind", choices=KINDS, help="the format of the work")
    add("path", metavar="PATH", help="JSON of gh issue list, a folder of Markdown, a CSV file; -")
    add("--tracker", metavar="FILE", help="the backlog (default: STATE_DIR/tracker.json)")
    parser.add_shared("--state-dir")
    add("--todo", action="store_true", help="set runnable items to todo, not only to proposed")
    add("--dry-run", action="store_true", help="only print the plan")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The program. Returns exit code 1 if a conversion failed."""
    from tools.program import program

    return program(build_parser(), _run, argv)


def _run(args: argparse.Namespace) -> int:
    from driver.backlog.tracker import validate_item
    from driver.maintenance.backlog_place import BacklogPlace
    from tools.importers.merge import Item, Plan, plan

    drafts = _drafts(args.kind, args.path)

    def decide(items: Sequence[Item]) -> Plan:
        return plan(items, drafts.found, validate_item, ready=args.todo)

    place = BacklogPlace.of(args.state_dir, args.tracker)
    made = decide(place.items()) if args.dry_run else place.change(decide, "intake")
    _report(made.fates, drafts.lost, as_json=args.json)
    return int(any(not one.partly for one in drafts.lost))


def _drafts(kind: str, path: str) -> Drafts:
    from state_store.documents import strict_json
    from state_store.documents.errors import InputError
    from tools.importers import csv, github, markdown
    from tools.importers.input_text import input_text

    if kind == "markdown":
        return markdown.convert(Path(path))
    text = input_text(path)
    if kind == "csv":
        return csv.convert(text)
    try:
        document = strict_json.parse(text)
    except ValueError as error:
        made = f"make it with gh issue list --json {github.JSON_FIELDS}"
        raise InputError(f"{path} is not valid JSON: {error}; {made}") from error
    return github.convert(document)


def _report(fates: Sequence[Fate], lost: Sequence[NotConverted], *, as_json: bool) -> None:
    from dataclasses import asdict

    from driver.terminal.safe_text import safe_line
    from tools.importers.merge import CHANGED, SAME
    from tools.program import show

    document = {"items": list(map(asdict, fates)), "notConverted": list(map(asdict, lost))}
    lines = []
    for fate in fates:
        line = f"{fate.what}: {fate.id} {fate.slug}: {fate.status}"
        if fate.what == CHANGED:
            line += "; the tracker's own text is kept"
        elif fate.lacks:
            line += f"; to be run it needs: {'; '.join(fate.lacks)}"
        lines += [line] if fate.what != SAME else []
    lines += [f"{'note' if o.partly else 'not converted'}: {o.what}: {o.why}" for o in lost]
    same = sum(fate.what == SAME for fate in fates)
    refused = sum(not one.partly for one in lost)
    lines.append(f"{len(fates)} converted, {same} of them unchanged; {refused} not converted")
    show(document, map(safe_line, lines), as_json=as_json)


if __name__ == "__main__":
    sys.exit(main())
