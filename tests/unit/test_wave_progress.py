"""The progress of a wave is a fold of its events, whole or event by event."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from state_store.api import StateAPI
from state_store.views.item_progress import DONE, RUNNING, SET_UP, TEST, TOGETHER, WAITING
from state_store.views.wave_progress import WaveProgress, fold, later_events, read_progress

T0 = 1_000_000_000.0
WAVE = "wave:w"
TRACES = "agent_traces"
Entry = tuple[str, str, dict[str, Any]]

BEGIN: Entry = (WAVE, "wave_started", {"wave_id": "w", "items": ["a", "b"]})
CHANGED = {"inputTree": "1", "outputTree": "2"}
BUILT = {"phase": "implement", "kind": "agent", "role": "agent", "status": "completed", **CHANGED}
GATE = {"phase": "gate", "kind": "gate", "role": "gate", "durationMs": 0}
PASSED = {**GATE, "status": "completed"}
TO_REPAIR = {**GATE, "status": "repair"}


def dispatched(slug: str, phase: str = "build", number: int = 1) -> list[Entry]:
    agent = {"agent_id": f"w/{slug}/{number}", "item": slug, "wave": "w", "attempt": number}
    begun = (WAVE, "attempt_started", {"slug": slug, "number": number, "phase": phase})
    traced = (TRACES, "agent_dispatched", {**agent, "phase": phase, "backend": "claude"})
    return [begun, traced] if phase in ("build", "repair") else [traced]


def billed(slug: str, number: int = 1, **use: Any) -> Entry:
    return (
        TRACES,
        "agent_billed",
        {"agent_id": f"w/{slug}/{number}", "item": slug, "wave": "w", **use},
    )


def receipt(slug: str, facts: dict[str, Any]) -> Entry:
    return WAVE, "phase_finished", {"slug": slug, **facts}


def judged(slug: str, verdict: str, number: int = 1) -> Entry:
    return WAVE, "attempt_judged", {"slug": slug, "number": number, "verdict": verdict}


def at_each_second(*entries: Entry) -> list[dict[str, Any]]:
    return [
        {"id": n, "ts": T0 + n, "stream": stream, "type": kind, "payload": payload}
        for n, (stream, kind, payload) in enumerate(entries)
    ]


def progress(*entries: Entry) -> WaveProgress:
    return fold("w", at_each_second(*entries))


def spans(found: WaveProgress, slug: str) -> list[tuple[str, float, float | None]]:
    return [
        (s.phase, s.started - T0, None if s.ended is None else s.ended - T0)
        for s in found.items[slug].spans
    ]


def test_an_item_goes_from_its_agent_to_its_test_to_its_verdict() -> None:
    before = progress(BEGIN)
    assert [item.state for item in before.items.values()] == [WAITING, WAITING]
    building = progress(BEGIN, *dispatched("a"))
    assert (building.items["a"].state, building.items["a"].phase) == (RUNNING, "build")
    testing = progress(BEGIN, *dispatched("a"), receipt("a", BUILT))
    assert testing.items["a"].phase == TEST
    done = progress(
        BEGIN, *dispatched("a"), receipt("a", BUILT), judged("a", "verified"), receipt("a", PASSED)
    )
    assert (done.items["a"].state, done.items["a"].phase) == (DONE, "verified")
    assert spans(done, "a") == [("build", 1, 3), (TEST, 3, 5)]
    assert (done.count(DONE), done.count(WAITING)) == (1, 1)


def test_a_failed_attempt_that_is_repaired_is_not_the_end() -> None:
    first = (*dispatched("a"), receipt("a", BUILT), judged("a", "failed"), receipt("a", TO_REPAIR))
    between = progress(BEGIN, *first)
    assert (between.items["a"].state, between.items["a"].verdict) == (RUNNING, "failed")
    again = progress(BEGIN, *first, *dispatched("a", "repair", 2))
    found = again.items["a"]
    assert (found.phase, found.repairs, found.attempt, found.verdict) == ("repair", 1, 2, None)
    assert [phase for phase, *_ in spans(again, "a")] == ["build", TEST, "repair"]


def test_an_attempt_that_no_repair_follows_is_the_end() -> None:
    stalled = {**GATE, "status": "stalled"}
    found = progress(
        BEGIN, *dispatched("a"), receipt("a", BUILT), judged("a", "failed"), receipt("a", stalled)
    )
    assert (found.items["a"].state, found.items["a"].phase) == (DONE, "failed")


def test_no_test_is_shown_between_two_agents_that_follow_each_other() -> None:
    found = progress(BEGIN, *dispatched("a"), receipt("a", BUILT), *dispatched("a", "polish"))
    assert spans(found, "a") == [("build", 1, 3), ("polish", 4, None)]


def test_use_is_summed_and_what_is_unknown_is_counted() -> None:
    found = progress(
        BEGIN,
        *dispatched("a"),
        billed("a", tokens=10, cost_usd=0.1, model="m"),
        billed("a", tokens=5, cost_usd=None),
        (TRACES, "agent_completed", {"agent_id": "w/a/1", "item": "a", "wave": "w", "tokens": 15}),
        (TRACES, "agent_billed", {"agent_id": "v/a/1", "item": "a", "wave": "v", "tokens": 99}),
    )
    item = found.items["a"]
    assert (item.tokens, item.cost_usd, item.unmetered, item.unpriced) == (15, 0.1, 0, 1)
    assert (found.tokens, found.cost_usd, found.is_lower_bound) == (15, 0.1, True)
    assert (item.backend, item.model) == ("claude", "m")


def test_items_that_are_being_shipped_count_as_done() -> None:
    done = [*dispatched("a"), (WAVE, "item_settled", {"slug": "a", "verdict": "verified"})]
    shipping = (WAVE, "item_shipping", {"slug": "a", "commit": "c", "branch": "b"})
    before, found = progress(BEGIN, *done), progress(BEGIN, *done, shipping)
    assert found.items["a"].phase == "shipping"
    counts = [(one.count(DONE), one.count(RUNNING), one.count(WAITING)) for one in (before, found)]
    assert counts == [(1, 0, 1), (1, 0, 1)]


def test_without_bills_the_use_of_an_agents_end_counts() -> None:
    end = {"agent_id": "w/a/1", "item": "a", "wave": "w", "tokens": 7, "cost_usd": 0.5}
    found = progress(BEGIN, *dispatched("a"), (TRACES, "agent_failed", end))
    assert (found.tokens, found.cost_usd) == (7, 0.5)


def test_phases_that_only_their_own_event_shows() -> None:
    set_up = {"slug": "a", "phase": SET_UP, "since": T0 + 0.5}
    found = progress(BEGIN, (WAVE, "phase_entered", set_up), *dispatched("a"))
    assert spans(found, "a") == [(SET_UP, 0.5, 2), ("build", 2, None)]
    together = (WAVE, "phase_entered", {"phase": TOGETHER, "since": T0, "why": "2 items"})
    during = progress(BEGIN, together)
    assert during.span is not None
    assert (during.span.phase, during.span.why) == (TOGETHER, "2 items")
    assert progress(BEGIN, together, (WAVE, "phase_entered", {"since": T0 + 1})).span is None


def test_the_end_of_a_wave_ends_everything_in_it() -> None:
    end = (WAVE, "wave_finished", {"aborted": True, "abort_reason": "halted"})
    found = progress(BEGIN, *dispatched("a"), end)
    assert (found.finished, found.aborted, found.abort_reason) == (T0 + 3, True, "halted")
    assert spans(found, "a") == [("build", 1, 3)]
    assert found.count(DONE) == 2
    late = (WAVE, "phase_entered", {"slug": "a", "phase": SET_UP})
    assert progress(BEGIN, *dispatched("a"), end, late).count(DONE) == 2


def test_a_resumed_wave_begins_again_and_keeps_its_use() -> None:
    use = billed("a", tokens=10, cost_usd=0.0)
    found = progress(BEGIN, *dispatched("a"), use, BEGIN)
    assert (found.items["a"].state, found.tokens, found.finished) == (WAITING, 10, None)
    assert spans(found, "a") == [("build", 1, 3)]


def test_shipped_items_and_ceilings() -> None:
    begin = {"wave_id": "w", "items": ["a"], "ceilings": {"usd": 4, "x": "?"}, "queued": 3}
    shipping = {"slug": "a", "commit": "c", "branch": "wave/x"}
    found = progress(
        (WAVE, "wave_started", begin),
        (WAVE, "item_shipping", shipping),
        (WAVE, "item_shipped", {"slug": "a", "commit": "c"}),
    )
    assert (found.ceilings, found.queued) == ({"usd": 4}, 3)
    item = found.items["a"]
    assert (item.phase, item.commit, item.branch) == ("shipped", "c", "wave/x")


@pytest.mark.parametrize(
    "entry",
    [
        (WAVE, "item_exploded", {"slug": "a"}),
        (WAVE, "attempt_judged", {"slug": 7}),
        ("wave:other", "item_shipped", {"slug": "a"}),
        (TRACES, "agent_billed", {"wave": "w"}),
        (TRACES, "agent_working", {"wave": "w", "item": "a"}),
        (WAVE, "item_shipped", None),
    ],
)
def test_what_is_not_understood_changes_no_state(entry: Entry) -> None:
    before, after = progress(BEGIN).to_json(), progress(BEGIN, entry).to_json()
    before["items"][0].pop("seen")
    after["items"][0].pop("seen")
    assert before == after


def test_a_progress_that_is_continued_equals_one_read_at_once(tmp_path: Path) -> None:
    with StateAPI(tmp_path / "tracker_events.db") as api:
        api.append("wave:v", "wave_started", {"wave_id": "v", "items": ["z"]})
        entries = [BEGIN, *dispatched("a"), billed("a", tokens=3), judged("a", "verified")]
        for stream, kind, payload in entries[:2]:
            api.append(stream, kind, payload)
        found = read_progress(api.store, "w")
        assert found.items["a"].phase == "build"
        for stream, kind, payload in [*entries[2:], (WAVE, "wave_finished", {"aborted": False})]:
            api.append(stream, kind, payload)
        for event in later_events(api.store, found):
            found.apply(event)
        api.append("agent_traces", "agent_billed", {"wave": "w", "item": "a", "tokens": 1})
        assert found.to_json() == read_progress(api.store, "w").to_json()
        assert found.tokens == 3
        assert read_progress(api.store, "nothing").items == {}
