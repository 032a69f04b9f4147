"""Computes views for people from events. Pure.

An event is a dict of `EventStore.read`. Events of unknown types or shapes are skipped, so an older
program can read a newer store. docs/state.md describes the views.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib import import_module
from itertools import chain
from typing import Any

from state_store.database import events as names
from state_store.database.item_blocks import items_of
from state_store.documents.item_id import id_of
from state_store.documents.item_status import ARCHIVED

Row = Mapping[str, Any]
View = dict[str, Any]

TRACKER_VERSION = 1
AGENT_LIFECYCLE_VERSION = 1
_OF_SNAPSHOTS = ("project_tracker_with_snapshot", "save_snapshot")


def __getattr__(name: str) -> Any:
    """Names that the original project has here. Their module imports this one."""
    if name in _OF_SNAPSHOTS:
        return getattr(import_module("state_store.views.snapshots"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def iso_time(seconds: float) -> str:
    """Seconds since the epoch as 2026-01-31T10:20:30Z."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def apply_tracker(item: View | None, event: Row) -> View | None:
    """The item after `event`, or `item` itself if nothing changes.

    A second creation (in a merge of two stores) only adds missing fields.
    """
    payload = event["payload"]
    if not isinstance(payload, dict) or id_of(payload) is None:
        return item
    if item is None:
        return dict(payload) if event["type"] == names.ITEM_CREATED else None
    kind, after = event["type"], item
    if kind == names.ITEM_UPDATED:
        after = {**item, **payload}
    elif kind == names.ITEM_CREATED:
        missing = {key: value for key, value in payload.items() if key not in item}
        after = item | missing if missing else item
    elif kind == names.ITEM_FIELDS_REMOVED:
        gone = set(map(str, _list(payload.get("fields")))) - {"id"}
        after = {key: value for key, value in item.items() if key not in gone}
    elif kind == names.ITEM_ARCHIVED:
        at = payload.get("completed_at") or iso_time(event["ts"])
        after = item | {"status": ARCHIVED, "completed_at": at}
    return after


def project_items(events: Iterable[Row], items: View | None = None) -> dict[str, View]:
    """All items by id in order of creation, starting with `items`."""
    found: dict[str, View] = dict(items or {})
    for event in chain.from_iterable(map(_single, events)):
        payload = event["payload"]
        name = id_of(payload) if isinstance(payload, dict) else None
        if name is not None and (after := apply_tracker(found.get(name), event)) is not None:
            found[name] = after
    return found


def _single(event: Row) -> Iterable[Row]:
    """The event itself, or one for each item that it imported."""
    if event["type"] != names.ITEMS_IMPORTED:
        return (event,)
    items = items_of(event["payload"])
    return ({**event, "type": names.ITEM_CREATED, "payload": item} for item in items)


def project_tracker(events: Iterable[Row]) -> View:
    """`{"version": 1, "items": [...]}`."""
    return tracker_document(project_items(events).values())


def tracker_document(items: Iterable[Mapping[str, Any]]) -> View:
    """A tracker of these items."""
    return {"version": 1, "items": [dict(item) for item in items]}


def project_agent_lifecycle(events: Iterable[Row]) -> View:
    """`{"version": 1, "agents": [...]}`: the states of each agent with their times."""
    agents: dict[str, View] = {}
    for event in events:
        payload = event["payload"]
        state = _LIFECYCLE.get(str(event["type"]).removeprefix("agent_"))
        if state is None or not isinstance(payload, Mapping) or "agent_id" not in payload:
            continue
        name = str(payload["agent_id"])
        at = payload.get("timestamp", event.get("ts"))
        agent = agents.setdefault(name, {"id": name, "state": state, "transitions": []})
        agent["state"], agent["last_activity"] = state, at
        agent["transitions"].append({"state": state, "at": at})
    return {"version": 1, "agents": [agents[name] for name in sorted(agents)]}


def project_orchestrator_status(events: Iterable[Row]) -> View:
    """The present phase, the decisions, the open findings and the newest next steps.

    `phase` is set by people, or else taken from the newest `cycle` of the scheduler.
    """
    view = no_status()
    fold_status(view, events)
    return shown_status(view)


def no_status() -> View:
    """The state that `fold_status` begins with."""
    view: View = {"version": 1, "phase": None, "phase_since": None, "cycle": None}
    return view | {"decisions": [], "next_steps": [], "findings": []}


def fold_status(view: View, events: Iterable[Row]) -> None:
    """Apply further events to a state."""
    for event in events:
        payload = event["payload"]
        if isinstance(payload, Mapping):
            _apply_status(view, event, payload)


def shown_status(view: View) -> View:
    """The view of a state: without a phase that people set, that of the newest cycle."""
    if view["phase"] is None and (cycle := view["cycle"]):
        return view | {"phase": cycle["phase"], "phase_since": cycle["since"]}
    return view


def project_agent_traces(events: Iterable[Row]) -> View:
    """Every dispatch with its use, and the totals.

    Unknown amounts are None. A total is the sum of the known amounts, or None. `unmetered` and
    `unpriced` count the ended dispatches that are not in it.
    """
    traces: dict[str, View] = {}
    bills: set[str] = set()
    for event in events:
        payload = event["payload"]
        if isinstance(payload, Mapping) and "agent_id" in payload:
            _apply_trace(traces, bills, event, payload)
    found = list(traces.values())
    ended = [trace for trace in found if trace["ended"] is not None]
    known = {key: [t[key] for t in found if t[key] is not None] for key in _USED}
    totals = {
        "dispatches": len(found),
        "running": len(found) - len(ended),
        **{key: round(sum(amounts), 6) if amounts else None for key, amounts in known.items()},
        "unmetered": sum(trace["tokens"] is None for trace in ended),
        "unpriced": sum(trace["cost_usd"] is None for trace in ended),
    }
    return {"version": 1, "agents": found, "totals": totals}


def project_wave(events: Iterable[Row]) -> View:
    """A wave: its times, its end, and each item with phase, verdict and attempts."""
    view: View = {"version": 1, "wave_id": None, "started": None, "finished": None, "items": []}
    view |= {"aborted": None, "abort_reason": None, "shipped": []}
    items: dict[str, View] = {}
    for event in events:
        payload = event["payload"]
        if isinstance(payload, Mapping):
            _apply_wave(view, items, event, payload)
    view["items"] = list(items.values())
    return view


_LIFECYCLE = {
    "dispatched": "dispatch",
    "working": "working",
    "done": "done",
    "completed": "done",
    "failed": "done",
    "stalled": "stalled",
}


def _apply_status(view: View, event: Row, payload: Row) -> None:
    at = iso_time(event["ts"])
    if event["type"] in (names.PHASE_CHANGED, names.PHASE_SET):
        if not isinstance(payload.get("phase"), str):
            return
        if isinstance(payload.get("cycle"), str):
            view["cycle"] = {"phase": payload["phase"], "wave_id": payload["cycle"], "since": at}
        else:
            view["phase"], view["phase_since"] = payload["phase"], at
    elif event["type"] == names.DECISION_LOCKED:
        view["decisions"].append({**payload, "at": at})
    elif event["type"] == names.NEXT_STEPS_UPDATED:
        view["next_steps"] = _list(payload.get("steps"))
    elif event["type"] == names.AUDIT_FINDINGS_RECORDED:
        _apply_findings(view, payload, at)


def _apply_findings(view: View, payload: Row, at: str) -> None:
    """Remove findings reported as gone. A finding reported again replaces its older entry."""
    new = [{"finding": found, "at": at} for found in _list(payload.get("findings"))]
    old = {*map(str, _list(payload.get("gone"))), *filter(None, map(_finding_id, new))}
    view["findings"] = [kept for kept in view["findings"] if _finding_id(kept) not in old] + new


def _finding_id(entry: View) -> str | None:
    finding = entry["finding"]
    name = finding.get("id") if isinstance(finding, Mapping) else None
    return name if isinstance(name, str) else None


_TRACE_FIELDS = ("item", "wave", "attempt", "phase", "backend", "model")
_USED = ("tokens_in", "tokens_out", "tokens", "cost_usd", "duration_s")
_ENDED = {names.AGENT_COMPLETED: "completed", names.AGENT_FAILED: "failed"}


def _apply_trace(traces: dict[str, View], bills: set[str], event: Row, payload: Row) -> None:
    state = _ENDED.get(event["type"])
    if state is None and event["type"] not in (names.AGENT_DISPATCHED, names.AGENT_BILLED):
        return
    name = str(payload["agent_id"])
    empty = dict.fromkeys((*_TRACE_FIELDS, *_USED, "verdict", "error", "started", "ended"))
    trace = traces.setdefault(name, {"id": name, "state": "dispatched", **empty})
    if event["type"] == names.AGENT_BILLED:
        _apply_bill(trace, payload, again=name in bills)
        bills.add(name)
        return
    known = {key: payload[key] for key in empty if payload.get(key) is not None}
    if name in bills:  # an end repeats the newest bill
        known = {key: value for key, value in known.items() if key not in _USED}
    trace |= known
    trace["ended" if state else "started"] = iso_time(event["ts"])
    trace["state"] = state or trace["state"]
    if trace["tokens"] is None:
        trace["tokens"] = _sum_if_all(trace["tokens_in"], trace["tokens_out"])


def _apply_bill(trace: View, payload: Row, *, again: bool) -> None:
    """Set the billed amounts, or add to them if the agent was started `again`."""
    trace |= {key: payload[key] for key in _TRACE_FIELDS if payload.get(key) is not None}
    for key in _USED:
        new = payload.get(key)
        trace[key] = _sum_if_all(trace[key], new) if again else new


def _sum_if_all(*amounts: float | None) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


def _apply_wave(view: View, items: dict[str, View], event: Row, payload: Row) -> None:
    at = iso_time(event["ts"])
    if event["type"] == names.WAVE_STARTED:
        view |= {"wave_id": payload.get("wave_id"), "started": at}
        for slug in _list(payload.get("items")):
            _wave_item(items, slug)
    elif event["type"] == names.WAVE_FINISHED:
        reason = payload.get("abort_reason")
        aborted = bool(payload.get("aborted", reason is not None))
        view |= {"finished": at, "aborted": aborted, "abort_reason": reason}
    elif isinstance(payload.get("slug"), str):
        _apply_wave_item(view, _wave_item(items, payload["slug"]), event["type"], payload)


def _wave_item(items: dict[str, View], slug: Any) -> View:
    unknown = dict.fromkeys(("verdict", "reason", "commit", "branch"))
    new: View = {"slug": str(slug), "phase": "waiting", **unknown, "attempts": []}
    return items.setdefault(str(slug), new)


def _apply_wave_item(view: View, item: View, kind: str, payload: Row) -> None:
    verdict = {key: payload[key] for key in ("verdict", "reason") if key in payload}
    if kind == names.ATTEMPT_STARTED:
        item["phase"] = payload.get("phase") or "build"
        item["attempts"].append({"number": payload.get("number"), "verdict": None, "reason": None})
    elif kind == names.ATTEMPT_JUDGED:
        item |= {"phase": "judged", **verdict}
        if not item["attempts"] or item["attempts"][-1]["number"] != payload.get("number"):
            item["attempts"].append({"number": payload.get("number")})
        item["attempts"][-1] |= {key: value for key, value in payload.items() if key != "slug"}
    elif kind == names.ITEM_SETTLED:
        item |= {"phase": "settled", **verdict}
    elif kind == names.ITEM_SHIPPING:
        where = {key: payload.get(key) for key in ("commit", "branch")}
        item |= {"phase": "shipping", **where, **verdict}
    elif kind == names.ITEM_SHIPPED:
        item |= {"phase": "shipped", "commit": payload.get("commit"), **verdict}
        view["shipped"].append(item["slug"])


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
