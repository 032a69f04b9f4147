"""What was done for one item so far, and what its outcome would be if that were all."""

from __future__ import annotations

from dataclasses import dataclass, field

from driver.domain.phase_receipt import PhaseReceipt
from driver.domain.results import RESUME, Attempt, ItemOutcome, Verdict
from driver.domain.reviews import Review
from driver.run_state.context import Planned, Wave
from driver.workspace.repository_context import CLONE, IN_PLACE


@dataclass
class AttemptHistory:
    """What was done for one item so far, for whoever cannot wait for the end."""

    attempts: list[Attempt] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    phases: list[PhaseReceipt] = field(default_factory=list)


def settle(planned: Planned, wave: Wave, outcome: ItemOutcome) -> ItemOutcome:
    """Tell and journal a verdict that is not that of the last attempt."""
    wave.recorder.settled(wave.subject(planned), outcome)
    return outcome


def outcome_of(
    planned: Planned, verdict: Verdict, reason: str, trail: AttemptHistory
) -> ItemOutcome:
    """Where an item stands after its trail, with a verdict that may be another than that of its
    last attempt."""
    last = trail.attempts[-1] if trail.attempts else None
    return ItemOutcome(
        slug=planned.slug,
        verdict=verdict,
        reason=reason,
        attempts=tuple(trail.attempts),
        reviews=tuple(trail.reviews),
        phases=tuple(trail.phases),
        tree=last.tree if last else None,
        changes=last.changes if last else (),
        isolation=CLONE if planned.home.top else IN_PLACE,
        resumed=bool(last and trail.attempts[0].phase == RESUME and len(trail.attempts) == 1),
    )
