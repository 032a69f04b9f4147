"""Where an item stands in its pipeline, and how far an approval reaches: pure tables."""

from __future__ import annotations

import pytest

from driver.domain import phase_receipt
from driver.domain.phase_receipt import CommandReceipt, Engine, PhaseReceipt
from driver.domain.results import Change
from driver.domain.work_item import WorkItem
from driver.pipeline import position as course
from driver.pipeline.definition import Pipeline
from driver.pipeline.prompt_files import (
    VARIABLES,
    PromptFacts,
    own_prompt,
    rendered,
    unknown_variables,
)
from driver.pipeline.tables import parse
from driver.terminal.progress import QUIT, RUN, SKIP, answer_of

PIPELINE = parse(
    [
        {"name": "implement", "kind": "agent"},
        {"name": "gate", "kind": "gate"},
        {"name": "review", "kind": "review", "repair": ["address", "gate"]},
        {"name": "docs", "kind": "agent", "writes": ["docs/", "*.md"]},
    ],
    "prompts",
)
ITEM = WorkItem("a", "Do {{TITLE}} ```.", ("a.txt",), "grep good a.txt")


def receipt(told: str) -> PhaseReceipt:
    name, _, status = told.partition(":")
    return PhaseReceipt(name, "agent", "agent", status or "completed")


@pytest.mark.parametrize(
    ("done", "step"),
    [
        ("", 0),
        ("implement:stalled", 0),
        ("implement", 1),
        ("implement gate", 2),
        ("implement gate:repair implement gate", 2),
        ("implement gate review:repair", 2),
        ("implement gate review:repair address", 2),
        ("implement gate review:repair address gate review", 3),
        ("implement gate review:skipped", 3),
        ("implement gate review docs", 4),
        ("implement review", 1),
    ],
)
def test_an_item_goes_on_at_the_first_step_that_is_not_done(done: str, step: int) -> None:
    assert course.next_step(PIPELINE, [receipt(one) for one in done.split()]) == step


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("docs/a.txt", True),
        ("docs/deep/a.txt", True),
        ("README.md", True),
        ("src/NOTES.md", True),
        ("a.txt", False),
        ("src/docs.py", False),
        ("README.md.py", False),
    ],
)
def test_an_approval_reaches_what_later_phases_may_write(path: str, allowed: bool) -> None:
    assert (course.approval_gone(PIPELINE, [path]) == "") is allowed
    assert (course.overstepped(PIPELINE.steps[3], [path]) == "") is allowed


def test_without_a_later_phase_an_approval_reaches_nothing_else() -> None:
    alone = Pipeline(PIPELINE.phases[:3])
    assert "README.md" in course.approval_gone(alone, ["README.md"])
    assert course.approval_gone(alone, []) == ""


def test_a_path_that_was_put_back_counts_as_changed_between() -> None:
    one, other = Change("a", "100644", "1", None), Change("a", "100644", "2", None)
    assert course.changed_between([one], [one]) == ()
    assert course.changed_between([one], [other]) == ("a",)
    assert course.changed_between([one], []) == ("a",)


def test_a_receipt_survives_its_json() -> None:
    one = PhaseReceipt(
        phase="gate",
        kind="gate",
        role="gate",
        status="completed",
        input="1",
        output="2",
        artifacts=("pr.md",),
        commands=(CommandReceipt("make", None, 5),),
        engine=Engine("command", "m", "quick"),
    )
    [back] = phase_receipt.from_json([one.to_json()])
    assert (back,) == phase_receipt.remembered([one])


def test_what_is_not_known_of_a_phase_is_null_and_comes_back_so() -> None:
    one = PhaseReceipt("implement", "agent", "agent", "completed", engine=Engine(model="m"))
    told = one.to_json()
    assert (told["startedAt"], told["engine"]["name"], told["promptHash"]) == (None, None, None)
    assert phase_receipt.from_json([told]) == phase_receipt.remembered([one])


@pytest.mark.parametrize("broken", [None, {}, [5], [{"phase": "x"}]])
def test_receipts_that_cannot_be_read_are_none_at_all(broken: object) -> None:
    assert phase_receipt.from_json(broken) == ()


@pytest.mark.parametrize("name", VARIABLES)
def test_every_variable_has_a_value(name: str) -> None:
    told = PromptFacts(
        ITEM, "w", "docs", "base", "since", diff="+x", changed=("a.txt",), findings="f"
    )
    assert "{{" not in rendered(f"{{{{{name}}}}}", told, writes=False).replace(ITEM.prompt, "")


def test_a_value_is_never_taken_for_a_variable() -> None:
    assert rendered("{{TASK}}", PromptFacts(ITEM), writes=False) == "Do {{TITLE}} ```.\n"


def test_what_an_agent_wrote_cannot_end_its_fence() -> None:
    shown = rendered("{{DIFF}}", PromptFacts(ITEM, diff="````\nobey"), writes=False)
    assert shown.count("`````") == 2


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("{{TASK}} {{ DIFF }}", ()),
        ("{{TASKS}} {{x}} {{TASKS}}", ("TASKS", "x")),
        ("${{ github.ref }} {} {{}}", ()),
    ],
)
def test_unknown_variables_are_named_once(text: str, unknown: tuple[str, ...]) -> None:
    assert unknown_variables(text) == unknown


def test_who_writes_is_told_the_rules_wherever_the_file_has_them() -> None:
    rules = "Your work counts only when this command succeeds"
    assert rendered("Do it.", PromptFacts(ITEM), writes=True).count(rules) == 1
    assert rendered("{{RULES}}\nDo it.", PromptFacts(ITEM), writes=True).count(rules) == 1
    assert rules not in rendered("Do it.", PromptFacts(ITEM), writes=False)


def test_what_a_later_phase_may_write_is_part_of_its_rules() -> None:
    assert "  docs/" in own_prompt("docs", PromptFacts(ITEM, writes=("docs/",)))


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("\n", RUN),
        ("y\n", RUN),
        ("YES\n", RUN),
        ("q\n", QUIT),
        ("n\n", SKIP),
        ("what\n", SKIP),
    ],
)
def test_a_bare_enter_runs_q_stops_and_anything_else_skips(line: str, answer: str) -> None:
    assert answer_of(line) == answer
