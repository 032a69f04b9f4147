"""What past waves have in common, from views: each kind of finding, and what is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from driver.backlog.order import filter_todo_items
from driver.reports.summary_lines import summary_lines
from driver.scheduler.audit_rules import (
    FAILING_ITEM,
    FLAKY_TEST,
    RED_BASELINE,
    REFUSED_CHANGE,
    SLOW_BACKEND,
    STALE_CLAIM,
    UNMETERED_BACKEND,
    Finding,
    Past,
    audit,
    red_alone,
)
from state_store.views.findings import apply_findings

Json = dict[str, Any]
KINDS = (
    *(FAILING_ITEM, FLAKY_TEST, RED_BASELINE, REFUSED_CHANGE, SLOW_BACKEND, STALE_CLAIM),
    UNMETERED_BACKEND,
)


def judged(
    slug: str, verdict: str, *, final: str | None = None, test: str = "make test", **evidence: Any
) -> Json:
    found = {"flaky": False, "baseline": "green", "receipts": [{"command": test}], **evidence}
    attempt = {"number": 1, "verdict": verdict, "reason": f"why {slug}", "evidence": found}
    return {"slug": slug, "phase": "judged", "verdict": final, "reason": None} | {
        "attempts": [attempt]
    }


def shipped(slug: str, **evidence: Any) -> Json:
    return {**judged(slug, "verified", **evidence), "phase": "shipped"}


def wave(name: str, *items: Json) -> Json:
    return {"wave_id": name, "started": "t", "items": list(items)}


def trace(name: str, duration_s: float = 10.0, **more: Any) -> Json:
    usual = {"backend": "b", "model": "m", "tokens": 5, "verdict": "verified", "ended": "t"}
    return {**usual, "wave": name, "duration_s": duration_s, **more}


def kinds(past: Past) -> list[tuple[str, str]]:
    return [(finding.kind, finding.subject) for finding in audit(past).values()]


def todo(**fields: Any) -> Json:
    return {"id": "T", "slug": "t", "status": "todo", "attempts": 3, "lastError": "red", **fields}


@pytest.mark.parametrize(
    ("past", "found"),
    [
        (Past(), []),
        (Past([wave("w", shipped("a"))]), []),
        (Past([wave("w", judged("a", "failed"))]), []),
        (Past([wave("w", judged("a", "flaky", flaky=True))]), [(FLAKY_TEST, "make test")]),
        (Past([wave("w", shipped("a", flaky=True))]), [(FLAKY_TEST, "make test")]),
        (Past([wave("w", judged("a", "verified", final="flaky"))]), [(FLAKY_TEST, "make test")]),
        (Past([wave("w", judged("a", "flaky", receipts=None))]), [(FLAKY_TEST, "a")]),
        (
            Past([wave("v", judged("a", "flaky")), wave("w", judged("b", "flaky"))]),
            [(FLAKY_TEST, "make test")],
        ),
        (Past(items=[todo()]), [(FAILING_ITEM, "T")]),
        (Past(items=[todo(id=7)]), [(FAILING_ITEM, "7")]),
        (Past(items=[todo(attempts=2)]), []),
        (Past(items=[todo(attempts="9")]), []),
        (Past(items=[todo(lastError=None)]), []),
        (Past(items=[todo(status="in_progress")]), []),
        (Past([wave("w", judged("a", "refused"))]), [(REFUSED_CHANGE, "a")]),
        (Past([wave("w", judged("t", "refused"))], items=[todo(attempts=1)]),
         [(REFUSED_CHANGE, "T")]),
        (Past([wave("v", judged("a", "refused")), wave("w", shipped("a"))]), []),
        (Past([wave("v", judged("a", "refused")), wave("w", judged("a", "failed"))]), []),
        (Past([wave("v", judged("a", "refused")), wave("w", shipped("b"))]),
         [(REFUSED_CHANGE, "a")]),
        (
            Past([wave("w")], [*[trace("v")] * 4, trace("w", 60), trace("w", 60)]),
            [(SLOW_BACKEND, "b (m)")],
        ),
        (Past([wave("w")], [*[trace("v")] * 3, trace("w", 60), trace("w", 60)]), []),
        (Past([wave("w")], [*[trace("v")] * 4, trace("w", 60)]), []),
        (Past([wave("w")], [*[trace("v", 50)] * 4, trace("w", 90), trace("w", 90)]), []),
        (Past([wave("w")], [*[trace("v", 1)] * 4, trace("w", 9), trace("w", 9)]), []),
        (
            Past([wave("w")], [*[trace("v", model="x")] * 4, trace("w", 60), trace("w", 60)]),
            [],
        ),
        (Past(traces=[trace("w", tokens=None, model=None)]), [(UNMETERED_BACKEND, "b")]),
        (Past(traces=[trace("v", tokens=None), trace("w")]), []),
        (Past(traces=[trace("w", tokens=None, verdict="halted")]), []),
        (Past(traces=[trace("w", tokens=None, ended=None)]), []),
        (Past(traces=[trace("w", tokens=None, backend=None)]), []),
        (Past([wave("w", judged("a", "failed", baseline="timed_out"))]),
         [(RED_BASELINE, "make test")]),
        (Past([wave("w", judged("a", "failed", baseline="red"))]), []),
        (
            Past([wave("w", *(judged(slug, "failed", baseline="red") for slug in "ab"))]),
            [(RED_BASELINE, "make test")],
        ),
        (
            Past([wave("w", *(judged(s, "failed", baseline="red", test=s) for s in "ab"))]),
            [],
        ),
        (Past(red_alone=["make all"]), [(RED_BASELINE, "make all")]),
        (Past(lapsed=["repo//a"]), [(STALE_CLAIM, "repo//a")]),
    ],
)  # fmt: skip
def test_a_finding_is_what_a_person_should_know_of(
    past: Past, found: list[tuple[str, str]]
) -> None:
    assert kinds(past) == found


def test_a_red_test_that_no_item_has_a_part_in_is_known_by_its_run() -> None:
    run = {"kind": "red", "command": "make all"}
    built = [
        {"verdict": "undecided", "together": [run, {**run, "kind": "green", "command": "x"}]},
        {"verdict": "failed", "together": [{**run, "command": "y"}]},
        {"verdict": "undecided"},
    ]
    assert red_alone({"built": built}) == ("make all",)
    assert red_alone({}) == ()


def test_a_finding_is_the_same_one_however_often_and_in_whatever_words_it_is_found() -> None:
    one, two = Finding("k", "s", "in wave 1"), Finding("k", "s", "in wave 2")
    assert one.id == two.id
    assert len({one.id, Finding("k", "t", "").id, Finding("l", "s", "").id}) == 3


def test_a_proposed_item_is_nothing_that_a_wave_takes() -> None:
    proposed = Finding(FLAKY_TEST, "make test", "it is\nflaky \x1b[2J").as_item("2026-01-01")
    assert proposed["status"] == "proposed"
    assert proposed["title"] == "Make a test give one answer: make test"
    assert proposed["notes"] == "it is flaky \\x1b[2J"
    assert filter_todo_items([proposed]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_title_for_its_item(kind: str) -> None:
    assert "THE SUBJECT" in Finding(kind, "THE SUBJECT", "").as_item("")["title"]


def test_trouble_after_the_wave_is_told_at_its_end() -> None:
    report = {
        "wave": {"built": [{"slug": "a"}], "shipped": ["a"]},
        "audit_warning": "no audit",
        "checkpoint": {"warning": "no checkpoint"},
    }
    assert summary_lines(report) == ("shipped 1 of 1 item", "no audit", "no checkpoint")


def recorded(*findings: Any, gone: tuple[str, ...] = ()) -> Mapping[str, Any]:
    payload = {"findings": list(findings), "gone": list(gone)}
    return {"type": "audit_findings_recorded", "payload": payload}


def test_what_holds_are_the_audits_own_findings_that_are_not_gone() -> None:
    one, two = {"id": "audit-1"}, {"id": "audit-2", "text": "t"}
    holding = apply_findings({}, recorded(one, two, "by hand", {"id": "mine"}))
    assert holding == {"audit-1": one, "audit-2": two}
    holding = apply_findings(holding, recorded(gone=("audit-1", "unknown")))
    assert holding == {"audit-2": two}
    assert apply_findings(holding, {"type": "phase_set", "payload": {"gone": ["audit-2"]}})
    assert apply_findings(holding, {**recorded(), "payload": None}) == holding
