"""Tells which items of a journal are completed, with all their files, and which remain.

The journal is a file of JSON Lines with `slug`, `status` and `files`, or the folder
`<state>/journal` of our own waves. Our own waves resume by themselves; this program is for scripts
of the original project.
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
        sys.modules[__name__] = import_module("tools.wave_resume")

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

COMPLETED = "completed"


def load_journal(journal_path: str | Path) -> list[dict[str, Any]]:
    """The records of a journal, in order; [] if it is missing or unreadable. Lines that are no JSON
    object are skipped."""
    from state_store.documents.errors import InputError
    from state_store.documents.files import read_text
    from state_store.documents.strict_json import parse_foreign

    path = Path(journal_path)
    if path.is_dir():
        return _records_of_waves(path)
    try:
        lines = read_text(path).splitlines()
    except InputError:
        return []
    records = []
    for line in lines:
        try:
            found = parse_foreign(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            records.append(found)
    return records


def verify_files_exist(workdir: str | Path, files: Iterable[object]) -> bool:
    """True if every name is that of a file or folder in `workdir`."""
    from driver.domain.ownership import OwnershipError, parse_owned

    for name in files:
        try:
            path = parse_owned(name if isinstance(name, str) else "").path
        except OwnershipError:
            return False
        if not (Path(workdir) / path).exists():
            return False
    return True


def classify_items(journal: Iterable[object], workdir: str | Path) -> dict[str, Any]:
    """`{completed, remaining, resume_hint}`: slugs in the order of their first records. The last
    record of a slug counts. Completed items have files, and all of them exist in `workdir`."""
    last: dict[str, Mapping[str, Any]] = {}
    for record in journal:
        if isinstance(record, dict) and record.get("slug"):
            last[str(record["slug"])] = record
    done = {}
    for slug, record in last.items():
        files = record.get("files")
        named = files if record.get("status") == COMPLETED and isinstance(files, list) else []
        done[slug] = bool(named) and verify_files_exist(workdir, named)
    completed = [slug for slug in done if done[slug]]
    remaining = [slug for slug in done if not done[slug]]
    whole = "all items are completed" if completed else "the journal is missing or names no item"
    hint = f"resume with {remaining[0]}" if remaining else whole
    return {"completed": completed, "remaining": remaining, "resume_hint": hint}


def build_parser() -> argparse.ArgumentParser:
    from driver.cli.flags import Parser

    parser = Parser(prog="wave_resume.py", description="What remains of an interrupted wave?")
    add = parser.add_argument
    add("--journal", metavar="PATH", required=True, help="a file of JSON Lines, or our own folder")
    add("--workdir", metavar="PATH", required=True, help="the folder that the files are in")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The program. Returns exit code 0, also without a journal."""
    from tools.program import program

    return program(build_parser(), _show, argv)


def _show(asked: argparse.Namespace) -> int:
    from driver.terminal.safe_text import safe_line
    from tools.program import show

    found = classify_items(load_journal(asked.journal), asked.workdir)
    lines = []
    for title, key in (("Completed", "completed"), ("Remaining", "remaining")):
        lines.append(f"{title}: {len(found[key])}")
        lines += [f"  {slug}" for slug in found[key]]
    show(found, map(safe_line, [*lines, found["resume_hint"]]), as_json=asked.json)
    return 0


def _records_of_waves(folder: Path) -> list[dict[str, Any]]:
    """The entries of our own journal, the oldest first. Shipped items are completed."""
    from state_store.documents.errors import CannotRunError
    from state_store.documents.journal import FOLDER, load_entries

    folder = folder.absolute()
    try:
        entries, _unreadable = load_entries(folder.parent) if folder.name == FOLDER else ({}, ())
    except CannotRunError:
        return []
    ordered = sorted(entries.values(), key=lambda entry: float(entry["timestamp"]))
    return [
        {
            "slug": entry["slug"],
            "status": COMPLETED if entry.get("shipped") else entry["phase"],
            "files": entry.get("filesWritten") or [],
        }
        for entry in ordered
    ]


if __name__ == "__main__":
    sys.exit(main())
