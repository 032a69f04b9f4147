"""A test run and all that a verdict rests on, as the JSON of reports, journal and events.

The receipt of a run is `outcome.TestRun`; this is its shape outside. Every key is always there,
null is unknown or not applicable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driver.outcome import Attempt, RunKind, TestRun


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
        "cached": run.cached,
    }


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
            cached=bool(told["cached"]),
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
        "canary": str(found.canary.kind) if found.canary else None,
        "canaryNote": found.canary_note or None,
        "spotChecked": bool(found.spot_checks),
        "flaky": found.flaky,
        "receipts": [to_json(run) for run in attempt.receipts],
    }
