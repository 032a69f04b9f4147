"""Front matter means what it says, or is refused with its line."""

from __future__ import annotations

from typing import Any

import pytest

from tools.importers.front_matter import FrontMatterError, parse, split


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: word", "word"),
        ("a: two words  # a comment", "two words"),
        ("a: x#y", "x#y"),
        ("a: 12", 12),
        ("a: -3", -3),
        ("a: 007", "007"),
        ("a: 1.10", "1.10"),
        ("a: yes", "yes"),
        ("a: true", True),
        ("a: null", None),
        ("a: ~", None),
        ("a:", None),
        ("a: 2026-01-31", "2026-01-31"),
        ("a: 'it''s # so'", "it's # so"),
        ('a: "x\\n\\"y\\" \\u00e9"', 'x\n"y" \u00e9'),
        ('a: "x"  # why', "x"),
        ("a: http://x/y", "http://x/y"),
        ("a: []", []),
        ("a: [x, 'y, z', \"w\", 3, true]", ["x", "y, z", "w", 3, True]),
        ("a:\n- x\n- 'y: z'\n-  w # c", ["x", "y: z", "w"]),
        ("a:  # list\n  - x\n\n  # none\n  - 2\n", ["x", 2]),
        ("a: |\n  one\n    two\n\n  three\n", "one\n  two\n\nthree\n"),
        ("a: |-\n  one\n  two\n", "one\ntwo"),
        ("a: >\n  one\n  two\n\n  three\n", "one two\nthree\n"),
    ],
)
def test_a_value(text: str, value: Any) -> None:
    assert parse(text.splitlines()) == {"a": value}
    assert parse(["before: 1", *text.splitlines(), "after: 2"]) == {
        "before": 1,
        "a": value,
        "after": 2,
    }


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\na: 2", 2),
        ("no colon", 1),
        ("a: {b: c}", 1),
        ("a:\n  b: c", 2),
        ("a:\n  - b: c", 2),
        ("a: x\n  - y", 2),
        ("a: &x y", 1),
        ("a: *x", 1),
        ("a: !!str y", 1),
        ("a: 'open", 1),
        ('a: "open', 1),
        ('a: "bad \\q"', 1),
        ("a: 'x' y", 1),
        ("a: b: c", 1),
        ("a: [x", 1),
        ("a: [x, [y]]", 1),
        ("a: ['x' 'y']", 1),
        ("a: @x", 1),
        ("a:b", 1),
        ("? x", 1),
    ],
)
def test_what_is_not_known_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(FrontMatterError, match=f"^line {line}: "):
        parse(text.splitlines())


def test_the_front_is_told_from_the_text() -> None:
    assert split("---\na: 1\n---\nbody\n\nmore\n") == ({"a": 1}, "body\n\nmore")
    assert split("\ufeff---\r\na: 1\r\n---\r\nbody") == ({"a": 1}, "body")
    assert split("---\n---\n") == ({}, "")
    assert split("no front\n---\n") == (None, "no front\n---\n")
    with pytest.raises(FrontMatterError, match="line 3: "):
        split("---\na: 1\nwrong\n---\n")
    with pytest.raises(FrontMatterError, match=r"line 1: .* no --- at its end"):
        split("---\na: 1\n")
