"""The first sentence of a docstring says what the thing is or does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("state_store", "tools", "driver")
# A noun clause or a preposition at the start makes the reader look for the sentence.
RIDDLE = re.compile(
    r"(What|Whatever|Whether|Who|Whose|Whoever|How|Where|Wherever|Of|As|That|Those|One|Which|With"
    r"|Nobody|Somebody)\b"
)


def riddles(source: str) -> list[str]:
    """The first lines of docstrings that are no sentence and no noun phrase."""
    nodes = (
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    )
    lines = ((ast.get_docstring(node) or "").split("\n")[0] for node in nodes)
    return [line for line in lines if RIDDLE.match(line)]


@pytest.mark.parametrize(
    ("line", "is_riddle"),
    [
        ("Whether the lease is ours.", True),
        ("What a cycle tells.", True),
        ("Whoever waits here waits for others.", True),
        ("Returns True while this run holds the lease.", False),
        ("The attempts, reviews and phases of an item so far.", False),
        ("Offers one workspace for each item.", False),
    ],
)
def test_a_first_line_names_its_thing(line: str, is_riddle: bool) -> None:
    assert bool(riddles(f'def f():\n    """{line}"""')) == is_riddle


def test_no_docstring_opens_with_a_riddle() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): lines
        for layer in LAYERS
        for path in sorted((ROOT / layer).rglob("*.py"))
        if (lines := riddles(path.read_text(encoding="utf-8")))
    }
    assert found == {}
