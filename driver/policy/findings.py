"""The one rule that makes a verdict of the findings of all checks. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from driver.domain.findings import Finding, FindingKind
from driver.domain.results import Verdict
from driver.policy.judgement import Judgement


def decide(findings: Sequence[Finding]) -> Judgement | None:
    """The judgement of the first finding that counts against the item; None if none does.

    An offence refuses. If the base shows it as well, or the agent could not have done otherwise,
    the item waits for a person. A doubt counts only if the base is clear and the check's own
    evidence names the item's change. Every other doubt lowers the grade of the evidence only.
    """
    return next((_judgement(one) for one in findings if _counts(one)), None)


def _counts(one: Finding) -> bool:
    return one.kind is FindingKind.OFFENCE or (one.on_base is False and one.names_change)


def _judgement(one: Finding) -> Judgement:
    on_base = ", on the base as well" if one.on_base else ""
    reason = f"{one.reason}{on_base}" + (f": {one.remedy}" if one.remedy else "")
    if one.on_base or not one.by_agent:
        return Judgement(Verdict.UNDECIDED, reason, waits=True)
    return Judgement(Verdict.REFUSED, reason)
