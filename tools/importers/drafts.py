"""Work as other systems describe it, on its way to being tracker items. Pure.

A converter makes `Draft`s out of what it reads and names what it could not read; what becomes of a
draft in a tracker is decided in `tools.intake_merge`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

MAX_SLUG = 60

_PRIORITY_WORDS = {
    "p0": "P1", "p1": "P1", "p2": "P2", "p3": "P3", "p4": "P3", "p5": "P3",
    "blocker": "P1", "critical": "P1", "urgent": "P1", "highest": "P1", "high": "P1",
    "major": "P2", "medium": "P2", "normal": "P2",
    "minor": "P3", "low": "P3", "lowest": "P3", "trivial": "P3",
}  # fmt: skip
# How people head the columns, keys and sections that hold an item's fields; compared without
# case and without what is no letter.
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
    """`source` names the work in the system it comes from, for good; `fields` are an item's, but
    for slug and id where the system has none; `number` is what people call it."""

    source: str
    fields: Mapping[str, Any]
    number: str = ""


@dataclass(frozen=True, slots=True)
class NotConverted:
    """Something, or with `partly` a part of it, that did not become an item, and why."""

    what: str
    why: str
    partly: bool = False


@dataclass(frozen=True, slots=True)
class Drafts:
    """What a converter made of its input, in its order."""

    found: tuple[Draft, ...]
    lost: tuple[NotConverted, ...]


def field_of(heading: str) -> str | None:
    """The item's field that a column, key or section heading means."""
    return _HEADINGS.get(re.sub(r"[^a-z]", "", heading.lower()))


def cleaned(
    what: str, raw: Mapping[str, Any], lost: list[NotConverted], *, separators: str = "\n"
) -> dict[str, Any]:
    """The fields of an item out of `raw`, whose keys are fields already; what cannot be a value
    of its field is left out and noted in `lost`."""
    fields: dict[str, Any] = {}
    for key, value in raw.items():
        made, why = _made(key, value, separators)
        if why:
            lost.append(NotConverted(what, f"{key} is left out: {why}", partly=True))
        elif made not in (None, "", []):
            fields[key] = made
    return fields


def _made(key: str, value: Any, separators: str) -> tuple[Any, str]:
    if value is None:
        return None, ""
    if key in _LISTS:
        return listed(value, separators), ""
    if key == "testCmd" and isinstance(value, list):
        return [str(word) for word in value], ""
    if isinstance(value, list | dict | bool):
        return None, f"{value!r} is no text"
    return _text_of(key, str(value).strip())


def _text_of(key: str, text: str) -> tuple[str | None, str]:
    if key == "priority":
        level = priority_of([text])
        return level, "" if level or not text else f"{text!r} is no priority that is known"
    if key == "createdAt" and text and not _is_date(text):
        return None, f"{text!r} is no ISO 8601 date"
    return text, ""


def listed(value: Any, separators: str = "\n") -> list[str]:
    """A list of texts out of one, or out of a text with entries apart by any of `separators`;
    bullets and back quotes around an entry are dropped."""
    entries = (
        value if isinstance(value, list) else re.split(f"[{re.escape(separators)}]", str(value))
    )
    plain = (re.sub(r"^[-*]\s+(?:\[[ xX]\]\s*)?", "", str(entry).strip()) for entry in entries)
    return [text for text in (entry.strip().strip("`").strip() for entry in plain) if text]


def priority_of(words: Iterable[str]) -> str | None:
    """P1, P2 or P3 where one of the words, such as `priority: high`, says so; the most urgent."""
    told = [re.split(r"[:/=\s-]+", word.strip().lower()) for word in words]
    found = (_PRIORITY_WORDS.get(parts[-1]) for parts in told
             if len(parts) == 1 or parts[0] in ("priority", "prio", "severity"))  # fmt: skip
    return min(filter(None, found), default=None)


def visible(text: str) -> str:
    """The text that a person reviewing it sees: without HTML comments and invisible characters,
    in which whoever wrote it could tell an agent what nobody approved."""
    return _INVISIBLE.sub("", _HIDDEN.sub("", text)).strip()


def slug_of(title: str, number: str = "") -> str:
    """A short name of ASCII letters and digits, with the number people know the work by."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    whole = "-".join(
        filter(None, (re.sub(r"[^A-Za-z0-9]+", "-", number).strip("-").lower(), words))
    )
    return whole[:MAX_SLUG].rstrip("-") or "item"


def unique_sources(drafts: Sequence[Draft], lost: list[NotConverted]) -> tuple[Draft, ...]:
    """The drafts with a source each; the second one of the same is noted in `lost`."""
    seen: dict[str, Draft] = {}
    for draft in drafts:
        if draft.source in seen:
            lost.append(NotConverted(draft.number or draft.source, "stands there twice"))
        else:
            seen[draft.source] = draft
    return tuple(seen.values())


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
