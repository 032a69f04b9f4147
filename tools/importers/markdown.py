"""Converts Markdown files with front matter to drafts. The text below is the prompt."""

from __future__ import annotations

import re
from pathlib import Path

from state_store.documents.errors import InputError
from state_store.documents.files import BadFileError, read_text
from tools.importers.drafts import (
    Draft,
    Drafts,
    NotConverted,
    cleaned,
    field_of,
    unique_sources,
    visible,
)
from tools.importers.front_matter import FrontMatterError, split

MAX_BYTES = 1_000_000
_HEADING = re.compile(r"^# +(.+?)[ #]*$", re.MULTILINE)


def convert(folder: Path) -> Drafts:
    """Returns the drafts of the `.md` files below `folder`, by path. `lost` names failed files.

    Raises InputError if there is no such folder.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: name the folder with the Markdown files")
    lost: list[NotConverted] = []
    found: list[Draft] = []
    for path in sorted(folder.rglob("*.md")):
        name = path.relative_to(folder).as_posix()
        try:
            made = _draft(name, read_text(path, MAX_BYTES), lost)
        except BadFileError as error:
            lost.append(NotConverted(name, error.why))
        except FrontMatterError as error:
            lost.append(NotConverted(name, f"its front matter, {error}"))
        else:
            found += [made] if made else []
    return Drafts(unique_sources(found, lost), tuple(lost))


def _draft(name: str, text: str, lost: list[NotConverted]) -> Draft | None:
    front, body = split(text)
    if front is None:
        lost.append(NotConverted(name, "has no front matter"))
        return None
    raw = {}
    for key, value in front.items():
        if (known := field_of(key)) is None:
            lost.append(NotConverted(name, f"{key} is left out: it is no field of an item",
                                     partly=True))  # fmt: skip
        else:
            raw[known] = value
    body = visible(body)
    heading = _HEADING.search(body)
    fields = {
        "title": heading[1] if heading else Path(name).stem.replace("-", " ").replace("_", " "),
        "prompt": body,
        **cleaned(name, raw, lost, separators=",\n"),
    }
    number = str(fields.pop("id", ""))
    if not fields["prompt"]:
        lost.append(NotConverted(name, "has no text below its front matter, and no prompt in it"))
        return None
    return Draft(f"markdown:{number or name}", fields, number)
