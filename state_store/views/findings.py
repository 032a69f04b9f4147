"""The open findings of audits. A finding is recorded when it appears and when it is gone.

The audit's findings have names with `PREFIX`. Findings that people record stay unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from state_store.api import StateAPI
from state_store.database import events as names

PREFIX = "audit-"
_KEPT = "view:findings"  # the snapshot of the open findings

Finding = Mapping[str, Any]
Findings = Mapping[str, Finding]


def apply_findings(holding: Findings, event: Mapping[str, Any]) -> dict[str, Finding]:
    """The open findings of audits after `event`, by id."""
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
    """Record new findings in `found` and known findings that are gone; return both.

    Appends one event if there is a change. Reads only events after the snapshot.
    """
    with api.store.transaction():
        version, snapshot, _ = api.store.read_snapshot(_KEPT) or (0, {"holding": {}}, "")
        kept: dict[str, Finding] = snapshot["holding"]
        for event in api.store.scan(names.ORCHESTRATOR_STATUS, version):
            kept, version = apply_findings(kept, event), event["version"]
        new = [one for name, one in found.items() if name not in kept]
        gone = [name for name in kept if name not in found]
        if new or gone:
            change = {"findings": [dict(one) for one in new], "gone": gone, "cycle": cycle}
            kind = names.AUDIT_FINDINGS_RECORDED
            version = api.append(names.ORCHESTRATOR_STATUS, kind, change, "audit")
        holding = {name: kept.get(name, one) for name, one in found.items()}
        api.store.save_snapshot(_KEPT, version, {"holding": holding})
    return new, [kept[name] for name in gone]
