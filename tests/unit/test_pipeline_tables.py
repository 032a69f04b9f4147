"""What a pipeline may be, and that everything that is wrong with one is told at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from driver.pipeline.definition import CLASSIC, Pipeline
from driver.pipeline.tables import MAX_PHASES, parse
from state_store.documents.errors import InputError

IMPLEMENT: Mapping[str, Any] = {"name": "implement", "kind": "agent"}
GATE: Mapping[str, Any] = {"name": "gate", "kind": "gate"}
REVIEW: Mapping[str, Any] = {"name": "review", "kind": "review", "repair": ["address", "gate"]}
DOCS: Mapping[str, Any] = {"name": "docs", "kind": "agent", "writes": ["docs/"]}
PR: Mapping[str, Any] = {"name": "pr-description", "kind": "agent", "permissions": "read-only"}
PUBLISH: Mapping[str, Any] = {"name": "publish", "kind": "publish"}


def problems(*tables: Any) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        parse(list(tables), "prompts")
    return caught.value.problems


def names(pipeline: Pipeline) -> list[str]:
    return [phase.name for phase in pipeline.steps]


def test_steps_come_in_the_order_in_which_they_are_written() -> None:
    found = parse([IMPLEMENT, GATE, REVIEW, DOCS, PR, PUBLISH], "prompts")
    assert names(found) == ["implement", "gate", "review", "docs", "pr-description", "publish"]
    assert found.first_agent.name == "implement"
    assert found.publishes


def test_an_agent_that_a_review_calls_is_no_step() -> None:
    address = {"name": "address", "kind": "agent", "prompt": "address.md"}
    found = parse([IMPLEMENT, GATE, REVIEW, address], "prompts")
    assert names(found) == ["implement", "gate", "review"]
    assert found.called("address").prompt == "prompts/address.md"
    assert not found.publishes


def test_what_a_repair_calls_has_words_of_its_own_where_no_phase_is_called_so() -> None:
    found = parse([IMPLEMENT, REVIEW], "prompts")
    assert (found.called("address").kind, found.called("gate").kind) == ("agent", "gate")


def test_a_backend_has_the_keys_of_the_configuration() -> None:
    own = {**IMPLEMENT, "backend": {"name": "command", "command": ["agent"], "timeout_s": 5}}
    backend = parse([own], "prompts").steps[0].backend
    assert backend is not None
    assert (backend.name, backend.command, backend.timeout_s) == ("command", ("agent",), 5.0)


def test_what_it_does_decides_its_hash_and_nothing_else() -> None:
    one = parse([IMPLEMENT, GATE], "prompts")
    assert (
        one.config_hash == parse([dict(reversed(list(IMPLEMENT.items()))), GATE], "p").config_hash
    )
    assert one.config_hash != parse([{**IMPLEMENT, "retries": 1}, GATE], "prompts").config_hash


def test_the_classic_order_is_a_pipeline() -> None:
    assert names(CLASSIC) == ["implement", "gate", "review", "publish"]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"kind": "agent"}, "name is missing"),
        ({"name": "implement"}, "kind is missing"),
        ({**IMPLEMENT, "retrys": 1}, "did you mean retries?"),
        ({**IMPLEMENT, "kind": "agents"}, "kind must be"),
        ({**IMPLEMENT, "name": "Im plement"}, "small letters"),
        ({**IMPLEMENT, "name": "repair", "prompt": "x.md"}, "of Tidegate's own"),
        ({**IMPLEMENT, "name": "tidy"}, "prompt is missing"),
        ({**IMPLEMENT, "prompt": "../x.md"}, "prompt must be"),
        ({**IMPLEMENT, "commands": ["make"]}, "commands has no meaning"),
        ({**IMPLEMENT, "effort": "huge"}, "effort must be"),
        ({**IMPLEMENT, "timeout_s": 0}, "timeout_s must be"),
        ({**IMPLEMENT, "retries": -1}, "retries must be"),
        ({**IMPLEMENT, "requires_clean_tree": 1}, "requires_clean_tree must be"),
        ({**IMPLEMENT, "backend": {"nam": "x"}}, "backend.nam is no known key"),
        ({**IMPLEMENT, "backend": {"timeout_s": "x"}}, "backend.timeout_s must be"),
        ({**IMPLEMENT, "backend": 5}, "backend must be a table"),
        ({**DOCS, "permissions": "read-only"}, "a read-only phase cannot write"),
        ({**GATE, "commands": ["make || true"]}, "commands: `make || true`"),
        ("implement", "must be a table"),
    ],
)
def test_a_phase_that_is_wrong_is_told_by_name_or_number(table: Any, words: str) -> None:
    found = problems(IMPLEMENT, table)
    assert any(words in problem for problem in found), found
    assert all(problem.startswith("phase ") for problem in found)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ([], "at least one"),
        ([GATE], "no step does the work"),
        ([IMPLEMENT, IMPLEMENT], "two phases are called 'implement'"),
        ([IMPLEMENT, {**REVIEW, "name": "r1"}, {**REVIEW, "name": "r2"}], "one phase of the kind"),
        ([IMPLEMENT, {"name": "prepare", "kind": "setup"}], "setup must be the first"),
        ([IMPLEMENT, PUBLISH, GATE], "publish must be the last"),
        ([GATE, IMPLEMENT], "has no work yet"),
        ([{**IMPLEMENT, "writes": ["a"]}], "ownsFiles limits"),
        ([IMPLEMENT, REVIEW, {"name": "docs", "kind": "agent"}], "may change approved work"),
        ([IMPLEMENT, {**REVIEW, "repair": ["nobody"]}], "names 'nobody'"),
        ([IMPLEMENT, {**REVIEW, "repair": ["gate", "address"]}], "one agent, then optional gates"),
        ([IMPLEMENT, PR, {**REVIEW, "repair": ["pr-description"]}], "may not write"),
        ([IMPLEMENT] * (MAX_PHASES + 1), "at most"),
    ],
)
def test_phases_that_do_not_go_together_are_told(tables: Any, words: str) -> None:
    assert any(words in problem for problem in problems(*tables))


def test_everything_that_is_wrong_is_told_at_once() -> None:
    found = problems({"name": "a"}, {**IMPLEMENT, "retries": "x", "effort": 3}, 5)
    assert len(found) == 4
