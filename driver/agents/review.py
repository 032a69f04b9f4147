"""One look of a reviewer at proven work: what it is shown, the call, and what it came to.

The reviewer reads a copy that is thrown away. Its answer counts as an object with the nonce of this
very call, made after the work was done, and as nothing else.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from driver.agents.dispatch import ReviewCall, dispatch_reviewer
from driver.agents.guarded import Strays, watched
from driver.agents.review_prompt import UnderReview, review_prompt, shown_diff
from driver.agents.review_verdict import (
    VERDICT_SCHEMA,
    ReviewerAnswer,
    said_by,
    too_long,
    undecided,
)
from driver.backend_api.driver import WorkerResult
from driver.backend_api.usage import NOTHING_SPENT
from driver.backends.recorded import Recorded, prompt_sha256, without_nonce
from driver.checkout_guard.guard import attribution
from driver.domain.results import REVIEW, Attempt
from driver.domain.reviews import Review, ReviewWord
from driver.git.private_git import GitError
from driver.limits.admission import BackendClosedError
from driver.run_state.context import AssignedBackend, ItemRun
from driver.workspace.repository_context import TestCheckout, Workspace
from state_store.documents.errors import TidegateError

NONCE_BYTES = 16


@dataclass(frozen=True, slots=True)
class _Answered:
    """A call that is over; `edited` are files of its copy that the reviewer changed, `strayed` is
    what is held against it of the user's checkout, as a sentence."""

    result: WorkerResult
    edited: tuple[str, ...]
    strayed: str
    duration_s: float


def review(item: ItemRun, work: Attempt, more: str = "") -> Review:
    """A review of exactly the tree of `work`; nobody is asked about what cannot be shown whole.
    `more` is what the repository's owner has the reviewer look at besides.

    Raises GateClosedError or InterruptedWaveError before anything is spent.
    """
    reviewer, tree, past = item.reviewer, work.tree, tuple(item.reviews)
    if reviewer is None or tree is None:
        raise ValueError("a review needs a reviewer, and a tree to read")
    shown = replace(_shown(item.workspace, work, tree, past), more=more)
    limit = item.wave.settings.review.max_diff_bytes
    size = max(len(text.encode("utf-8", "replace")) for text in (shown.diff, shown.since or ""))
    if size > limit:
        return _review(shown, tree, reviewer, too_long(size, limit), None)
    call = _call(item, shown, len(past) + 1)
    try:
        answered = _ask(item, reviewer, tree, call)
    except BackendClosedError as closed:
        if reviewer.gates is item.wave.gates:
            raise
        return _review(shown, tree, reviewer, undecided(str(closed)), None)
    _record(item, call, answered)
    said = said_by(answered.result, call.nonce, answered.edited)
    if answered.strayed:
        said = undecided(answered.strayed)
    prompt_hash = prompt_sha256(without_nonce(call.prompt, call.nonce))
    return replace(_review(shown, tree, reviewer, said, answered), prompt_hash=prompt_hash)


def _call(item: ItemRun, shown: UnderReview, number: int) -> ReviewCall:
    nonce, phase = secrets.token_hex(NONCE_BYTES), item.pipeline.review
    prompt = review_prompt(item.spec, shown, nonce)
    effort, timeout_s = (phase.effort, phase.timeout_s) if phase else (None, None)
    return ReviewCall(number, prompt, nonce, VERDICT_SCHEMA, effort, timeout_s)


def _shown(place: Workspace, work: Attempt, tree: str, past: Sequence[Review]) -> UnderReview:
    # What an earlier round could not decide is no look that another may build on.
    told = [one for one in past if one.word is not ReviewWord.UNDECIDED]
    since = None
    if told:
        with suppress(GitError):  # what an earlier run's review saw may be gone
            since = shown_diff(place.whole_diff(tree, told[-1].tree))
    return UnderReview(work, shown_diff(place.whole_diff(tree)), since, told, number=len(past) + 1)


def _ask(
    item: ItemRun,
    reviewer: AssignedBackend,
    tree: str,
    call: ReviewCall,
) -> _Answered:
    """Raises BackendClosedError where the reviewer's backend takes no work."""
    wave = item.wave
    item.wave.spending.check(reviewer.gates)
    with watched(item) as strays, item.workspace.reading_copy(tree) as copy:
        with wave.spending.dispatch(
            reviewer.driver,
            item.slug,
            phase=REVIEW,
            number=call.number,
            model=reviewer.model,
            backend=reviewer.gates,
        ) as one:
            wave.recorder.reviewing(item.key, call.number, tree, reviewer.model)
            started = time.monotonic()
            result = one.run(partial(dispatch_reviewer, item, copy.path, reviewer, call))
        duration_s = time.monotonic() - started
        reviewer.gates.met(result.fault)
        wave.recorder.left_running(item.slug, "the reviewer", result.survivors)
        return _Answered(result, _edited(copy), _strayed(strays), duration_s)


def _edited(copy: TestCheckout) -> tuple[str, ...]:
    try:
        return copy.tampered()
    except (TidegateError, OSError):
        return ("the whole of it",)


def _strayed(strays: Strays) -> str:
    try:
        return attribution(strays())
    except TidegateError as error:
        return str(error)


def _review(
    shown: UnderReview,
    tree: str,
    reviewer: AssignedBackend,
    said: ReviewerAnswer,
    answered: _Answered | None,
) -> Review:
    result = answered.result if answered else None
    return Review(
        number=shown.number,
        tree=tree,
        word=said.word,
        summary=said.summary,
        findings=said.findings,
        reason=said.reason,
        backend=reviewer.driver.name,
        model=(result.model if result else None) or reviewer.model,
        usage=result.usage if result else NOTHING_SPENT,
        duration_s=answered.duration_s if answered else 0.0,
        since=shown.past[-1].tree if shown.past else None,
        worker_id=result.worker_id if result else None,
    )


def _record(item: ItemRun, call: ReviewCall, answered: _Answered) -> None:
    recording = item.wave.options.recording
    if recording is None:
        return
    structured = answered.result.structured
    if structured and structured.get("nonce") == call.nonce:
        structured = {**structured, "nonce": without_nonce(call.nonce, call.nonce)}
    entry = Recorded.of(
        answered.result,
        answered.duration_s,
        item=item.slug,
        phase=REVIEW,
        number=call.number,
        prompt=without_nonce(call.prompt, call.nonce),
    )
    recording.write(replace(entry, structured=structured))
