"""The page about refusals is the table in the code, and the table is what the code says."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from driver.domain.refusals import REFUSALS, Refusal, remedy_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/refusals.md"
TABLE = ROOT / "driver/domain/refusals.py"
# A call that makes a reason, and the place of the reason among its arguments.
MAKES = {"Judgement": 1, "Finding": 2, "leave_out": 2}
# Findings of a review and of an audit, and the rule that puts a finding's parts together.
NO_REASONS = {
    "driver/agents/review_verdict.py",
    "driver/domain/reviews.py",
    "driver/policy/findings.py",
    "driver/scheduler/audit_rules.py",
}
# Flaky work that ships, and findings that only lower a grade.
SHIPS = (
    "flaky, but allowed by the settings",
    "the canary test gave no answer",
    "the output does not tell how many tests ran",
    "without the files of its added tests",
    "Python modules were installed while",
    "a failing test in ",
)


@functools.cache
def modules() -> dict[str, ast.Module]:
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8"))
        for path in sorted((ROOT / "driver").rglob("*.py"))
        if path != TABLE
    }


def literals(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def reasons(function: ast.FunctionDef) -> Iterator[tuple[str, ...]]:
    """The literal texts of each reason that a function gives, with those of its variables."""
    given: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            given.setdefault(node.targets[0].id, []).append(node.value)
    for call in ast.walk(function):
        if not isinstance(call, ast.Call):
            continue
        at = MAKES.get(getattr(call.func, "id", getattr(call.func, "attr", "")))
        named = [one.value for one in call.keywords if one.arg == "reason"]
        asked = named or ([call.args[at]] if at is not None and len(call.args) > at else [])
        if at is None or not asked:
            continue
        found, waiting = list[str](), [asked[0]]
        for _ in range(3):  # a reason of a reason of a reason
            names = {n.id for one in waiting for n in ast.walk(one) if isinstance(n, ast.Name)}
            found += [text for one in waiting for text in literals(one)]
            waiting = [value for name in names for value in given.pop(name, [])]
        yield tuple(text for text in found if len(text.split()) > 1)


def row(one: Refusal) -> str:
    verdicts = ", ".join(f"`{verdict}`" for verdict in one.verdict.split(" or "))
    return f"| {one.words.strip(' :`')} | {verdicts} | {one.remedy} |"


def test_the_page_is_the_table() -> None:
    told = PAGE.read_text("utf-8").split("\n| --- | --- | --- |\n")[1].split("\n\n")[0]
    assert told.strip().split("\n") == [row(one) for one in REFUSALS]


def test_every_reason_of_the_code_is_in_the_table() -> None:
    unknown = [
        (name, function.name, texts)
        for name, tree in modules().items()
        if name not in NO_REASONS
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for texts in reasons(function)
        if texts
        and not any(remedy_of(text) for text in texts)
        and not any(text.startswith(SHIPS) for text in texts)
    ]
    assert unknown == []


def test_every_reason_of_the_table_is_in_the_code() -> None:
    said = [text for tree in modules().values() for text in literals(tree)]
    assert [one.words for one in REFUSALS if not any(one.words in text for text in said)] == []


def test_no_words_hide_other_words() -> None:
    words = [one.words for one in REFUSALS]
    assert len({*words}) == len(words)
    hidden = [
        (first, later)
        for at, first in enumerate(words)
        for later in words[at + 1 :]
        if first in later
    ]
    assert hidden == []


def test_a_sentence_has_its_remedy() -> None:
    told = remedy_of("fewer tests ran: 2, on the base 3; if this is intended, give fewerTests: 1")
    assert told is not None
    assert "fewerTests" in told
    assert remedy_of("something else") is None
