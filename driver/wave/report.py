"""A wave's result as data, and as the JSON that callers of the source know. Pure. Every key is
always present. `None` means unknown or not applicable, never zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from driver.backend_api.driver import Usage
from driver.backend_api.provider_fault import ProviderLoad
from driver.domain.phase_receipt import COMPLETED, PhaseReceipt
from driver.domain.refusals import remedy_of
from driver.domain.results import (
    BUILD,
    NOT_AT_FAULT,
    REPAIR,
    WITHOUT_WALLS,
    Attempt,
    ItemOutcome,
    RunKind,
    Verdict,
)
from driver.domain.reviews import review_word
from driver.domain.shipment import Shipment
from driver.domain.wall_hints import about_walls, hint_in
from driver.limits.usage_sums import sum_usage, token_totals, usages_of, uses_of
from driver.pipeline.definition import PUBLISH
from driver.policy.test_files import is_test
from driver.pull_requests.body import Proposed
from driver.run_state.plan import Planned
from driver.wave.evidence_summary import project_doubts, read_first
from state_store.documents.errors import ExitCode
from state_store.redaction.redactor import Redactor
from state_store.values.lazy_dataclass import asdict, dataclass, field


@dataclass(frozen=True, slots=True)
class ItemReport:
    """The report of an item. `commit` is set if it was shipped. `published` is its tree if this run
    shipped it. `saved_work` is set if a patch was saved."""

    planned: Planned
    outcome: ItemOutcome
    commit: str | None = None
    ship_error: str | None = None
    ship_warning: str | None = None
    saved_work: str | None = None
    published: str | None = None


@dataclass(frozen=True, slots=True)
class Base:
    """The commit that a repository's items started from; `branch` is None for a detached HEAD."""

    repo: str
    commit: str
    branch: str | None


@dataclass(frozen=True)
class WaveReport:
    """All facts at the end of a wave. `shipments` is None if nothing was to be shipped."""

    wave_id: str
    items: tuple[ItemReport, ...] = ()
    shipments: tuple[Shipment, ...] | None = None
    policy: Mapping[str, Any] | None = None
    ceiling: Mapping[str, Any] | None = None
    review_mode: str = "policy"
    abort_reason: str | None = None
    error: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    preflight_ok: bool = True
    abort_exit: ExitCode | None = None
    journal_error: str | None = None
    resumed: bool = False
    bases: tuple[Base, ...] = ()
    parked_until: str | None = None
    provider: ProviderLoad | None = None
    spending: Mapping[str, Any] | None = None
    uses: tuple[tuple[str, Usage], ...] | None = None
    recorded: bool = False
    proposed: tuple[Proposed, ...] = ()
    sandbox: Mapping[str, Any] | None = None
    redactor: Redactor | None = field(default=None, repr=False)

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a program: 0 only if everything requested was done."""
        if self.abort_exit is not None:
            return self.abort_exit
        shipping = self.shipments is not None
        left = [item.outcome for item in self.items if not is_done(item, shipping=shipping)]
        if left:
            others_only = all(outcome.verdict in NOT_AT_FAULT for outcome in left)
            return ExitCode.STOPPED_BY_POLICY if others_only else ExitCode.NOT_ALL_SHIPPED
        # A pull request that could not be made is unfinished work.
        made = all(proposed.made for proposed in self.proposed)
        return ExitCode.DONE if made else ExitCode.NOT_ALL_SHIPPED


def is_done(item: ItemReport, *, shipping: bool) -> bool:
    """True if everything requested for an item is done; `shipping` is true if work was to ship."""
    verified = item.outcome.verdict is Verdict.VERIFIED
    return bool(item.commit) or (verified and not (shipping and item.outcome.publish))


def to_json(report: WaveReport) -> dict[str, Any]:
    """The dict that `run_wave` returns, without the secrets of the wave."""
    document = _document(report)
    return report.redactor.value(document) if report.redactor else document


def _document(report: WaveReport) -> dict[str, Any]:
    shipped = [item.planned.slug for item in report.items if item.commit]
    resumed = sum(item.outcome.resumed for item in report.items)
    rebuilt = len(report.items) - resumed
    reviews = {_review(item, report.review_mode) for item in report.items}
    return {
        "wave_id": report.wave_id,
        "preflight_ok": report.preflight_ok,
        "aborted": report.abort_reason is not None,
        "abort_reason": report.abort_reason,
        "error": report.error,
        "parked_until": report.parked_until,
        "provider": report.provider.to_json() if report.provider else None,
        "built": [_built(item, report.review_mode) for item in report.items],
        "shipped": None if report.shipments is None else shipped,
        "shipped_repos": [_shipped_repo(s, report.proposed) for s in report.shipments or ()],
        "pull_requests": [proposed.to_json() for proposed in report.proposed],
        "read_first": read_first(item.outcome for item in report.items if item.commit),
        "project_doubts": project_doubts(item.outcome for item in report.items),
        "branch": _only(shipment.branch for shipment in report.shipments or ()),
        "sha": _only(shipment.tip or shipment.kept for shipment in report.shipments or ()),
        "merged": False,
        "base": [asdict(base) for base in report.bases],
        "sandbox": dict(report.sandbox) if report.sandbox is not None else None,
        "policy": dict(report.policy) if report.policy is not None else None,
        "ceiling": dict(report.ceiling) if report.ceiling is not None else None,
        "resume_stats": (
            {"skipped_from_journal": resumed, "rebuilt": rebuilt} if report.resumed else None
        ),
        "adversarial_review": reviews.pop() if len(reviews) == 1 else report.review_mode,
        "budget": dict(report.spending) if report.spending is not None else None,
        "tokens": _tokens(report),
        "integration": {"green": report.exit_code is ExitCode.DONE},
        "journal_error": report.journal_error,
        "repairsUsed": sum(item.outcome.repairs for item in report.items),
        "exit_code": int(report.exit_code),
        **report.details,
    }


def _only(values: Iterable[str | None]) -> str | None:
    known = [value for value in values if value]
    return known[0] if len(known) == 1 else None


def _review(item: ItemReport, mode: str) -> str:
    required, outcome = item.planned.policy.require_review, item.outcome
    tree = outcome.approved_tree or outcome.tree
    return review_word(outcome.reviews, tree, required=required, mode=mode)


def _remedy(outcome: ItemOutcome) -> str | None:
    """The thing to do about the reason. A test that was red, or found no command, may miss what its
    walls keep from it."""
    told, test = remedy_of(outcome.reason), outcome.last_test
    if test is None or test.sandbox in WITHOUT_WALLS:
        return told
    if test.kind is not RunKind.RED and _NO_COMMAND not in test.reason:
        return told
    walls = about_walls(test.sandbox, f"{test.output}\n{test.reason}")
    parts = (told or "look at its output", walls)
    return "; ".join(reversed(parts) if hint_in(walls) else parts)


def _built(item: ItemReport, review_mode: str) -> dict[str, Any]:
    outcome, test, found = item.outcome, item.outcome.last_test, item.outcome.evidence
    last = outcome.attempts[-1] if outcome.attempts else None
    return {
        "slug": outcome.slug,
        "id": item.planned.item.item_id,
        "title": item.planned.item.title,
        "dispatched": any(attempt.phase in (BUILD, REPAIR) for attempt in outcome.attempts),
        "skipped_from_journal": outcome.resumed,
        "trust_verified": False,
        **_verdict(outcome),
        "testExit": test.exit_code if test else None,
        "repairs": outcome.repairs,
        "filesWritten": [change.path for change in outcome.changes],
        "workerId": last.worker_id if last else None,
        "model": last.model if last else None,
        "adversarial_review": _review(item, review_mode),
        "reviews": [review.to_json() for review in outcome.reviews],
        "phases": [one.to_json() for one in _phases(item)],
        "afterApproval": list(outcome.after_approval),
        "publish": outcome.publish,
        "selfWrittenTests": [c.path for c in outcome.changes if is_test(c.path)],
        "isolation": outcome.isolation,
        "spotChecked": found.canary_is_check or bool(found.spot_checks),
        "spot_check_failed": found.flaky,
        "flaky": found.flaky,
        "together": [run.to_json() for run in outcome.batch_runs],
        "verificationTier": item.planned.policy.tier,
        "usage": sum_usage(usages_of(outcome)).to_json(),
        "attempts": [_attempt(attempt) for attempt in outcome.attempts],
        "tree": outcome.tree,
        "commit": item.commit,
        "ship_error": item.ship_error,
        "ship_warning": item.ship_warning,
        "savedWork": item.saved_work,
    }


def _verdict(outcome: ItemOutcome) -> dict[str, Any]:
    """The verdict, its grade if the item is verified, else its reason and the remedy."""
    verified = outcome.verdict is Verdict.VERIFIED
    return {
        "verified": verified,
        "verdict": str(outcome.verdict),
        "grade": str(outcome.grade) if verified and outcome.grade else None,
        "waitsForPerson": outcome.waits,
        "error": None if verified else outcome.reason,
        "remedy": None if verified else _remedy(outcome),
    }


def _phases(item: ItemReport) -> tuple[PhaseReceipt, ...]:
    """The receipt of each phase; the last receipt is of its shipment in the batch."""
    outcome, pipeline = item.outcome, item.planned.pipeline
    publish = next((phase for phase in pipeline.steps if phase.kind == PUBLISH), None)
    if not item.commit or publish is None:
        return outcome.phases
    receipt = PhaseReceipt(
        publish.name,
        PUBLISH,
        PUBLISH,
        COMPLETED,
        outcome.tree,
        item.published,  # None if an earlier run has shipped it
        config_hash=publish.config_hash,
        artifacts=(item.commit,),
    )
    return (*outcome.phases, receipt)


def _attempt(attempt: Attempt) -> dict[str, Any]:
    test = attempt.test.to_json() if attempt.test else None
    keys = ("kind", "command", "exit", "durationS", "tree", "outputFile")
    return {
        "number": attempt.number,
        "phase": attempt.phase,
        "verdict": str(attempt.verdict),
        "reason": attempt.reason or None,
        "workerId": attempt.worker_id,
        "model": attempt.model,
        "durationS": round(attempt.duration_s, 3),
        "usage": attempt.usage.to_json(),
        "survivors": list(attempt.survivors),
        "notes": list(attempt.notes),
        "test": {key: test[key] for key in keys} if test else None,
        "evidence": attempt.evidence_json(),
    }


def _tokens(report: WaveReport) -> dict[str, Any]:
    """Tokens by phase; computed from the items without a ledger."""
    uses = report.uses if report.uses is not None else uses_of(i.outcome for i in report.items)
    kept = {"ledgered": report.spending is not None, "recorded": report.recorded}
    return {**token_totals(uses), **kept}


def _shipped_repo(shipment: Shipment, proposed: Sequence[Proposed]) -> dict[str, Any]:
    asked = [one.to_json() for one in proposed if shipment.tip and one.commit == shipment.tip]
    own = asked[0] if asked else {"pr": None, "prError": None}
    return {
        "repo": shipment.repo,
        "committed": shipment.committed,
        "pushed": shipment.pushed,
        "branch": shipment.branch,
        "sha": shipment.tip or shipment.kept,
        "error": shipment.error,
        "error_detail": shipment.detail[:300] or None,
        "push_error": shipment.push_error,
        "files_count": shipment.files_count,
        "warning": shipment.warning,
        "onto": shipment.onto,
        "integration": {
            "runs": shipment.integration_runs,
            "receipts": [run.to_json() for run in shipment.integration],
        },
        "pr": own["pr"],
        "prError": own["prError"],
    }


_NO_COMMAND = "could not be run: a command was "
_COUNTED = ("buildIn", "buildOut", "verifyIn", "verifyOut", "repairIn", "repairOut", "totalIn")


def result_to_report(result: Mapping[str, Any]) -> dict[str, Any]:
    """The short form for ledgers, from a dict of `run_wave`."""
    tokens = result.get("tokens") or {}
    return {
        "tokens": {**dict.fromkeys((*_COUNTED, "totalOut"), 0), **tokens},
        "integration": result.get("integration") or {"green": False},
        "repairsUsed": result.get("repairsUsed", 0),
        "built": result.get("built", []),
        "preflight_ok": result.get("preflight_ok", False),
        "aborted": result.get("aborted", False),
    }
