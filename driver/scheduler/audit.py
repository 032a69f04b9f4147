"""The audit after a wave: records findings about past waves, and proposes items if wanted.

Reads only the newest waves and the ends of long streams, so its cost does not grow with the past.
It decides nothing; a failure is reported and does not end the cycle.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from driver.execution.process_identity import is_gone
from driver.scheduler.audit_rules import Finding, Past, audit, red_alone
from driver.scheduler.backlog import Backlog
from state_store import coordination
from state_store.api import StateAPI
from state_store.database import events
from state_store.database.interface import StoreTransaction
from state_store.database.projections import iso_time, project_agent_traces
from state_store.documents.errors import TidegateError
from state_store.documents.item_status import PROPOSED
from state_store.views.findings import record_findings

WAVES = 20
STATUS_EVENTS, TRACE_EVENTS, CLAIM_EVENTS = 200, 2000, 1000

Json = Mapping[str, Any]


def audited(backlog: Backlog, wave_id: str, wave: Json, *, propose: bool) -> dict[str, Any]:
    """Record new findings and those that are gone; returns the cycle report's keys about them.

    `wave` is the report of the wave that has just ended.
    """
    try:
        found = audit(past_of(backlog.api, wave_id, wave))
        records = {name: finding.to_json(wave_id) for name, finding in found.items()}
        new, gone = record_findings(backlog.api, records, wave_id)
        proposed = _propose(backlog, found, gone, wave_id) if propose else []
    except TidegateError as trouble:
        return {"audit_warning": f"the audit is not complete: {trouble}"}
    keys = {"findings": new, "findings_gone": gone, "findings_proposed": proposed}
    return {key: value for key, value in keys.items() if value}


def past_of(api: StateAPI, wave_id: str, wave: Json) -> Past:
    """The input of an audit after the wave with this id and report."""
    ids = [*_recent(api), wave_id]
    newest = [*dict.fromkeys(reversed(ids))][:WAVES][::-1]
    views = (api.project(events.wave_stream(wave_id)) for wave_id in newest)
    traces = project_agent_traces(_dispatched(api, newest))["agents"]
    return Past(
        waves=[view for view in views if view["started"]],
        traces=[trace for trace in traces if trace["wave"] in newest],
        items=api.items_with("attempts"),
        find=lambda slug: api.items_with("slug", slug),
        lapsed=[*_lapsed(api)],
        red_alone=red_alone(wave),
    )


def _propose(
    backlog: Backlog, found: Mapping[str, Finding], gone: Iterable[Json], wave_id: str
) -> list[str]:
    """Create the items of new findings and return their ids; one that was ever in the tracker is
    not new, whatever its status."""
    created, made = iso_time(time.time()), list[str]()
    gone = tuple(gone)

    def job(transaction: StoreTransaction) -> int:
        noted = 0
        made.clear()
        for name, finding in found.items():
            if transaction.item(name) is None:
                item = finding.as_item(created)
                transaction.append(events.TRACKER, events.ITEM_CREATED, item, "audit")
                made.append(name)
        for finding_gone in gone:
            item = transaction.item(str(finding_gone["id"])) or {}
            if item.get("status") == PROPOSED:  # an item that the user took up is not changed
                notes = f"{item.get('notes') or ''} Not found any more after wave {wave_id}."
                change = {"id": item["id"], "notes": notes.strip()}
                transaction.append(events.TRACKER, events.ITEM_UPDATED, change, "audit")
                noted += 1
        return len(made) + noted

    if backlog.api.store.joined(job):
        backlog.sync()
    return made


def _recent(api: StateAPI) -> Iterator[str]:
    """The waves of the newest cycles, in order, some more than once."""
    for event in _end_of(api, events.ORCHESTRATOR_STATUS, STATUS_EVENTS):
        payload = event["payload"]
        if isinstance(payload, Mapping) and isinstance(payload.get("cycle"), str):
            yield payload["cycle"]


def _lapsed(api: StateAPI) -> Iterator[str]:
    """Resources of leases that expired, or whose holders are gone, and that were not released."""
    claims = coordination.fold_claims(_end_of(api, coordination.STREAM, CLAIM_EVENTS))
    now = api.store.clock.now()
    for resource in claims:
        row = api.store.lease_row(resource)
        holder = row.holder if row else None
        if row and holder and (not row.held_at(now) or is_gone(holder)):
            yield resource


def _dispatched(api: StateAPI, waves: Collection[str]) -> list[dict[str, Any]]:
    """The newest events of agents that worked for one of the waves: to fold those of all others
    takes longer than all else in an audit."""
    ended = _end_of(api, events.AGENT_TRACES, TRACE_EVENTS)
    told = [(event, event["payload"]) for event in ended if isinstance(event["payload"], Mapping)]
    agents = {str(payload.get("agent_id")) for _, payload in told if payload.get("wave") in waves}
    return [event for event, payload in told if str(payload.get("agent_id")) in agents]


def _end_of(api: StateAPI, stream: str, count: int) -> list[dict[str, Any]]:
    version, _ = api.store.head(stream)
    return api.get(stream, after=max(0, version - count))
