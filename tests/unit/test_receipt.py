"""Receipts are written and read back whole, and nothing else is taken for one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from driver.domain.results import (
    SPOT_CHECK,
    Attempt,
    Evidence,
    RunKind,
    TestRun,
    Verdict,
    receipts_of_evidence,
)
from driver.runners.result import Counts, Doubt

RUN = TestRun(
    kind=RunKind.RED,
    command="pytest -q",
    exit_code=1,
    output="",
    duration_s=1.25,
    tree="1" * 40,
    output_file="/somewhere/test-1.out",
    reason="test failed with exit 1",
    purpose=SPOT_CHECK,
    base="2" * 40,
    work_dir="sub",
    environment=("HOME", "PATH"),
    sandbox="none",
    output_digest="3" * 64,
    counts=Counts("pytest", 3, 1, 2),
)


@pytest.mark.parametrize(
    "run",
    [
        RUN,
        replace(RUN, counts=None, tree=None, output_file=None, output_digest=None, reason=""),
        replace(RUN, counts=Doubt("pytest", "its closing summary is missing"), exit_code=None),
    ],
)
def test_a_receipt_is_read_back_as_it_was(run: TestRun) -> None:
    told = json.loads(json.dumps(run.to_json()))
    assert TestRun.from_json(told) == run


@pytest.mark.parametrize(
    "change",
    [{"kind": "blue"}, {"durationS": "long"}, {"counts": 3}, {"environment": None}],
)
def test_what_is_no_receipt_is_none(change: dict[str, Any]) -> None:
    told = RUN.to_json()
    assert TestRun.from_json({**told, **change}) is None
    assert TestRun.from_json({}) is None
    del told["tree"]
    assert TestRun.from_json(told) is None


def test_no_output_and_no_value_of_the_environment_is_in_a_receipt() -> None:
    told = replace(RUN, output="secret").to_json()
    assert "secret" not in json.dumps(told)


def test_the_evidence_lists_the_runs_in_the_order_of_the_questions() -> None:
    runs = [replace(RUN, command=name) for name in ("base", "proof", "reverted", "canary", "spot")]
    found = Evidence(runs[0], reverted=runs[2], canaries=(runs[3],), spot_checks=(runs[4],))
    attempt = Attempt(1, "build", Verdict.VERIFIED, test=runs[1], evidence=found)
    told = attempt.evidence_json()
    assert [one["command"] for one in told["receipts"]] == [run.command for run in runs]


@pytest.mark.parametrize(
    "told", [None, "x", 7, [], {}, {"receipts": None}, {"receipts": "x"}, {"receipts": [7, {}]}]
)
def test_evidence_of_an_odd_shape_holds_no_receipt(told: object) -> None:
    assert receipts_of_evidence(told) == []
