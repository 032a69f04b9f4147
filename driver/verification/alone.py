"""Repeats a red run alone if it took place beside others that may have disturbed it, by a port, a
file or a database. A command that is red beside others and green alone runs alone from then on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from driver.domain.results import RunKind, TestName, TestRun
from driver.run_state.context import Wave
from driver.run_state.test_turns import Alone
from state_store.values.lazy_pattern import lazy_pattern

DISTURBED = "red beside other test runs, then green alone"
_LEARNED = (
    "`{}` was red beside other test runs and green alone: from now on its runs wait for each other;"
    " [verify] exclusive = true does so for all tests"
)
_SETTINGS = (
    "changed in your home since the wave began, and hidden from its tests: {}; look at the files"
    " before the next wave"
)
_MAY_BE_DISTURBED = (RunKind.RED, RunKind.TIMED_OUT)
# What programs print that find a port, a file or a database in use.
_IN_USE = lazy_pattern(
    r"address already in use|EADDRINUSE|only one usage of each socket|BindException"
    r"|(?:port|socket|address)\b.{0,40}\b(?:in use|is taken|already)|cannot bind|could not bind"
    r"|unable to bind|failed to bind|database is locked|database table is locked|EBUSY"
    r"|resource busy|device or resource busy|resource temporarily unavailable|text file busy"
    r"|already (?:running|locked)|(?:acquire|obtain|get) (?:a |the )?(?:\w+ )?lock"
    r"|blocking waiting for file lock|used by another process",
    re.IGNORECASE,
)


def room_needed(run: TestRun, test: TestName) -> Alone:
    """The room for a rerun of a run that others may have disturbed; NO if it was not disturbed."""
    if run.kind not in _MAY_BE_DISTURBED or not run.beside:
        return Alone.NO
    took_longer = run.kind is RunKind.TIMED_OUT and beside_proof(test) in run.beside
    return Alone.COMMAND if test in run.beside or took_longer else room_of_a_clash(run)


def beside_proof(test: TestName) -> TestName:
    """The name of the canary run beside the proof. With another name than the proof's, it makes no
    red proof doubtful; but two runs may take longer than one."""
    folder, command = test
    return folder, f"{command} # beside its proof"


def room_of_a_clash(run: TestRun) -> Alone:
    """The room for a rerun of a red run whose output says that something was in use; NO else."""
    clashed = run.kind in _MAY_BE_DISTURBED and run.beside and _IN_USE.search(run.output)
    return Alone.ALL if clashed else Alone.NO


def settled(
    wave: Wave,
    test: TestName,
    once: Callable[[Alone], TestRun],
    needed: Callable[[TestRun, TestName], Alone] = room_needed,
) -> TestRun:
    """The run that `once` makes with the room that it is given; repeated alone if others may have
    disturbed it, or if settings in the user's home changed during the run."""
    before = wave.home.changed()
    run = once(Alone.NO)
    if (now := wave.home.changed()) != before:  # settings of the home changed meanwhile
        run = once(Alone.NO)
    if paths := wave.home.unreported(now):
        wave.recorder.say(_SETTINGS.format(", ".join(paths)))
    room = needed(run, test)
    if room is Alone.NO or wave.gates.stop.is_set:
        return run
    again = once(room)
    return learned(wave, test, room, again) if again.green else again


def learned(wave: Wave, test: TestName, room: Alone, run: TestRun) -> TestRun:
    """The green run of a test that was red beside others, with the reason; the command is learned,
    and people are told once."""
    if wave.turns.learn(test, room):
        wave.recorder.say(_LEARNED.format(run.command))
    return replace(run, reason=DISTURBED)
