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
from driver.run_state.context import Planned, Wave
from driver.runners.result import Counts
from state_store.documents.errors import TidegateError
from state_store.documents.files import read_bytes

NOTES = "pr.md"
_MAX_NOTES_BYTES = 64_000
Pairs = Sequence[tuple[Planned, ItemOutcome]]


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


def pull_request_summary(
    wave: Wave, own: Pairs, line: ShippedLine, target: str | None
) -> PullRequestSummary:
    """All of a line, with the items of its repository (`own`) that stayed out of it."""
    shipment = line.shipment or Shipment("")
    lost = {outcome.slug: outcome for outcome in shipment.evicted}
    return PullRequestSummary(
        wave_id=line.wave_id,
        branch=line.branch,
        target=target,
        onto=shipment.onto,
        shipped=tuple(_item(wave, *pair, line) for pair in own if pair[0].slug in line.commits),
        left_out=tuple(
            _item(wave, planned, lost.get(planned.slug, outcome), line)
            for planned, outcome in own
            if planned.slug not in line.commits and not outcome.shipped_as
        ),
        trees=shipment.integration_runs,
        warning=shipment.warning or "",
    )


def _item(wave: Wave, planned: Planned, outcome: ItemOutcome, line: ShippedLine) -> ItemSummary:
    usage = sum_usage(usages_of(outcome))
    told = ItemSummary(
        slug=planned.slug,
        title=planned.item.title or "",
        verdict=str(outcome.verdict),
        command=command_text(planned.item.test_command),
        **_runs(outcome.last_test, outcome.evidence.baseline),
        files=tuple(change.path for change in outcome.changes),
        repairs=outcome.repairs,
        tokens=usage.total_tokens,
        cost_usd=usage.cost_usd,
        **_reviewed(wave, planned, outcome.reviews, outcome.approved_tree or outcome.tree),
        reason=outcome.reason,
        notes=_notes(wave, planned),
        commit=line.commits.get(planned.slug),
    )
    entry = line.entries.get(planned.slug)
    return told if entry is None else _as_journaled(wave, planned, told, entry)


def _as_journaled(
    wave: Wave, planned: Planned, told: ItemSummary, entry: Mapping[str, Any]
) -> ItemSummary:
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
        **_reviewed(wave, planned, from_json(entry.get("reviews")), read),
    )


def _runs(test: TestRun | None, before: TestRun | None) -> dict[str, Any]:
    return {
        "exit_code": test.exit_code if test else None,
        "before": _counts(before),
        "after": _counts(test),
    }


def _counts(run: TestRun | None) -> Counts | None:
    return run.counts if run and isinstance(run.counts, Counts) else None


def _reviewed(
    wave: Wave, planned: Planned, reviews: Sequence[Review], tree: str | None
) -> dict[str, Any]:
    mode, required = wave.settings.review.mode, planned.policy.require_review
    words = [[review.message, *map(str, review.findings)] for review in reviews[-1:]]
    return {
        "review": review_word(reviews, tree, required=required, mode=mode),
        "said": "\n".join(line for said in words for line in said if line),
    }


def _notes(wave: Wave, planned: Planned) -> str:
    path = wave.scratch_path(planned.slug) / NOTES
    if path.is_symlink():  # it would show a file of this machine to the world
        return ""
    try:
        return read_bytes(path, _MAX_NOTES_BYTES).decode("utf-8", "replace")
    except TidegateError:
        return ""
