"""The receipts of a line in the classic order, as far as its attempts and reviews tell. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from driver.domain.phase_receipt import (
    BUILDER,
    COMPLETED,
    READER,
    REPAIR,
    REPAIRER,
    STALLED,
    TESTER,
    CommandReceipt,
    Engine,
    PhaseReceipt,
)
from driver.domain.results import REVIEW, Attempt, ItemOutcome, Verdict
from driver.domain.reviews import Review, ReviewWord
from driver.pipeline.definition import ADDRESS, AGENT, CLASSIC, GATE, IMPLEMENT, PUBLISH, Pipeline

_WORDS = {ReviewWord.APPROVED: COMPLETED, ReviewWord.CHANGES_REQUESTED: REPAIR}


def of(outcome: ItemOutcome) -> tuple[PhaseReceipt, ...]:
    """In the order in which they came to be: each attempt, its gate, the reviews of its tree."""
    return tuple(_all(outcome))


def of_publishing(
    pipeline: Pipeline, tree: str | None, published: str | None, commit: str
) -> PhaseReceipt:
    """That an item whose own tree is `tree` was shipped, together with the others, as the commit of
    the tree `published`; None where an earlier run did that."""
    phase = next(phase for phase in pipeline.steps if phase.kind == PUBLISH)
    return PhaseReceipt(
        phase.name,
        PUBLISH,
        PUBLISH,
        COMPLETED,
        tree,
        published,
        config_hash=phase.config_hash,
        artifacts=(commit,),
    )


def _all(outcome: ItemOutcome) -> Iterator[PhaseReceipt]:
    before, seen = None, list(outcome.reviews)
    for attempt in outcome.attempts:
        mends = any(one.tree == before for one in outcome.reviews)
        last = attempt is outcome.attempts[-1]
        if attempt.worker_id is not None:
            yield _worked(attempt, before, mends=mends)
        if attempt.test is not None:
            yield _tested(attempt, last=last)
        while seen and (last or seen[0].tree == attempt.tree):
            yield _read(seen.pop(0))
        before = attempt.tree


def _worked(attempt: Attempt, before: str | None, *, mends: bool) -> PhaseReceipt:
    name = ADDRESS if mends else IMPLEMENT
    role = BUILDER if attempt.number == 1 else REPAIRER
    went_on = attempt.test is not None or attempt.verdict is Verdict.VERIFIED
    return PhaseReceipt(
        phase=name,
        kind=AGENT,
        role=role,
        status=COMPLETED if went_on else STALLED,
        input=before,
        output=attempt.tree,
        prompt_hash=attempt.prompt_hash,
        config_hash=CLASSIC.called(name).config_hash,
        engine=Engine(model=attempt.model),
        usage=attempt.usage,
        duration_ms=round(attempt.duration_s * 1000),
        reason="" if went_on else attempt.reason,
    )


def _tested(attempt: Attempt, *, last: bool) -> PhaseReceipt:
    green, test = attempt.verdict is Verdict.VERIFIED, attempt.test
    ran: tuple[CommandReceipt, ...] = ()
    if test is not None:
        ran = (CommandReceipt(test.command, test.exit_code, round(test.duration_s * 1000)),)
    return PhaseReceipt(
        phase=GATE,
        kind=GATE,
        role=TESTER,
        status=COMPLETED if green else (STALLED if last else REPAIR),
        input=attempt.tree,
        output=attempt.tree,
        config_hash=CLASSIC.called(GATE).config_hash,
        commands=ran,
        duration_ms=sum(one.duration_ms for one in ran),
        reason=attempt.reason,
    )


def _read(review: Review) -> PhaseReceipt:
    phase = CLASSIC.review
    return PhaseReceipt(
        phase=REVIEW,
        kind=REVIEW,
        role=READER,
        status=_WORDS.get(review.word, STALLED),
        input=review.tree,
        output=review.tree,
        prompt_hash=review.prompt_hash,
        config_hash=phase.config_hash if phase else "",
        engine=Engine(review.backend, review.model),
        usage=review.usage,
        duration_ms=round(review.duration_s * 1000),
        reason=review.message,
        recalled=review.recalled,
    )
