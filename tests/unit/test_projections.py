"""Views are pure folds: unknown things are passed over, and what nobody knows stays unknown."""

from __future__ import annotations

from typing import Any

import pytest

from state_store.database.projections import (
    apply_tracker,
    project_agent_lifecycle,
    project_agent_traces,
    project_orchestrator_status,
    project_tracker,
    project_wave,
)
from state_store.documents.item_id import id_of

T0 = 1_000_000_000.0
AT = "2001-09-09T01:46:40Z"


def events(*pairs: tuple[str, Any]) -> list[dict[str, Any]]:
    return [
        {"id": n, "ts": T0, "actor": "a", "stream": "s", "type": kind, "payload": it, "version": n}
        for n, (kind, it) in enumerate(pairs, start=1)
    ]


def test_items_are_created_updated_and_archived_in_the_order_first_seen() -> None:
    view = project_tracker(
        events(
            ("item_created", {"id": "b", "status": "todo", "x": {"deep": 1}}),
            ("item_created", {"id": "a", "status": "todo"}),
            ("item_updated", {"id": "b", "status": "done"}),
            ("item_archived", {"id": "a", "completed_at": "then", "reason": "r"}),
            ("item_fields_removed", {"id": "b", "fields": ["x", "id", "never"]}),
        )
    )
    archived = {"id": "a", "status": "archived", "completed_at": "then"}
    assert view == {"version": 1, "items": [{"id": "b", "status": "done"}, archived]}


def test_an_archived_item_has_the_time_of_its_event_when_none_is_given() -> None:
    view = project_tracker(events(("item_created", {"id": "a"}), ("item_archived", {"id": "a"})))
    assert view["items"] == [{"id": "a", "status": "archived", "completed_at": AT}]


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("item_exploded", {"id": "a", "status": "gone"}),
        ("item_updated", {"id": "other", "status": "gone"}),
        ("item_archived", {"id": "other"}),
        ("item_updated", {"status": "gone"}),
        ("item_updated", ["a"]),
        ("item_updated", None),
        ("item_created", {"id": " "}),
        ("item_fields_removed", {"id": "a", "fields": "status"}),
    ],
)
def test_what_is_not_understood_changes_nothing(kind: str, payload: Any) -> None:
    view = project_tracker(events(("item_created", {"id": "a", "status": "todo"}), (kind, payload)))
    assert view["items"] == [{"id": "a", "status": "todo"}]


def test_a_second_creation_adds_what_is_missing_and_resets_nothing() -> None:
    first, second = {"id": "a", "status": "done"}, {"id": "a", "status": "todo", "prompt": "p"}
    view = project_tracker(events(("item_created", first), ("item_created", second)))
    assert view["items"] == [{"id": "a", "status": "done", "prompt": "p"}]


def test_a_fold_changes_nothing_it_was_given() -> None:
    item: dict[str, Any] = {"id": "a", "p": 1}
    (event,) = events(("item_updated", {"id": "a", "p": 2}))
    assert apply_tracker(item, event) == {"id": "a", "p": 2}
    assert (item, event["payload"]) == ({"id": "a", "p": 1}, {"id": "a", "p": 2})
    (other,) = events(("item_created", {"id": "a", "p": 3}))
    assert apply_tracker(item, other) is item


@pytest.mark.parametrize(
    ("found", "name"),
    [("a", "a"), (7, "7"), (True, None), ("", None), (" ", None), (1.5, None), (10**18, None)],
)
def test_an_id_is_a_text_or_a_whole_number(found: Any, name: str | None) -> None:
    assert id_of({"id": found}) == name


def test_the_life_of_each_agent_is_told_in_order() -> None:
    view = project_agent_lifecycle(
        events(
            ("agent_dispatched", {"agent_id": "b", "timestamp": 1}),
            ("agent_dispatched", {"agent_id": "a", "timestamp": 2}),
            ("agent_working", {"agent_id": "b", "timestamp": 3}),
            ("agent_stalled", {"agent_id": "b", "timestamp": 4}),
            ("agent_done", {"agent_id": "a", "timestamp": 5}),
            ("agent_exploded", {"agent_id": "a", "timestamp": 6}),
            ("agent_done", {"timestamp": 6}),
            ("agent_completed", {"agent_id": "c"}),
        )
    )
    assert [(agent["id"], agent["state"], agent["last_activity"]) for agent in view["agents"]] == [
        ("a", "done", 5),
        ("b", "stalled", 4),
        ("c", "done", T0),
    ]
    assert view["agents"][1]["transitions"] == [
        {"state": "dispatch", "at": 1},
        {"state": "working", "at": 3},
        {"state": "stalled", "at": 4},
    ]


def test_the_status_has_the_newest_phase_and_steps_and_all_decisions_and_findings() -> None:
    view = project_orchestrator_status(
        events(
            ("phase_changed", {"phase": "plan"}),
            ("decision_locked", {"decision": "d1", "why": "w"}),
            ("next_steps_updated", {"steps": ["old"]}),
            ("audit_findings_recorded", {"findings": ["f1", {"rule": "r"}]}),
            ("phase_set", {"phase": "build"}),
            ("phase_changed", {"phase": 3}),
            ("decision_locked", {"decision": "d2"}),
            ("next_steps_updated", {"steps": ["new"]}),
            ("decision_locked", "not an object"),
        )
    )
    assert view == {
        "version": 1,
        "phase": "build",
        "phase_since": AT,
        "cycle": None,
        "decisions": [{"decision": "d1", "why": "w", "at": AT}, {"decision": "d2", "at": AT}],
        "next_steps": ["new"],
        "findings": [{"finding": "f1", "at": AT}, {"finding": {"rule": "r"}, "at": AT}],
    }


def test_what_people_set_stays_the_phase_whatever_a_cycle_does() -> None:
    cycle = ("phase_changed", {"phase": "dispatch", "cycle": "w1"})
    newest = {"phase": "dispatch", "wave_id": "w1", "since": AT}
    alone = project_orchestrator_status(events(cycle))
    assert (alone["phase"], alone["cycle"]) == ("dispatch", newest)
    both = project_orchestrator_status(events(("phase_set", {"phase": "build"}), cycle))
    assert (both["phase"], both["cycle"]) == ("build", newest)


def test_an_item_on_its_way_out_shows_branch_and_commit() -> None:
    where = {"slug": "s", "commit": "c1", "branch": "wave/x"}
    on_its_way = [("item_shipping", where)]
    (item,) = project_wave(events(*on_its_way))["items"]
    assert (item["phase"], item["commit"], item["branch"]) == ("shipping", "c1", "wave/x")
    view = project_wave(events(*on_its_way, ("item_shipped", {"slug": "s", "commit": "c1"})))
    assert view["items"][0] == {**item, "phase": "shipped"}
    assert view["shipped"] == ["s"]


def test_a_trace_joins_what_dispatch_and_end_say() -> None:
    dispatched = {"agent_id": "w1", "item": "i", "backend": "b", "model": "m", "attempt": 1}
    used = {"agent_id": "w1", "tokens_in": 10, "tokens_out": 5, "cost_usd": 0.5, "duration_s": 2}
    view = project_agent_traces(
        events(
            ("agent_dispatched", dispatched), ("agent_completed", {**used, "verdict": "verified"})
        )
    )
    (trace,) = view["agents"]
    assert trace == {
        "id": "w1",
        "state": "completed",
        "item": "i",
        "wave": None,
        "attempt": 1,
        "phase": None,
        "backend": "b",
        "model": "m",
        "tokens_in": 10,
        "tokens_out": 5,
        "tokens": 15,
        "cost_usd": 0.5,
        "duration_s": 2,
        "verdict": "verified",
        "error": None,
        "started": AT,
        "ended": AT,
    }


def test_unknown_use_stays_unknown_and_is_counted() -> None:
    view = project_agent_traces(
        events(
            ("agent_dispatched", {"agent_id": "running"}),
            ("agent_completed", {"agent_id": "known", "tokens": 7, "cost_usd": 0.25}),
            ("agent_completed", {"agent_id": "free", "tokens": 0, "cost_usd": 0}),
            ("agent_failed", {"agent_id": "half", "tokens_in": 3, "error": "e"}),
            ("agent_failed", {"agent_id": "none", "tokens": None}),
        )
    )
    tokens = {trace["id"]: trace["tokens"] for trace in view["agents"]}
    assert tokens == {"running": None, "known": 7, "free": 0, "half": None, "none": None}
    totals = view["totals"]
    assert (totals["tokens"], totals["cost_usd"], totals["duration_s"]) == (7, 0.25, None)
    assert (totals["dispatches"], totals["running"]) == (5, 1)
    assert (totals["unmetered"], totals["unpriced"]) == (2, 2)


def test_nothing_known_is_not_zero() -> None:
    assert project_agent_traces([])["totals"]["tokens"] is None


def test_a_wave_shows_where_each_item_stands() -> None:
    view = project_wave(
        events(
            ("wave_started", {"wave_id": "w", "items": ["a", "b", "c"]}),
            ("attempt_started", {"slug": "a", "number": 1, "phase": "build"}),
            ("attempt_started", {"slug": "b", "number": 1}),
            ("attempt_judged", {"slug": "a", "number": 1, "verdict": "failed", "reason": "red"}),
            ("attempt_started", {"slug": "a", "number": 2, "phase": "repair"}),
            ("attempt_judged", {"slug": "a", "number": 2, "verdict": "verified", "reason": ""}),
            ("item_settled", {"slug": "c", "verdict": "halted", "reason": "stop"}),
            ("item_shipped", {"slug": "a", "commit": "abc"}),
            ("wave_finished", {"abort_reason": "halted"}),
            ("item_exploded", {"slug": "a"}),
        )
    )
    items = {item["slug"]: (item["phase"], item["verdict"]) for item in view["items"]}
    assert items == {"a": ("shipped", "verified"), "b": ("build", None), "c": ("settled", "halted")}
    assert [attempt["verdict"] for attempt in view["items"][0]["attempts"]] == [
        "failed",
        "verified",
    ]
    assert (view["started"], view["finished"]) == (AT, AT)
    assert (view["aborted"], view["abort_reason"], view["shipped"]) == (True, "halted", ["a"])


def test_a_wave_that_was_killed_has_no_end() -> None:
    view = project_wave(events(("wave_started", {"wave_id": "w", "items": []})))
    assert (view["finished"], view["aborted"]) == (None, None)
