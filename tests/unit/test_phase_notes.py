"""Phases that no other event shows become events once they have lasted a while."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from driver.run_state.phase_notes import WRITTEN_AFTER_S, PhaseNotes
from state_store.views.item_progress import PROVIDER, ROOM, SET_UP, TOGETHER
from tests.support.manual_clock import ManualClock

SLUG = "a"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def notes(clock: ManualClock) -> PhaseNotes:
    return PhaseNotes(lambda: clock.wall_s)


def test_a_phase_is_written_once_and_only_after_a_while(
    notes: PhaseNotes, clock: ManualClock
) -> None:
    notes.enter(SLUG, SET_UP, "npm ci")
    began = clock.wall_s
    assert notes.due() == []
    clock.pass_by(WRITTEN_AFTER_S)
    assert notes.due() == [{"slug": SLUG, "phase": SET_UP, "since": began, "why": "npm ci"}]
    assert notes.due() == []


def test_a_phase_that_an_event_has_ended_is_not_written(
    notes: PhaseNotes, clock: ManualClock
) -> None:
    notes.enter(SLUG, SET_UP)
    notes.passed(SLUG)
    clock.pass_by(60)
    assert notes.due() == []


@pytest.mark.parametrize(
    ("begin", "end", "phase"),
    [
        (lambda n: n.provider(True, "429"), lambda n: n.provider(False, "again"), PROVIDER),
        (lambda n: n.enter_wave(TOGETHER), lambda n: n.leave_wave(), TOGETHER),
    ],
)
def test_a_phase_of_the_wave_has_an_end_if_its_beginning_was_written(
    notes: PhaseNotes,
    clock: ManualClock,
    begin: Callable[[PhaseNotes], None],
    end: Callable[[PhaseNotes], None],
    phase: str,
) -> None:
    begin(notes)
    end(notes)
    clock.pass_by(5)
    assert notes.due() == []
    begin(notes)
    clock.pass_by(5)
    assert [note["phase"] for note in notes.due()] == [phase]
    end(notes)
    assert notes.due() == [{"phase": None, "since": clock.wall_s}]


def test_an_item_that_waited_for_room_goes_on(notes: PhaseNotes, clock: ManualClock) -> None:
    notes.room(SLUG, None)
    clock.pass_by(5)
    assert [note["phase"] for note in notes.due()] == [ROOM]
    notes.room(SLUG, "build")
    clock.pass_by(5)
    assert [note["phase"] for note in notes.due()] == ["build"]


def test_an_item_that_another_run_has_ends_at_once(notes: PhaseNotes, clock: ManualClock) -> None:
    notes.ended(SLUG, "leased_elsewhere")
    known = {"slug": SLUG, "phase": None, "since": clock.wall_s, "verdict": "leased_elsewhere"}
    assert notes.due() == [known]


def test_a_wave_that_is_over_has_no_phases(notes: PhaseNotes, clock: ManualClock) -> None:
    notes.enter(SLUG, SET_UP)
    notes.close()
    notes.enter_wave(TOGETHER)
    clock.pass_by(60)
    assert notes.due() == []


def test_every_change_wakes_the_screen(notes: PhaseNotes) -> None:
    changes: tuple[Callable[[], None], ...] = (
        lambda: notes.enter(SLUG, SET_UP),
        lambda: notes.passed(SLUG),
        lambda: notes.enter_wave(TOGETHER),
        notes.leave_wave,
    )
    for change in changes:
        notes.changed.clear()
        change()
        assert notes.changed.is_set()
