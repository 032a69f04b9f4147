"""The grade of the evidence for verified work, and what it lacks for grade A. Pure."""

from __future__ import annotations

from dataclasses import replace

from driver.domain.findings import Grade
from driver.domain.results import NO_RERUN, Evidence, RunKind, TestRun, Verdict
from driver.policy.acceptance import passes
from driver.policy.count_rules import COUNTS
from driver.policy.judgement import Judgement
from driver.runners.canary import CanaryVerdict
from driver.runners.result import Counts

NOT_COUNTED = "the tests were not counted"
STAYS_RED = "tests are red as on the base ([verify] known_red)"
NOT_RED_FIRST = "the test was not red without the change"
_RED = (RunKind.RED, RunKind.TIMED_OUT, RunKind.KILLED)


def graded(proof: TestRun, evidence: Evidence) -> Evidence:
    """The evidence for a green proof, with its grade."""
    counted = isinstance(proof.counts, Counts)
    canary = evidence.canary_word == CanaryVerdict.RED
    told = any(one.check == COUNTS for one in evidence.findings)
    lacks = (
        *(() if counted or told else (NOT_COUNTED,)),
        *((STAYS_RED,) if proof.known_red else ()),
        *(() if _was_red_first(evidence) else (NOT_RED_FIRST,)),
        *(() if canary else (f"no canary test was red ({evidence.canary_note or 'none ran'})",)),
        *(() if is_rerun(proof, evidence) else (NO_RERUN,)),
    )
    doubts = len(evidence.findings)
    grade = Grade.C
    if not lacks and not doubts:
        grade = Grade.A
    elif (counted or canary) and doubts <= 1:
        grade = Grade.B
    return replace(evidence, grade=grade, lacks=lacks)


def is_rerun(proof: TestRun, evidence: Evidence) -> bool:
    """True if a second run on the same tree gave the same results: a green spot check, or a canary
    run in which all other tests had the same results."""
    now = proof.counts
    if evidence.spot_checks:
        return all(run.green and run.counts == now for run in evidence.spot_checks)
    return isinstance(now, Counts) and any(
        isinstance(run.counts, Counts)
        and run.tree == proof.tree  # some canary runs are on the base
        and run.counts.failed > 0
        and (run.counts.passed, run.counts.skipped) == (now.passed, now.skipped)
        for run in evidence.canaries
    )


def of_grade(evidence: Evidence, least: str) -> Judgement | None:
    """The judgement of verified work whose evidence is below the grade that a project asks for."""
    if evidence.grade is None or evidence.grade <= Grade(least):  # "A" comes before "B"
        return None
    missing = [*evidence.lacks, *(one.reason for one in evidence.findings)]
    why = f"its evidence is grade {evidence.grade}, and [verify] min_grade asks for {least}"
    return Judgement(Verdict.UNDECIDED, f"{why}: {'; '.join(missing)}", waits=True)


def _was_red_first(evidence: Evidence) -> bool:
    """True if the test was red on the base, or on the base with the work's own tests."""
    runs = (evidence.baseline, evidence.reverted)
    return any(
        run is not None and (run.kind in _RED or (run.green and not passes(run))) for run in runs
    )
