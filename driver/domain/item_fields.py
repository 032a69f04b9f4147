"""Checks of single values of an item: texts, names, commands, numbers. A check takes a parsed JSON
value and returns its checked form, or raises `InvalidValueError`."""

from __future__ import annotations

import re
from typing import Any

from driver.backend_api.driver import EFFORT_LEVELS
from state_store.documents.item_id import MAX_NUMBER, id_of, is_unicode
from state_store.values.names import RESOURCE_RULE, USABLE, is_resource

Command = str | tuple[str, ...]

MAX_OWNED_FILES = 10_000
MAX_TEXT = 1_000_000
MAX_SLUG = 1_000
VERIFICATION_TIERS = (1, 2, 3, 4)

_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:")


class InvalidValueError(Exception):
    """The fault of one value; the message continues the name of its key."""


def is_absolute(folder: str) -> bool:
    """True for a path that is absolute on any platform."""
    return bool(_ABSOLUTE.match(folder))


def text_of(value: object) -> str:
    """Any text that can be written as UTF-8 and passed to a program."""
    if not isinstance(value, str):
        raise InvalidValueError("must be a text")
    if len(value) > MAX_TEXT:
        raise InvalidValueError(f"is longer than {MAX_TEXT} characters; shorten it")
    if "\0" in value:
        raise InvalidValueError("holds a NUL character; remove it")
    if not value.isascii() and not is_unicode(value):
        raise InvalidValueError("is not valid Unicode; it holds half of a surrogate pair")
    return value


def full_text_of(value: object) -> str:
    """A text that is not blank."""
    text = text_of(value)
    if not text.strip():
        raise InvalidValueError("is empty")
    return text


def model_of(value: object) -> str:
    """A name that no program can take for an option."""
    name = full_text_of(value)
    if name.startswith("-") or not name.isprintable():
        raise InvalidValueError("must be a line of text that does not start with -")
    return name


def slug_of(value: object) -> str:
    """A text that can name files and branches."""
    slug = full_text_of(value)
    if not USABLE.search(slug):
        raise InvalidValueError("has no usable character; use letters, digits, '-' or '_'")
    if len(slug) > MAX_SLUG:
        raise InvalidValueError(f"is longer than {MAX_SLUG} characters; shorten it")
    return slug


def identifier_of(value: object) -> str:
    """A text or a whole number, as text."""
    if (found := id_of({"id": value})) is None:
        raise InvalidValueError("must be a text or a whole number")
    return text_of(found)


def label_of(value: object) -> str:
    """A text, or a whole number as text."""
    return str(value) if _whole(value) >= 0 else text_of(value)


def entries_of(value: object) -> tuple[Any, ...]:
    """A non-empty list. Its entries are checked later, relative to their folder."""
    if not isinstance(value, list | tuple):
        raise InvalidValueError("must be a list of file names")
    if not value:
        raise InvalidValueError("is empty: an item that owns no file can change nothing")
    if len(value) > MAX_OWNED_FILES:
        raise InvalidValueError(f"has more than {MAX_OWNED_FILES} entries; own a directory instead")
    return tuple(value)


def command_of(value: object) -> Command:
    """A test command: a text for the shell or a list of arguments."""
    if isinstance(value, str):
        return full_text_of(value)
    if not isinstance(value, list | tuple):
        raise InvalidValueError("must be a text or a list of texts")
    words = tuple(text_of(word) for word in value)
    if not words or not words[0].strip():
        raise InvalidValueError("is empty")
    return words


def effort_of(value: object) -> str:
    """An effort level."""
    if value not in EFFORT_LEVELS:
        raise InvalidValueError(f"must be one of {', '.join(EFFORT_LEVELS)}")
    return str(value)


def baseline_of(value: object) -> str:
    """The expected result of the test on the base, if it is not red."""
    if value != "green":
        raise InvalidValueError(
            'must be "green", or left out for a test that is red before the work is done'
        )
    return "green"


def tier_of(value: object) -> int:
    """A verification tier."""
    if _whole(value) not in VERIFICATION_TIERS:
        raise InvalidValueError(f"must be one of {', '.join(map(str, VERIFICATION_TIERS))}")
    return _whole(value)


def rounds_of(value: object) -> int:
    """A number of repair rounds."""
    if not 0 <= _whole(value) <= 100:
        raise InvalidValueError("must be a whole number from 0 to 100")
    return _whole(value)


def count_of(value: object) -> int:
    """A number of tests."""
    if _whole(value) < 0:
        raise InvalidValueError("must be a whole number of tests, at least 0")
    return _whole(value)


def share_of(value: object) -> float:
    """A share from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidValueError("must be a number from 0 to 1")
    return float(value)


def phases_of(value: object) -> tuple[Any, ...]:
    """A list of phases; their contents are checked with the pipeline configuration."""
    if not isinstance(value, list | tuple) or not value:
        raise InvalidValueError("must be a list of phases, at least one (docs/pipeline.md)")
    return tuple(value)


def resources_of(value: object) -> tuple[str, ...]:
    """Names of resources that the runs of an item's tests need for themselves."""
    if not isinstance(value, list | tuple) or not all(map(is_resource, value)):
        raise InvalidValueError(f"must be a list of names, {RESOURCE_RULE}")
    return tuple(value)


def flag_of(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise InvalidValueError("must be true or false")
    return value


def _whole(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value < MAX_NUMBER:
        return value
    return -1
