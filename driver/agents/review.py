"""Has a reviewer look at verified work: the material, the request, and the answer. The reviewer
reads a temporary copy. Its answer counts only as an object with the nonce of this call, which is
made after the work was done."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from driver.agents.agent_request import review_request
from driver.agents.dispatch import dispatch
from driver.agents.review_prompt import UnderReview, review_prompt, shown_diff
from driver.agents.review_verdict import ReviewerAnswer, answer_of, too_long, undecided
from driver.backend_api.driver import WorkerResult
from driver.backend_api.usage import NOTHING_SPENT
from driver.backends.recorded import prompt_sha256, without_nonce
from driver.domain.results import Attempt
from driver.domain.reviews import Review, ReviewWord
from driver.execution.cancellation import InterruptedWaveError
from driver.git.private_git import GitError
from driver.limits.admission import BackendClosedError, GateClosedError
from driver.limits.usage_sums import sum_usage
from driver.run_state.context import AssignedBackend, ItemRun
from driver.workspace.repository_context import TestCheckout
from state_store.documents.errors import TidegateError
from state_store.values.lazy_dataclass import dataclass, replace

NONCE_BYTES = 16


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of the reviewer."""

    answer: ReviewerAnswer
    result: WorkerResult
    duration_s: float
    prompt_hash: str


def review(item: ItemRun, work: Attempt, more: str = "") -> Review:
    """Review exactly the tree of `work`. A change that is too long to show is not reviewed. `more`
    are extra instructions of the repository's owner. If the answer does not fit the schema, the
    reviewer is asked once more. Raises GateClosedError or InterruptedWaveError before it costs
    anything."""
    reviewer, tree = item.reviewer, work.tree
    if reviewer is None or tree is None:
        raise ValueError("a review needs a reviewer and a tree")
    shown = _shown(item, work, tree, more)
    found = Review(
        number=shown.number,
        tree=tree,
        word=ReviewWord.UNDECIDED,
        backend=reviewer.driver.name,
        model=reviewer.model,
        usage=NOTHING_SPENT,
        since=shown.past[-1].tree if shown.past else None,
    )
    limit = item.wave.settings.review.max_diff_bytes
    size = max(len(diff.encode("utf-8", "replace")) for diff in (shown.diff, shown.since or ""))
    if size > limit:
        return _with(found, too_long(size, limit))
    try:
        calls, answer = _asked(item, reviewer, shown, tree)
    except BackendClosedError as closed:
        if reviewer.gates is item.wave.gates:
            raise
        return _with(found, undecided(str(closed)))
    last = calls[-1]
    return replace(
        _with(found, answer),
        model=last.result.model or reviewer.model,
        usage=sum_usage([call.result.usage for call in calls]),
        duration_s=sum(call.duration_s for call in calls),
        worker_id=last.result.worker_id,
        prompt_hash=last.prompt_hash,
    )


def _asked(
    item: ItemRun, reviewer: AssignedBackend, shown: UnderReview, tree: str
) -> tuple[Sequence[_Call], ReviewerAnswer]:
    """The calls of a review, and its answer. The second call follows an answer that does not fit
    the schema."""
    first = _called(item, reviewer, shown, tree)
    if not first.answer.misshapen:
        return [first], first.answer
    item.say(f"review {shown.number}: {first.answer.reason}; asking once more")
    try:
        second = _called(item, reviewer, shown, tree, first.answer.misshapen)
    except (GateClosedError, InterruptedWaveError) as stopped:
        # Not raised, or the usage of the first call would be lost.
        return [first], undecided(f"{first.answer.reason}; not asked again: {stopped}")
    return [first, second], second.answer


def _called(
    item: ItemRun, reviewer: AssignedBackend, shown: UnderReview, tree: str, problem: str = ""
) -> _Call:
    """Call the reviewer. `problem` is the fault of its answer to the call before."""
    nonce = secrets.token_hex(NONCE_BYTES)
    prompt = review_prompt(item.spec, shown, nonce, problem)
    request = review_request(item, reviewer, shown.number, tree, prompt, nonce)
    with dispatch(item, request) as sent:
        edited, accused = _edited(sent.files), sent.attribution()
    sent.record(item, structured=_without_nonce(sent.result.structured, nonce))
    answer = undecided(accused) if accused else answer_of(sent.result, nonce, edited)
    return _Call(answer, sent.result, sent.duration_s, prompt_sha256(without_nonce(prompt, nonce)))


def _shown(item: ItemRun, work: Attempt, tree: str, more: str) -> UnderReview:
    # A later review cannot build on an undecided review.
    past = [one for one in item.reviews if one.word is not ReviewWord.UNDECIDED]
    since, files = None, item.workspace
    if past:
        with suppress(GitError):  # the tree of an earlier run's review may be gone
            since = shown_diff(files.whole_diff(tree, past[-1].tree))
    number = len(item.reviews) + 1
    return UnderReview(work, shown_diff(files.whole_diff(tree)), since, past, number, more)


def _edited(copy: TestCheckout) -> tuple[str, ...]:
    """The files of its copy that the reviewer changed."""
    try:
        return copy.tampered()
    except (TidegateError, OSError):
        return ("the whole of it",)


def _without_nonce(answer: dict[str, Any] | None, nonce: str) -> dict[str, Any] | None:
    """The answer for a recording: a replay answers with the nonce of its own request."""
    if not answer or answer.get("nonce") != nonce:
        return answer
    return {**answer, "nonce": without_nonce(nonce, nonce)}


def _with(found: Review, answer: ReviewerAnswer) -> Review:
    return replace(
        found,
        word=answer.word,
        summary=answer.summary,
        findings=answer.findings,
        reason=answer.reason,
    )
