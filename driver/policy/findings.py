"""The one rule that makes a verdict of the findings of all checks. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from driver.domain.findings import Finding
from driver.domain.results import Verdict
from driver.policy.judgement import Judgement


def decide(findings: Sequence[Finding]) -> Judgement | None:
    """The judgement of the first finding that is held against the item; None if none is.

    The work is refused. If the base shows the same, or the agent could not have done otherwise, the
    item waits for a person. Findings that are not held lower the grade of the evidence only.
    """
    one = next((one for one in findings if one.is_held), None)
    if one is None:
        return None
    on_base = ", on the base as well" if one.is_of_project else ""
    reason = f"{one.reason}{on_base}" + (f": {one.remedy}" if one.remedy else "")
    if one.is_of_project or not one.by_agent:
        return Judgement(Verdict.UNDECIDED, reason, waits=True)
    return Judgement(Verdict.REFUSED, reason)
