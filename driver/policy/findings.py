"""The one rule that makes a verdict of the findings of all checks. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from driver.domain.findings import Finding, FindingKind
from driver.domain.results import Verdict
from driver.policy.judgement import Judgement


def decide(findings: Sequence[Finding]) -> Judgement | None:
    """The judgement of the first finding that counts against the item; None if none does.

    An offence refuses. If the base shows it as well, the item is UNDECIDED. A doubt counts only if
    the base is clear and the check's own evidence names the item's change. Every other doubt lowers
    the grade of the evidence only.
    """
    for kind in FindingKind:
        for one in findings:
            if one.kind is kind and (judged := _judged(one)):
                return judged
    return None


def _judged(one: Finding) -> Judgement | None:
    why = f"{one.reason}: {one.remedy}" if one.remedy else one.reason
    if one.kind is FindingKind.OFFENCE:
        fair = one.by_agent and not one.is_of_project
        why = f"{why} (on the base as well)" if one.is_of_project else why
        return Judgement(Verdict.REFUSED if fair else Verdict.UNDECIDED, why)
    if one.on_base is not False or not one.names_change:
        return None
    return Judgement(Verdict.REFUSED if one.by_agent else Verdict.UNDECIDED, why)
