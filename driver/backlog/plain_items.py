"""A fast check of many items at once, for a long tracker whose items are mostly sound. Pure.

It reads the items field by field and asks about all values of a field in one call. So a sound item
costs a tenth of `shape_problems`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from driver.backlog.tracker import quick_problems
from driver.domain.item_fields import MAX_OWNED_FILES, MAX_SLUG, MAX_TEXT
from driver.domain.ownership import MAX_DEPTH, PLAIN_PATH, is_plain
from driver.domain.work_item import FIELDS, value_is_sound
from state_store.documents.item_id import MAX_NUMBER, is_unicode
from state_store.values.columns import column
from state_store.values.names import USABLE

Item = Mapping[str, Any]

# These fields are checked here, all others one by one.
_OWN = ("ownsFiles", "id", "slug", "title", "prompt", "testCmd", "workDir")
_OTHERS = [key for key in FIELDS if key not in _OWN]


def faults_in(items: Sequence[Item]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The position and the `quick_problems` of each item of a block that has some."""
    if items and not are_plain(items):
        for number, item in enumerate(items):
            if problems := quick_problems(item):
                yield number, problems


def are_plain(items: Sequence[Item]) -> bool:
    """True if `quick_problems` finds nothing in any of the items. False if it must be asked."""
    present = set(chain.from_iterable(items))
    ids, slugs = column(items, "id"), column(items, "slug")
    titles, commands = column(items, "title"), column(items, "testCmd")
    words: list[Any] = []  # of commands that are lists, from the second on
    if list in set(map(type, commands)):
        if not all(commands):
            return False
        words = list(chain.from_iterable(c[1:] for c in commands if type(c) is list))
        commands = [c[0] if type(c) is list else c for c in commands]
    prompts = column(items, "prompt")
    if int in set(map(type, ids)):
        ids = [str(n) if type(n) is int and abs(n) < MAX_NUMBER else n for n in ids]
    texts = [*ids, *slugs, *commands, *prompts, *(text for text in titles if text is not None)]
    if set(map(type, chain(texts, words))) != {str}:
        return False
    together = "".join(texts + words)
    return (
        "\0" not in together
        and (together.isascii() or is_unicode(together))
        and (len(together) <= MAX_TEXT or max(map(len, texts + words)) <= MAX_TEXT)
        and all(texts)
        and True not in map(str.isspace, texts)
        and max(map(len, slugs)) <= MAX_SLUG
        and all(map(USABLE.search, slugs))
        and _own_plain_files(items, present)
        and all(_are_sound(items, key) for key in _OTHERS if key in present)
    )


def _own_plain_files(items: Sequence[Item], present: Collection[str]) -> bool:
    owned = column(items, "ownsFiles")
    if set(map(type, owned)) != {list}:
        return False
    sizes, entries = list(map(len, owned)), list(chain.from_iterable(owned))
    if not (min(sizes) > 0 and max(sizes) <= MAX_OWNED_FILES and set(map(type, entries)) == {str}):
        return False
    folders: set[Any] = set()
    if "workDir" in present:
        given = column(items, "workDir")
        if not set(map(type, given)) <= {str, type(None)}:
            return False
        folders.update(given)
        folders -= {None, "."}
    longest = max(map(len, entries)) + max(map(len, folders), default=0)
    if longest < MAX_DEPTH:  # so it cannot be too deep either
        return all(map(PLAIN_PATH.match, entries)) and all(map(PLAIN_PATH.match, folders))
    # A plain path has few bytes, so only the levels of folder and file together can be too many.
    deepest = max(map(_levels, entries)) + max(map(_levels, folders), default=0)
    return deepest <= MAX_DEPTH and all(map(is_plain, entries)) and all(map(is_plain, folders))


def _levels(path: str) -> int:
    return path.count("/") + 1


def _are_sound(items: Sequence[Item], key: str) -> bool:
    """True if the values of the field are sound. Equal ones, of which there are many, are checked
    once."""
    given = [item[key] for item in items if key in item]
    try:
        values = {(type(value), value) for value in given}
    except TypeError:  # a list has no hash
        return False
    return all(value_is_sound(key, value) for _, value in values)
