"""The findings of audits that still hold: each recorded once, and once more when it is gone.

The audit names its findings with `PREFIX`; findings that people record stay as they are.
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
    """Record the new ones of `found` and the known ones that are gone; return both as recorded.

    Appends one event when there is any change. Reads only the events since the last time.
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
