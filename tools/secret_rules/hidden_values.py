"""Decides which values of an environment and of files are secrets that no text may show.

A value that is short or common would take honest words out of texts. So a value is hidden only if
it has eight characters or more, is no placeholder, no path and no plain word, and not only a few
different characters. A value that a setting names as a key needs only its length.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlsplit

from state_store.redaction.spellings import SHORTEST
from tools.secret_rules.names import is_secret_name, may_be_secret
from tools.secret_rules.placeholders import is_placeholder, is_random_looking

_MOST_VALUES = 1000
_LETTERS_FROM = 24  # a shorter value of letters only may be a word
_DIGITS_FROM = 16
_FEW = 5
_LETTERS = re.compile(r"[A-Za-z]+(?:[-_./:@ ]+[A-Za-z]+)*")


def hidden_values(
    environ: Mapping[str, str],
    names: Iterable[str] = (),
    files: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """The values to hide, by the variable or the file and key. `names` are variables that a
    setting names as keys; `files` are the texts of files of keys, by their names."""
    asked = set(names)
    found: dict[str, str] = {}
    for name, value in environ.items():
        if name in asked and len(value) >= SHORTEST:
            found[name] = value
        elif is_secret_name(name):
            _add(found, name, value)
        elif name.startswith("GIT_CONFIG_VALUE_") and "authorization:" in value.lower():
            _add(found, name, value.split()[-1])  # the login that a job hands to git
        elif may_be_secret(name, value):
            _add_parts(found, name, value)
    for name, text in files.items():
        _add_file(found, name, text)
    return found


def is_worth_hiding(value: str) -> bool:
    """False for a value that may be an honest word, number, placeholder or path."""
    if len(value) < SHORTEST or len(set(value)) < _FEW or is_placeholder(value):
        return False
    if value.isdigit():
        return len(value) >= _DIGITS_FROM
    if _LETTERS.fullmatch(value):
        return len(value) >= _LETTERS_FROM and "/" not in value and not value.endswith(".")
    return not (value.startswith(("/", "~", ".")) and os.path.lexists(os.path.expanduser(value)))  # noqa: PTH111


def _add(found: dict[str, str], name: str, value: str) -> None:
    value = value.strip()
    if "://" in value[:30]:
        _add_parts(found, name, value)
    elif is_worth_hiding(value):
        found.setdefault(name, value)


def _add_parts(found: dict[str, str], name: str, address: str) -> None:
    """The secret parts of an address: its password, and parts that look random."""
    try:
        parts = urlsplit(address)
        password = parts.password or ""
    except ValueError:
        return
    words = re.split(r"[/=&?;#]", f"{parts.path}/{parts.query}/{parts.fragment}")
    long = [word for word in words if len(word) >= 2 * SHORTEST and is_random_looking(word)]
    if password and not long and is_worth_hiding(unquote(password)):
        found.setdefault(name, unquote(password))
    for number, word in enumerate([password, *long] if long else []):
        if is_worth_hiding(unquote(word)):
            found.setdefault(f"{name}.{number}" if number else name, unquote(word))


def _add_file(found: dict[str, str], name: str, text: str) -> None:
    for number, (key, value) in enumerate(_values(text)):
        if number >= _MOST_VALUES:
            break
        if (is_secret_name(key) and is_worth_hiding(value)) or is_random_looking(value):
            _add(found, f"{name}/{key}" if key else name, value)
    if "-----BEGIN" in text and "PRIVATE KEY" in text:
        found.setdefault(name, text.strip())


def _values(text: str) -> Iterator[tuple[str, str]]:
    """The keys and values of a file of settings: JSON, or lines of assignments or of values."""
    try:
        yield from _leaves("", json.loads(text))
    except (ValueError, RecursionError):
        for line in text.splitlines():
            if line.lstrip().startswith(("#", ";", "//")):
                continue
            key, _, value = line.replace(":", "=", 1).partition("=")
            key, value = (key.strip(" \t\"'"), value) if value else ("", line)
            words = dict.fromkeys((value.strip().rstrip(","), *line.split()))
            yield from ((key.removeprefix("export ").strip(), one.strip("\"'")) for one in words)


def _leaves(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _leaves(str(name), one)
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(key, one)
    elif isinstance(value, str):
        yield key, value
