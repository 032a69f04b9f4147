"""Converts a CSV file with a head line, as spreadsheets and issue systems export, to drafts. Pure.

Columns are known by their headings (`Summary`, `Issue key`, `Test command`, ...); lists in a cell
are separated by line breaks, `;` or `|`.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from io import StringIO
from typing import Any

from tools.importers.drafts import (
    Draft,
    Drafts,
    NotConverted,
    cleaned,
    field_of,
    slug_of,
    unique_sources,
    visible,
)

LIST_SEPARATORS = "\n;|"
LONGEST_CELL = 1_000_000


def convert(text: str) -> Drafts:
    """Returns the drafts of the rows. `lost` names rows and columns that were not converted."""
    lost: list[NotConverted] = []
    csv.field_size_limit(LONGEST_CELL)
    text = text.removeprefix("\ufeff")
    delimiter = max(",;\t", key=text.split("\n", 1)[0].count)
    reader = csv.reader(StringIO(text), delimiter=delimiter)
    found: list[Draft] = []
    try:
        head = next(reader, [])
        columns: dict[str, list[int]] = {}  # issue systems repeat a column for each label
        for position, heading in enumerate(head):
            if name := field_of(heading):
                columns.setdefault(name, []).append(position)
            else:
                column = f"column {heading!r}"
                lost.append(NotConverted(column, "is not a field of an item", partly=True))
        if "title" not in columns:
            why = "has no column for a title, such as Title or Summary"
            lost.append(NotConverted("the file", why))
        for row in reader:
            if any(cell.strip() for cell in row):
                found += _drafted(f"line {reader.line_num}", row, len(head), columns, lost)
    except csv.Error as error:
        lost.append(NotConverted(f"line {reader.line_num} and what follows", str(error)))
    return Drafts(unique_sources(found, lost), tuple(lost))


def _drafted(
    what: str,
    row: list[str],
    width: int,
    columns: Mapping[str, list[int]],
    lost: list[NotConverted],
) -> list[Draft]:
    if len(row) != width:
        lost.append(NotConverted(what, f"has {len(row)} cells where the head line has {width}"))
        return []
    cells = {name: [row[n].strip() for n in at if row[n].strip()] for name, at in columns.items()}
    raw: dict[str, Any] = {name: "\n".join(values) for name, values in cells.items() if values}
    fields = cleaned(what, raw, lost, separators=LIST_SEPARATORS)
    number = str(fields.pop("id", ""))
    title = visible(str(fields.get("title", "")))
    if not title:
        lost.append(NotConverted(what, "has no title"))
        return []
    fields["title"] = title
    fields["prompt"] = visible(str(fields.get("prompt", ""))) or title
    return [Draft(f"csv:{number or slug_of(title)}", fields, number)]
