"""What a wave knows of a pushed line of commits, put together for its pull request.

Of what this run built the outcomes tell, of what an earlier one did the journal's entries. Reads
the notes that a phase of the work may have left for the request, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from driver.domain.prompts import command_text
from driver.domain.results import (
    BASELINE,
    PROOF,
    ItemOutcome,
    Shipment,
    TestRun,
    receipts_of_evidence,
)
from driver.domain.reviews import Review, from_json, review_word
from driver.limits.usage_sums import sum_usage, usages_of
from driver.pull_requests.body import ItemSummary, PullRequestSummary
from driver.run_state.context import ItemRun
from driver.runners.result import Counts
from state_store.documents.errors import TidegateError
from state_store.documents.files import read_bytes

NOTES = "pr.md"
_MAX_NOTES_BYTES = 64_000
Pairs = Sequence[tuple[ItemRun, ItemOutcome]]


@dataclass(frozen=True, slots=True)
class ShippedLine:
    """Commits by slug, pushed as `branch` whose last one is `tip`, by this run as `shipment` or by
    an earlier one, of which there are the journal's `entries` by slug."""

    branch: str
    tip: str
    wave_id: str
    commits: Mapping[str, str]
    shipment: Shipment | None = None
    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def pull_request_summary(own: Pairs, line: ShippedLine, target: str | None) -> PullRequestSummary:
    """All of a line, with the items of its repository (`own`) that stayed out of it."""
    shipment = line.shipment or Shipment("")
    lost = {outcome.slug: outcome for outcome in shipment.evicted}
    return PullRequestSummary(
        wave_id=line.wave_id,
        branch=line.branch,
        target=target,
        onto=shipment.onto,
        shipped=tuple(_item(*pair, line) for pair in own if pair[0].slug in line.commits),
        left_out=tuple(
            _item(item, lost.get(item.slug, outcome), line)
            for item, outcome in own
            if item.slug not in line.commits and not outcome.shipped_as
        ),
        trees=shipment.integration_runs,
        warning=shipment.warning or "",
    )


def _item(item: ItemRun, outcome: ItemOutcome, line: ShippedLine) -> ItemSummary:
    usage = sum_usage(usages_of(outcome))
    told = ItemSummary(
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
        commit=line.commits.get(item.slug),
    )
    entry = line.entries.get(item.slug)
    return told if entry is None else _as_journaled(item, told, entry)


def _as_journaled(item: ItemRun, told: ItemSummary, entry: Mapping[str, Any]) -> ItemSummary:
    last = {run.purpose: run for run in receipts_of_evidence(entry.get("evidence"))}
    written = entry.get("filesWritten")
    repairs, read = entry.get("repairs"), entry.get("approvedTree") or entry.get("tree")
    return replace(
        told,
        **_runs(last.get(PROOF), last.get(BASELINE)),
        files=tuple(map(str, written)) if isinstance(written, list) else (),
        repairs=repairs if isinstance(repairs, int) else 0,
        tokens=None,
        cost_usd=None,
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
        "said": "\n".join(line for said in words for line in said if line),
    }


def _notes(item: ItemRun) -> str:
    path = item.scratch_path / NOTES
    if path.is_symlink():  # it would show a file of this machine to the world
        return ""
    try:
        return read_bytes(path, _MAX_NOTES_BYTES).decode("utf-8", "replace")
    except TidegateError:
        return ""
