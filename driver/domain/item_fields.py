"""Checks of single values of an item, as JSON has them: texts, names, commands, numbers.

A check takes the parsed value and gives the value to keep, or raises `Wrong`. Which keys an item
has is the manifest's business.
"""

from __future__ import annotations

import re
from typing import Any

from driver.backend_api.driver import EFFORT_LEVELS
from state_store.documents.item_id import MAX_NUMBER, id_of, is_unicode

Command = str | tuple[str, ...]

MAX_OWNED_FILES = 10_000
MAX_TEXT = 1_000_000
MAX_SLUG = 1_000
VERIFICATION_TIERS = (1, 2, 3, 4)

_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:")
_USABLE = re.compile("[A-Za-z0-9_-]")


class Wrong(Exception):
    """What is wrong with one value; the message follows the name of its key."""


def is_absolute(folder: str) -> bool:
    """True for a path that some platform would not take relative to the current folder."""
    return bool(_ABSOLUTE.match(folder))


def text_of(value: object) -> str:
    """Any text that can be written as UTF-8 and passed to a program."""
    if not isinstance(value, str):
        raise Wrong("must be a text")
    if len(value) > MAX_TEXT:
        raise Wrong(f"is longer than {MAX_TEXT} characters; shorten it")
    if "\0" in value:
        raise Wrong("holds a NUL character; remove it")
    if not value.isascii() and not is_unicode(value):
        raise Wrong("is not valid Unicode; it holds half of a surrogate pair")
    return value


def full_text_of(value: object) -> str:
    """A text that is not blank."""
    text = text_of(value)
    if not text.strip():
        raise Wrong("is empty")
    return text


def model_of(value: object) -> str:
    """A name that no program can take for an option of its own."""
    name = full_text_of(value)
    if name.startswith("-") or not name.isprintable():
        raise Wrong("must be a line of text that does not start with -")
    return name


def slug_of(value: object) -> str:
    """A text that can name files and branches."""
    slug = full_text_of(value)
    if not _USABLE.search(slug):
        raise Wrong("has no usable character; use letters, digits, '-' or '_'")
    if len(slug) > MAX_SLUG:
        raise Wrong(f"is longer than {MAX_SLUG} characters; shorten it")
    return slug


def is_slug(text: str) -> bool:
    """Whether `slug_of` takes a text that is sound otherwise."""
    return len(text) <= MAX_SLUG and bool(_USABLE.search(text))


def identifier_of(value: object) -> str:
    """A text or a whole number, as text."""
    if (found := id_of({"id": value})) is None:
        raise Wrong("must be a text or a whole number")
    return text_of(found)


def label_of(value: object) -> str:
    """A text, or a whole number as text."""
    return str(value) if _whole(value) >= 0 else text_of(value)


def entries_of(value: object) -> tuple[Any, ...]:
    """A non-empty list; its entries are checked with the folder they start from."""
    if not isinstance(value, list | tuple):
        raise Wrong("must be a list of file names")
    if not value:
        raise Wrong("is empty: an item that owns no file can change nothing")
    if len(value) > MAX_OWNED_FILES:
        raise Wrong(f"has more than {MAX_OWNED_FILES} entries; own a directory instead")
    return tuple(value)


def command_of(value: object) -> Command:
    """A test command: a text for the shell or a list of arguments."""
    if isinstance(value, str):
        return full_text_of(value)
    if not isinstance(value, list | tuple):
        raise Wrong("must be a text or a list of texts")
    words = tuple(text_of(word) for word in value)
    if not words or not words[0].strip():
        raise Wrong("is empty")
    return words


def effort_of(value: object) -> str:
    """One of the effort levels."""
    if value not in EFFORT_LEVELS:
        raise Wrong(f"must be one of {', '.join(EFFORT_LEVELS)}")
    return str(value)


def baseline_of(value: object) -> str:
    """What the test is on the base, where that is not red."""
    if value != "green":
        raise Wrong('must be "green", or left out for a test that is red before the work is done')
    return "green"


def tier_of(value: object) -> int:
    """One of the verification tiers."""
    if _whole(value) not in VERIFICATION_TIERS:
        raise Wrong(f"must be one of {', '.join(map(str, VERIFICATION_TIERS))}")
    return _whole(value)


def rounds_of(value: object) -> int:
    """A number of repair rounds."""
    if not 0 <= _whole(value) <= 100:
        raise Wrong("must be a whole number from 0 to 100")
    return _whole(value)


def count_of(value: object) -> int:
    """A number of tests."""
    if _whole(value) < 0:
        raise Wrong("must be a whole number of tests, at least 0")
    return _whole(value)


def share_of(value: object) -> float:
    """A share from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise Wrong("must be a number from 0 to 1")
    return float(value)


def phases_of(value: object) -> tuple[Any, ...]:
    """A list of phases; what is in them is checked with the configuration they go with."""
    if not isinstance(value, list | tuple) or not value:
        raise Wrong("must be a list of phases, at least one (docs/pipeline.md)")
    return tuple(value)


def flag_of(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise Wrong("must be true or false")
    return value


def _whole(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value < MAX_NUMBER:
        return value
    return -1
