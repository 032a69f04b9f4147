"""A test run and all that a verdict rests on, as the JSON of reports, journal and events.

The receipt of a run is `outcome.TestRun`; this is its shape outside. Every key is always there,
null is unknown or not applicable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driver.domain.results import Attempt, RunKind, TestRun
from driver.runners.result import Counts, Doubt


def to_json(run: TestRun) -> dict[str, Any]:
    """The receipt of one run."""
    return {
        "purpose": run.purpose,
        "kind": str(run.kind),
        "command": run.command,
        "exit": run.exit_code,
        "reason": run.reason or None,
        "durationS": round(run.duration_s, 3),
        "base": run.base or None,
        "tree": run.tree,
        "workDir": run.work_dir,
        "environment": list(run.environment),
        "sandbox": run.sandbox,
        "outputFile": run.output_file,
        "outputDigest": run.output_digest,
        "counts": _counts(run.counts),
        "cached": run.cached,
        "survivors": list(run.survivors),
    }


def _counts(counts: Counts | Doubt | None) -> dict[str, Any] | None:
    if isinstance(counts, Doubt):
        return {"runner": counts.runner, "doubt": counts.reason}
    if counts is None:
        return None
    told = {"ran": counts.ran, "failed": counts.failed, "skipped": counts.skipped}
    return {"runner": counts.runner, **told}


def _counts_back(told: Any) -> Counts | Doubt | None:
    if told is None:
        return None
    if "doubt" in told:
        return Doubt(str(told["runner"]), str(told["doubt"]))
    ran, failed, skipped = (int(told[name]) for name in ("ran", "failed", "skipped"))
    return Counts(str(told["runner"]), ran, failed, skipped)


def listed(told: object) -> list[TestRun]:
    """The receipts in a list; what is none is passed over."""
    entries = told if isinstance(told, list) else []
    found = (from_json(one) for one in entries if isinstance(one, Mapping))
    return [run for run in found if run is not None]


def of_evidence(told: object) -> list[TestRun]:
    """The receipts that a verdict's `evidence` holds."""
    return listed(told.get("receipts")) if isinstance(told, Mapping) else []


def from_json(told: Mapping[str, Any]) -> TestRun | None:
    """A receipt read back, without its output; None when it is none."""
    try:
        return TestRun(
            kind=RunKind(told["kind"]),
            command=str(told["command"]),
            exit_code=told["exit"],
            output="",
            duration_s=float(told["durationS"]),
            tree=told["tree"],
            output_file=told["outputFile"],
            reason=told["reason"] or "",
            purpose=str(told["purpose"]),
            base=told["base"] or "",
            work_dir=str(told["workDir"]),
            environment=tuple(told["environment"]),
            sandbox=str(told["sandbox"]),
            output_digest=told["outputDigest"],
            counts=_counts_back(told["counts"]),
            cached=bool(told["cached"]),
            survivors=tuple(told.get("survivors") or ()),
        )
    except (KeyError, TypeError, ValueError):
        return None


def evidence(attempt: Attempt | None) -> dict[str, Any] | None:
    """What the verdict of an attempt rests on; None where there was no attempt."""
    if attempt is None:
        return None
    found = attempt.evidence
    return {
        "baseline": str(found.baseline.kind) if found.baseline else None,
        "baselineNote": found.baseline_note or None,
        "canary": found.canary_word,
        "canaryNote": found.canary_note or None,
        "spotChecked": bool(found.spot_checks),
        "flaky": found.flaky,
        "receipts": [to_json(run) for run in attempt.receipts],
    }
