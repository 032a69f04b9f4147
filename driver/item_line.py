"""The way of one item from its place to its verdict; it waits for no other item."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

from driver.gates import CEILING, GateClosedError
from driver.ground import CLONE, IN_PLACE, Place
from driver.leasing import LeasedElsewhereError
from driver.outcome import Attempt, ItemOutcome, Verdict
from driver.phases.build import build, may_repair
from driver.phases.recovery import Remembered, recover
from driver.phases.repair import repair
from driver.stop import InterruptedWaveError
from driver.verdicts import of_ignored, review_missing
from driver.wave_context import Planned, Wave
from state_store.errors import TidegateError


def walk(planned: Planned, wave: Wave, attempts: list[Attempt], memory: Remembered) -> ItemOutcome:
    """One item, brought to a verdict. Never raises for anything that is the item's own matter.

    `attempts` is filled on the way, for whoever cannot wait for the end; `memory` is what an
    earlier run left of this piece of work.
    """
    try:
        return _walk(planned, wave, attempts, memory)
    except LeasedElsewhereError as lost:
        wave.recorder.say(f"{planned.slug}: {Verdict.LEASED_ELSEWHERE}: {lost}")
        return outcome_of(planned, Verdict.LEASED_ELSEWHERE, str(lost), attempts)
    except (GateClosedError, InterruptedWaveError) as stopped:
        verdict, reason = stopped_verdict(stopped), str(stopped)
    except TidegateError as error:
        verdict, reason = Verdict.UNDECIDED, str(error)
    except OSError as trouble:  # a set-up or another program took its files away
        verdict, reason = Verdict.UNDECIDED, f"its workspace cannot be used: {trouble}"
    except Exception as bug:  # noqa: BLE001 - one item's bug must not take the others' work along
        wave.recorder.say(f"{planned.slug}: {''.join(traceback.format_exception(bug))}")
        verdict, reason = Verdict.UNDECIDED, f"internal error: {bug!r}"
    return settle(planned, wave, outcome_of(planned, verdict, reason, attempts))


def _walk(planned: Planned, wave: Wave, attempts: list[Attempt], memory: Remembered) -> ItemOutcome:
    missing = review_missing(required=planned.policy.require_review, mode=wave.settings.review.mode)
    if missing is not None:
        return settle(planned, wave, outcome_of(planned, missing.verdict, missing.reason, attempts))
    wave.gates.check()
    wave.recorder.taken(wave.subject(planned))
    earned = recover(planned, wave, memory)
    if earned is not None:
        return earned
    if memory.attempts > planned.policy.repair_cap:
        reason = f"all {memory.attempts} attempts were used up before the wave was interrupted"
        return settle(planned, wave, outcome_of(planned, Verdict.FAILED, reason, attempts))
    wave.gates.check_dispatch()
    wave.baselines.begin(planned, wave)
    place = wave.ground_of(planned).place(planned.slug, planned.home.work_dir, planned.owned)
    try:
        if (ignored := of_ignored(place.ignored())) is not None:
            return settle(planned, wave, outcome_of(planned, ignored.verdict, ignored.reason, ()))
        attempts.append(build(planned, place, wave, number=memory.attempts + 1))
        while may_repair(attempts[-1], planned.policy.repair_cap):
            attempts.append(repair(planned, place, wave, attempts[-1]))
        return outcome_of(planned, attempts[-1].verdict, attempts[-1].reason, attempts)
    finally:
        _leave(planned, place, wave)


def _leave(planned: Planned, place: Place, wave: Wave) -> None:
    # Files of another user, say of a container, may stay: a pity, but no fault of the work.
    try:
        place.close()
    except TidegateError as stays:
        wave.recorder.say(f"{planned.slug}: {stays}")


def abandoned(planned: Planned, wave: Wave, attempts: Sequence[Attempt]) -> ItemOutcome:
    """The outcome of an item whose backend still works although the wave was stopped."""
    reason = "interrupted; its backend did not come back in time"
    begun = wave.recorder.started(planned.slug)
    known = [*attempts]
    if begun is not None and begun[1] > len(known):
        known.append(Attempt(begun[1], begun[0], Verdict.HALTED, reason))
    return outcome_of(planned, Verdict.HALTED, reason, known)


def settle(planned: Planned, wave: Wave, outcome: ItemOutcome) -> ItemOutcome:
    """Tell and journal a verdict that is not that of the last attempt."""
    wave.recorder.settled(wave.subject(planned), outcome)
    return outcome


def stopped_verdict(stopped: GateClosedError | InterruptedWaveError) -> Verdict:
    """The verdict of an item that a gate or a signal did not let go on."""
    if isinstance(stopped, GateClosedError) and stopped.gate == CEILING:
        return Verdict.OVER_BUDGET
    return Verdict.HALTED


def outcome_of(
    planned: Planned, verdict: Verdict, reason: str, attempts: Sequence[Attempt]
) -> ItemOutcome:
    """Where an item stands after `attempts`, with a verdict that may be another than theirs."""
    last = attempts[-1] if attempts else None
    return ItemOutcome(
        slug=planned.slug,
        verdict=verdict,
        reason=reason,
        attempts=tuple(attempts),
        tree=last.tree if last else None,
        changes=last.changes if last else (),
        isolation=CLONE if planned.home.top else IN_PLACE,
    )
