"""The kinds of assertions that JavaScript tests use, each with a statement that must fail. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

_ASSERT = re.compile(r"\bassert(?:\.strict)?(?:\.(?P<method>\w+))?\(")
# Arguments by the method of `assert`.
_METHODS: Mapping[str, str] = {
    "": "false",
    "ok": "false",
    "equal": "1, 2",
    "notEqual": "1, 1",
    "strictEqual": '"a", "b"',
    "notStrictEqual": '"a", "a"',
    "deepEqual": "[1], [2]",
    "deepStrictEqual": "[1], [2]",
    "partialDeepStrictEqual": "[1], [2]",
    "notDeepEqual": "[1], [1]",
    "notDeepStrictEqual": "[1], [1]",
    "throws": "() => [1]",
    "rejects": "() => Promise.resolve(1)",
    "doesNotReject": "() => Promise.reject(new Error())",
    "doesNotThrow": "() => JSON.parse()",
    "match": '"b", /a/',
    "doesNotMatch": '"a", /a/',
    "ifError": "1",
    "fail": "",
}
_USUAL = ("", "equal", "strictEqual", "deepStrictEqual")
_MAX = 8


def used_methods(texts: Sequence[str]) -> tuple[str, ...]:
    """The methods of `assert` in the texts; the usual ones if there are none."""
    used = {one["method"] or "" for text in texts for one in _ASSERT.finditer(text)}
    return tuple(sorted(used & _METHODS.keys()))[:_MAX] or _USUAL


def failing(methods: Sequence[str], called: str) -> Iterator[tuple[str, str]]:
    """Each method with a call of it that must fail. `called` is the name of `assert`."""
    for method in methods:
        name = f"{called}.{method}" if method else called
        yield f"assert.{method}".rstrip("."), f"{name}({_METHODS[method]})"
