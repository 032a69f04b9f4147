"""The small pure decisions that all our adapters share."""

from __future__ import annotations

import pytest

from driver.agent_cli import item_of, phase_of, tail
from driver.agent_driver import Usage, WorkerRequest
from driver.token_meter import TokenMeter


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("  short \n", "short"),
        ("one\ntwo two\nthree", "... three"),
        ("x" * 30, "... " + "x" * 10),
    ],
)
def test_the_end_of_a_text_starts_at_a_line_where_it_can(text: str, expected: str) -> None:
    assert tail(text, 10) == expected


@pytest.mark.parametrize(
    ("environment", "label", "expected"),
    [
        ({"TIDEGATE_ITEM": "a"}, "dispatch:b", "a"),
        ({}, "dispatch:b", "b"),
        ({}, "b", "b"),
        ({}, None, ""),
    ],
)
def test_the_engine_names_the_item_and_else_the_label_does(
    environment: dict[str, str], label: str | None, expected: str
) -> None:
    request = WorkerRequest("p", label=label, environment=environment)
    assert item_of(request) == expected


@pytest.mark.parametrize(
    ("environment", "phase", "expected"),
    [
        ({"TIDEGATE_PHASE": "repair"}, "build", "repair"),
        ({}, "repair", "repair"),
        ({}, None, "build"),
    ],
)
def test_a_dispatch_is_a_build_unless_said_otherwise(
    environment: dict[str, str], phase: str | None, expected: str
) -> None:
    assert phase_of(WorkerRequest("p", phase=phase, environment=environment)) == expected


def test_half_known_use_is_unknown_use() -> None:
    meter = TokenMeter()
    for usage in (Usage(1, None), Usage(None, 1), Usage(2, 3), Usage(0, 0)):
        meter.add(usage)
    assert (meter.known, meter.unmetered) == (5, 2)
