"""Adds one item to the backlog. Refuses an incomplete item, and names all its problems at once."""

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
        sys.modules[__name__] = import_module("tools.add")

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Any

    from driver.cli.flags import Parser
    from tools.importers.merge import Item, Plan

PRIORITIES = ("P1", "P2", "P3")
STATUSES = ("todo", "proposed")
_FIRST_ID = "T-1"
_EXAMPLE_ID = "EXAMPLE-1"  # of the item that `init` writes, which names no form


def build_parser() -> Parser:
    from driver.cli import flags

    parser = flags.Parser(prog="add.py", description="Add one item to the backlog.")
    add = parser.add_argument
    add("title", metavar="TITLE", help="a line for people, the subject of the commit")
    add("--prompt", metavar="TEXT", help="the task for the agent (default: the title)")
    add("--prompt-file", metavar="FILE", help="read the task from this file; - is stdin")
    several: dict[str, Any] = {"nargs": "+", "action": "extend"}
    owned = "the files that the agent may change; a folder ends in /"
    add("--owns", metavar="PATH", required=True, help=owned, **several)
    test = "the command that fails now and passes when the work is done"
    add("--test", metavar="CMD", required=True, help=test)
    add("--id", metavar="ID", help="(default: the next number)")
    add("--slug", metavar="SLUG", help="its name in branches and files (default: of the title)")
    add("--priority", choices=PRIORITIES, help="(default: none, which counts as P3)")
    add("--depends", metavar="ID", help="items that have to be shipped before", **several)
    add("--label", metavar="LABEL", help="labels for run --label", **several)
    add("--lane", metavar="LANE", help="the lane for run --lane, such as a team")
    add("--work-dir", metavar="DIR", help="run the test in this folder of the repository")
    add("--status", choices=STATUSES, default=STATUSES[0], help="proposed waits for a person")
    add("--tracker", metavar="FILE", help="the backlog (default: STATE_DIR/tracker.json)")
    parser.add_shared("--state-dir")
    add("--dry-run", action="store_true", help="only check and print the item")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The program. Returns exit code 2 for an item that no run could take."""
    from tools.program import program

    return program(build_parser(), _run, argv)


def _run(asked: argparse.Namespace) -> int:
    import json

    from driver.maintenance.backlog_place import BacklogPlace
    from driver.terminal.safe_text import safe_text
    from tools.importers.merge import Plan
    from tools.program import show

    place = BacklogPlace.of(asked.state_dir, asked.tracker)
    prompt = _prompt(asked)

    def decide(items: Sequence[Item]) -> Plan:
        return Plan(added=[_checked(_item(asked, prompt, items), items)])

    made = decide(place.items()) if asked.dry_run else place.change(decide, "add")
    item = dict(made.added[0])
    done = "would add" if asked.dry_run else "added"
    text = safe_text(json.dumps(item, indent=2, ensure_ascii=False))
    document = {"tracker": place.name, "added": not asked.dry_run, "item": item}
    lines = [str(item["id"])] if asked.quiet else [f"{done} to {place.name}:", text]
    show(document, lines, as_json=asked.json)
    return 0


def _prompt(asked: argparse.Namespace) -> str:
    """The task: of the flag, of the file, or the title."""
    from state_store.documents.errors import InputError
    from state_store.documents.files import read_text
    from tools.importers.input_text import input_text

    if asked.prompt is not None and asked.prompt_file is not None:
        raise InputError("give --prompt or --prompt-file, not both")
    if asked.prompt_file == "-":
        return input_text(asked.prompt_file)
    if asked.prompt_file is not None:
        return read_text(Path(asked.prompt_file))
    return str(asked.title if asked.prompt is None else asked.prompt)


def _item(asked: argparse.Namespace, prompt: str, items: Sequence[Item]) -> Item:
    """The item, with the next free id and a free slug if none is given."""
    from datetime import UTC, datetime

    from tools.importers.drafts import slug_of

    slugs = {str(item.get("slug", "")).lower() for item in items}
    slug = wanted = asked.slug or slug_of(asked.title)
    count = 1
    while asked.slug is None and slug.lower() in slugs:
        count += 1
        slug = f"{wanted}-{count}"
    found = {
        "id": asked.id or next_id(items),
        "slug": slug,
        "title": asked.title,
        "status": asked.status,
        "priority": asked.priority,
        "createdAt": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "labels": asked.label,
        "lane": asked.lane,
        "workDir": asked.work_dir,
        "dependsOn": asked.depends,
        "prompt": prompt,
        "ownsFiles": asked.owns,
        "testCmd": asked.test,
    }
    return {key: value for key, value in found.items() if value is not None}


def next_id(items: Sequence[Item]) -> str:
    """The id after the highest of the most frequent form, such as T-13 after T-12."""
    import re
    from collections import Counter

    from state_store.documents.item_id import id_of

    numbers: dict[str, int] = {}
    forms: Counter[str] = Counter()
    for item in items:
        if id_of(item) == _EXAMPLE_ID:
            continue
        if found := re.fullmatch(r"(.*?)(\d{1,9})", id_of(item) or ""):
            form, number = found.groups()
            forms[form] += 1
            numbers[form] = max(numbers.get(form, 0), int(number))
    if not forms:
        return _FIRST_ID
    form = forms.most_common(1)[0][0]
    return f"{form}{numbers[form] + 1}"


def _checked(item: Item, items: Sequence[Item]) -> Item:
    """The item. Raises InputError with everything that would keep a run from taking it."""
    from driver.backlog.tracker import tracker_problems, validate_item
    from driver.cli.flags import guess
    from state_store.documents.errors import InputError
    from state_store.documents.item_id import id_of

    problems = [*validate_item(item), *tracker_problems([*items, {**item, "status": "todo"}])]
    names = {str(one) for it in items for one in (id_of(it), it.get("slug")) if one is not None}
    problems += [
        f"unknown_dependency: no item has the id or slug {name!r}{guess(name, names)}"
        for name in item.get("dependsOn", ())
        if name not in names
    ]
    if problems:
        raise InputError([problem.partition(": ")[2] or problem for problem in problems])
    return item


if __name__ == "__main__":
    sys.exit(main())
