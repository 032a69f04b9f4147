"""Drafts: work items of other systems, before they become tracker items. Pure.

A converter makes `Draft`s of its input and lists the failures. `merge` decides the changes of the
tracker.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from state_store.values.lazy_dataclass import dataclass

MAX_SLUG = 60

_PRIORITY_WORDS = {
    "p0": "P1", "p1": "P1", "p2": "P2", "p3": "P3", "p4": "P3", "p5": "P3",
    "blocker": "P1", "critical": "P1", "urgent": "P1", "highest": "P1", "high": "P1",
    "major": "P2", "medium": "P2", "normal": "P2",
    "minor": "P3", "low": "P3", "lowest": "P3", "trivial": "P3",
}  # fmt: skip
# Headings of columns, keys and sections that hold an item's fields, as lower-case letters only.
_HEADINGS = {
    "id": "id", "key": "id", "issuekey": "id", "issueid": "id", "number": "id",
    "title": "title", "summary": "title", "name": "title",
    "slug": "slug",
    "prompt": "prompt", "description": "prompt", "body": "prompt", "details": "prompt",
    "ownsfiles": "ownsFiles", "ownedfiles": "ownsFiles", "files": "ownsFiles",
    "testcmd": "testCmd", "testcommand": "testCmd", "test": "testCmd", "verify": "testCmd",
    "priority": "priority", "labels": "labels", "tags": "labels", "lane": "lane", "team": "lane",
    "status": "status", "state": "status",
    "createdat": "createdAt", "created": "createdAt", "createdon": "createdAt",
    "dependson": "dependsOn", "blockedby": "dependsOn",
    "repo": "repo", "repository": "repo", "workdir": "workDir", "notes": "notes",
    "selfcheckcmd": "selfCheckCmd", "effort": "effort",
}  # fmt: skip
_LISTS = frozenset({"ownsFiles", "labels", "dependsOn"})
_HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_INVISIBLE = re.compile(
    "[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)


@dataclass(frozen=True, slots=True)
class Draft:
    """An item of another system. `source` is its permanent name there, `number` its name for
    people. `fields` are the item's fields, without slug and id if the system has none."""

    source: str
    fields: Mapping[str, Any]
    number: str = ""


@dataclass(frozen=True, slots=True)
class NotConverted:
    """A failed conversion of a piece of input, or of a part of it (`partly`), with the reason."""

    what: str
    why: str
    partly: bool = False


@dataclass(frozen=True, slots=True)
class Drafts:
    """The result of a converter, in the order of its input."""

    found: tuple[Draft, ...]
    lost: tuple[NotConverted, ...]


def field_of(heading: str) -> str | None:
    """The item's field for the heading of a column, key or section."""
    return _HEADINGS.get(re.sub(r"[^a-z]", "", heading.lower()))


def cleaned(
    what: str, raw: Mapping[str, Any], lost: list[NotConverted], *, separators: str = "\n"
) -> dict[str, Any]:
    """Returns the valid fields of `raw`. Adds invalid values to `lost`."""
    fields: dict[str, Any] = {}
    for key, value in raw.items():
        made, why = _made(key, value, separators)
        if why:
            lost.append(NotConverted(what, f"{key} is left out: {why}", partly=True))
        elif made not in (None, "", []):
            fields[key] = made
    return fields


def _made(key: str, value: Any, separators: str) -> tuple[Any, str]:
    if key in _LISTS and value is not None:
        return listed(value, separators), ""
    if value is None or (key == "testCmd" and isinstance(value, list)):
        return value and [str(word) for word in value], ""
    if isinstance(value, list | dict | bool):
        return None, f"{value!r} is not a text"
    text = str(value).strip()
    if key == "priority":
        level = priority_of([text])
        return level, "" if level or not text else f"{text!r} is not a known priority"
    if key == "createdAt" and text:
        try:
            datetime.fromisoformat(text)
        except ValueError:
            return None, f"{text!r} is not an ISO 8601 date"
    return text, ""


def listed(value: Any, separators: str = "\n") -> list[str]:
    """Returns the texts of a list, or of a text with entries between `separators`, without bullets
    and back quotes."""
    entries = (
        value if isinstance(value, list) else re.split(f"[{re.escape(separators)}]", str(value))
    )
    plain = (re.sub(r"^[-*]\s+(?:\[[ xX]\]\s*)?", "", str(entry).strip()) for entry in entries)
    return [text for text in (entry.strip().strip("`").strip() for entry in plain) if text]


def priority_of(words: Iterable[str]) -> str | None:
    """Returns the highest priority, P1 to P3, in words such as `priority: high`."""
    labels = [re.split(r"[:/=\s-]+", word.strip().lower()) for word in words]
    found = (_PRIORITY_WORDS.get(parts[-1]) for parts in labels
             if len(parts) == 1 or parts[0] in ("priority", "prio", "severity"))  # fmt: skip
    return min(filter(None, found), default=None)


def visible(text: str) -> str:
    """Removes HTML comments and invisible characters, because an author could hide orders to an
    agent in them."""
    return _INVISIBLE.sub("", _HIDDEN.sub("", text)).strip()


def slug_of(title: str, number: str = "") -> str:
    """Returns a short name of ASCII letters and digits, with the number of the work."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    whole = "-".join(
        filter(None, (re.sub(r"[^A-Za-z0-9]+", "-", number).strip("-").lower(), words))
    )
    return whole[:MAX_SLUG].rstrip("-") or "item"


def unique_sources(drafts: Sequence[Draft], lost: list[NotConverted]) -> tuple[Draft, ...]:
    """Returns one draft for each source. Adds duplicates to `lost`."""
    seen: dict[str, Draft] = {}
    for draft in drafts:
        if draft.source in seen:
            lost.append(NotConverted(draft.number or draft.source, "occurs twice"))
        else:
            seen[draft.source] = draft
    return tuple(seen.values())
