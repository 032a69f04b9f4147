"""Builds the summary of a pushed batch of commits for its pull request.

This run's items come from their outcomes, an earlier run's from the journal's entries. Reads the
notes that a phase of the work may have left for the request, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from driver.domain.prompts import command_text
from driver.domain.results import BASELINE, PROOF, ItemOutcome, TestRun, receipts_of_evidence
from driver.domain.reviews import Review, from_json, review_word
from driver.domain.shipment import Shipment
from driver.limits.usage_sums import sum_usage, usages_of
from driver.pull_requests.body import ItemSummary, PullRequestSummary
from driver.run_state.context import ItemRun
from driver.runners.result import Counts
from state_store.documents.errors import TidegateError
from state_store.documents.files import read_bytes
from state_store.values.lazy_dataclass import dataclass, field, replace

NOTES = "pr.md"
_MAX_NOTES_BYTES = 64_000
Pairs = Sequence[tuple[ItemRun, ItemOutcome]]


@dataclass(frozen=True, slots=True)
class PushedBatch:
    """Commits by slug, pushed as `branch` with `tip` as the last one: by this run as `shipment`,
    or by an earlier one, with the journal's `entries` by slug."""

    branch: str
    tip: str
    wave_id: str
    commits: Mapping[str, str]
    shipment: Shipment | None = None
    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def pull_request_summary(own: Pairs, batch: PushedBatch, target: str | None) -> PullRequestSummary:
    """The batch, with the items of its repository (`own`) that are not in it."""
    shipment = batch.shipment or Shipment("")
    evicted = {outcome.slug: outcome for outcome in shipment.evicted}
    shipped = [_item(*pair, batch) for pair in own if pair[0].slug in batch.commits]
    shipped.sort(key=lambda item: item.grade, reverse=True)  # the lowest grade is read first
    return PullRequestSummary(
        wave_id=batch.wave_id,
        branch=batch.branch,
        target=target,
        onto=shipment.onto,
        shipped=tuple(shipped),
        evicted=tuple(
            _item(item, evicted.get(item.slug, outcome), batch)
            for item, outcome in own
            if item.slug not in batch.commits and not outcome.shipped_as
        ),
        trees=shipment.integration_runs,
        warning=shipment.warning or "",
    )


def _item(item: ItemRun, outcome: ItemOutcome, batch: PushedBatch) -> ItemSummary:
    usage = sum_usage(usages_of(outcome))
    summary = ItemSummary(
        slug=item.slug,
        title=item.spec.title or "",
        verdict=str(outcome.verdict),
        command=command_text(item.spec.test_command),
        **_runs(outcome.last_test, outcome.evidence.baseline),
        files=tuple(change.path for change in outcome.changes),
        repairs=outcome.repairs,
        tokens=usage.total_tokens,
        cost_usd=usage.cost_usd,
        **_reviewed(item, outcome.reviews, outcome.approved_tree or outcome.tree),
        reason=outcome.reason,
        notes=_notes(item),
        commit=batch.commits.get(item.slug),
        grade=str(outcome.grade or ""),
        doubts=(*(one.reason for one in outcome.evidence.findings), *outcome.lacks),
    )
    if (entry := batch.entries.get(item.slug)) is None:
        return summary
    last = {run.purpose: run for run in receipts_of_evidence(entry.get("evidence"))}
    written = entry.get("filesWritten")
    known = entry.get("evidence")
    known = known if isinstance(known, Mapping) else {}
    lacks = known.get("lacks")
    repairs, read = entry.get("repairs"), entry.get("approvedTree") or entry.get("tree")
    return replace(
        summary,
        **_runs(last.get(PROOF), last.get(BASELINE)),
        files=tuple(map(str, written)) if isinstance(written, list) else (),
        repairs=repairs if isinstance(repairs, int) else 0,
        tokens=None,
        cost_usd=None,
        grade=str(known.get("grade") or ""),
        doubts=tuple(map(str, lacks)) if isinstance(lacks, list) else (),
        **_reviewed(item, from_json(entry.get("reviews")), read),
    )


def _runs(test: TestRun | None, before: TestRun | None) -> dict[str, Any]:
    return {
        "exit_code": test.exit_code if test else None,
        "before": _counts(before),
        "after": _counts(test),
    }


def _counts(run: TestRun | None) -> Counts | None:
    return run.counts if run and isinstance(run.counts, Counts) else None


def _reviewed(item: ItemRun, reviews: Sequence[Review], tree: str | None) -> dict[str, Any]:
    mode, required = item.wave.settings.review.mode, item.planned.policy.require_review
    words = [[review.message, *map(str, review.findings)] for review in reviews[-1:]]
    return {
        "review": review_word(reviews, tree, required=required, mode=mode),
        "review_text": "\n".join(line for texts in words for line in texts if line),
    }


def _notes(item: ItemRun) -> str:
    path = item.scratch_path / NOTES
    if path.is_symlink():  # it would publish a file of this machine
        return ""
    try:
        return read_bytes(path, _MAX_NOTES_BYTES).decode("utf-8", "replace")
    except TidegateError:
        return ""
