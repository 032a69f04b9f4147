"""The findings of audits that still hold: each recorded once, and told when it is gone.

What a finding is about is the auditor's business. The names of its findings begin with `PREFIX`;
whatever else people record as findings is theirs and stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from state_store.api import StateAPI
from state_store.database import events as names

PREFIX = "audit-"
_KEPT = "view:findings"  # the snapshot of those that hold

Finding = Mapping[str, Any]
Findings = Mapping[str, Finding]


def apply_findings(holding: Findings, event: Mapping[str, Any]) -> dict[str, Finding]:
    """The findings of audits that hold after `event`, by id."""
    payload = event["payload"]
    if event["type"] != names.AUDIT_FINDINGS_RECORDED or not isinstance(payload, Mapping):
        return dict(holding)
    gone = set(map(str, payload.get("gone") or ()))
    new = [one for one in payload.get("findings") or () if isinstance(one, Mapping)]
    named = {str(one["id"]): one for one in new if str(one.get("id")).startswith(PREFIX)}
    return {name: one for name, one in holding.items() if name not in gone} | named


def record_findings(
    api: StateAPI, found: Findings, cycle: str
) -> tuple[list[Finding], list[Finding]]:
    """Write down which of `found` are new and which known ones are not found any more: both, as
    they were recorded.

    One event where there is any, none where all is as it was. Only what was recorded since the last
    time is read.
    """
    with api.store.transaction():
        version, kept = _holding(api)
        new = [one for name, one in found.items() if name not in kept]
        gone = [name for name in kept if name not in found]
        if new or gone:
            told = {"findings": [dict(one) for one in new], "gone": gone, "cycle": cycle}
            kind = names.AUDIT_FINDINGS_RECORDED
            version = api.append(names.ORCHESTRATOR_STATUS, kind, told, "audit")
        holding = {name: kept.get(name, one) for name, one in found.items()}
        api.store.save_snapshot(_KEPT, version, {"holding": holding})
    return new, [kept[name] for name in gone]


def _holding(api: StateAPI) -> tuple[int, dict[str, Finding]]:
    version, kept, _ = api.store.read_snapshot(_KEPT) or (0, {"holding": {}}, "")
    holding: dict[str, Finding] = kept["holding"]
    for event in api.store.scan(names.ORCHESTRATOR_STATUS, version):
        holding, version = apply_findings(holding, event), event["version"]
    return version, holding
