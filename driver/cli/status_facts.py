"""Collects the facts that `tidegate status` shows: items, waves, who works where, and the budget.

Reads the tracker file, the newest rows of the database and small files. Heavy modules are imported
only while a wave runs, or where the settings are not plain.
"""

from __future__ import annotations

import json
import os
import time

from state_store.sql.addresses import address_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from state_store.sql.addresses import HaltRow

DATABASE, TRACKER, HALT = "tracker_events.db", "tracker.json", ".HALT"
_LARGEST_TRACKER = 16_000_000


def facts(state_dir: str | None, waves: int) -> dict[str, Any]:
    """The whole document of `status --json`, without its `schema`."""
    folder, ceilings, notes = _places(state_dir)
    now = time.time()
    running = _running(folder)
    items, problem = _items(folder)
    found: dict[str, Any] = {
        "state_dir": folder,
        "at": iso(now),
        "halt": _halt(folder),
        "running": running,
        "items": _described(items, {str(one["slug"]) for it in running for one in it["items"]}),
    }
    found |= _of_database(folder, waves, now)
    found["budget"]["ceilings"] = ceilings
    row = found.pop("halt_row")
    found["halt"] = found["halt"] if found["problem"] else _halts(row, found["halt"], folder)
    found["parked"] = _parked(folder, found["waves"], now)
    found["notes"] = [*notes, *filter(None, (problem, found.pop("problem")))]
    return found


def iso(seconds: float | None) -> str | None:
    """Seconds since the epoch as 2026-01-31T10:20:30Z."""
    return None if seconds is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _places(flag: str | None) -> tuple[str, dict[str, float] | None, list[str]]:
    """The state folder, the ceilings (None: unknown), and notes about the settings."""
    from tools.settings.quick import quick_ceilings, quick_top

    cwd = os.getcwd()
    top = quick_top(cwd)
    ceilings = quick_ceilings(top, cwd, os.environ)
    named = flag or os.environ.get("TIDEGATE_STATE_DIR") or ""
    if ceilings is not None and not named.startswith("~"):
        return os.path.join(cwd, named) if named else os.path.join(top, "state"), ceilings, []
    from state_store.documents.errors import InputError
    from tools.settings.load import load, resolve_state_dir, resolve_store
    from tools.settings.quick import CEILINGS

    try:
        limits = load(flags={"state_dir": flag}).limits
        known = {name: getattr(limits, name) for name in CEILINGS}
        ceilings = {name: float(value) for name, value in known.items() if value is not None}
        notes = []
    except InputError as error:
        ceilings, notes = None, [f"the ceilings are unknown: {error}"]
    try:
        return str(resolve_store(flag)), ceilings, notes
    except InputError:  # which the notes tell
        return str(resolve_state_dir(flag)), ceilings, notes


def _halt(folder: str) -> dict[str, Any] | None:
    path = os.path.join(folder, HALT)
    if not os.path.lexists(path):
        return None
    held = _json(path)
    reason = held.get("reason") if isinstance(held, dict) else None
    since = held.get("timestamp") if isinstance(held, dict) else None
    return {"reason": str(reason or f"the file {path} exists"), "since": since}


def _halts(row: HaltRow | None, here: dict[str, Any] | None, folder: str) -> dict[str, Any] | None:
    """The halt of all machines, else that of this one, unless it is the copy of one that ended."""
    if row is not None:
        return {"reason": row.reason, "since": iso(row.since), "by": row.by}
    held = _json(os.path.join(folder, HALT)) if here and address_of(folder) else None
    return None if isinstance(held, dict) and held.get("row") else here


def _running(folder: str) -> list[dict[str, Any]]:
    """The waves under way, with host, process and the phase of each item."""
    runs = os.path.join(folder, "runs")
    try:
        if not any(os.path.isfile(os.path.join(runs, one, "run.json")) for one in os.listdir(runs)):
            return []
    except OSError:  # no run has begun
        return []
    from pathlib import Path

    from driver.run_state.run_registry import runs_alive
    from state_store.place import open_store
    from state_store.views.wave_progress import read_progress

    records = runs_alive(Path(folder))
    if not records:
        return []
    found = []
    with open_store(os.path.join(folder, DATABASE)) as store:
        for record in records:
            progress = read_progress(store, str(record.get("wave_id")))
            host = {key: record.get(key) for key in ("host", "pid")}
            found.append({**host, **progress.to_json(), "started": iso(progress.started)})
    return sorted(found, key=lambda one: str(one["started"]))


def _json(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError, RecursionError):
        return None


def _items(folder: str) -> tuple[list[dict[str, Any]], str]:
    """The items of the tracker file, which people edit, or else those of the store; and the reason
    why the file cannot be read. Where machines share a store, it is newer than the file."""
    path, problem = os.path.join(folder, TRACKER), ""
    if address_of(folder) and (shared := _items_of_store(folder)):
        return shared, ""
    if os.path.isfile(path) and os.path.getsize(path) <= _LARGEST_TRACKER:
        held = _json(path)
        entries = held.get("items") if isinstance(held, dict) else held
        if isinstance(entries, list):
            return [item for item in entries if isinstance(item, dict)], ""
        problem = f"{path} cannot be read: the items are those of the last run"
    is_there = os.path.isfile(os.path.join(folder, DATABASE)) and not address_of(folder)
    return (_items_of_store(folder) if is_there else []), problem


def _items_of_store(folder: str) -> list[dict[str, Any]]:
    """The items of the store; none if it cannot be read, which `_of_database` tells."""
    from state_store.views.store_summary import Error, StoreSummary

    try:
        with StoreSummary(os.path.join(folder, DATABASE)) as summary:
            return summary.items()
    except (*Error, ValueError):
        return []


def _described(items: list[dict[str, Any]], at_work: set[str]) -> dict[str, Any]:
    counts: dict[str, int] = {}
    for item in items:
        status = str(item.get("status"))
        counts[status] = counts.get(status, 0) + 1
    now = iso(time.time()) or ""
    by_id = {str(one): it for it in items for one in (it.get("id"), it.get("slug"))}
    listed: dict[str, list[dict[str, Any]]] = {"running": [], "waiting": [], "blocked": []}
    for item in items:
        status = str(item.get("status"))
        if status in ("todo", "claimed") and str(item.get("slug")) in at_work:
            listed["running"].append(_named(item, ""))
        elif status == "blocked":
            why = item.get("lastError") or item.get("notes") or "see its notes"
            listed["blocked"].append(_named(item, str(why)))
        elif status in ("todo", "claimed") and (why := _wait(item, by_id, now)):
            listed["waiting"].append(_named(item, why))
    return {"counts": counts, **listed}


def _named(item: Mapping[str, Any], reason: str) -> dict[str, Any]:
    return {**{key: item.get(key) for key in ("id", "slug", "title")}, "reason": reason or None}


def _wait(item: Mapping[str, Any], by_id: Mapping[str, Any], now: str) -> str:
    """The reason why an item to do is not taken yet; "" if it may be."""
    until = item.get("nextAttemptAt")
    if isinstance(until, str) and until > now:
        error = item.get("lastError")
        return f"until {until}" + (f": {error}" if error else "")
    needs = item.get("dependsOn") or ()
    for need in [needs] if isinstance(needs, str) else needs:
        other = by_id.get(str(need))
        if other is None:
            return f"for {need}, which is not in the tracker"
        if other.get("status") == "in_progress":
            return f"for {need}, which is shipped and not merged yet"
        if other.get("status") not in ("done", "archived"):
            return f"for {need}"
    return ""


def _of_database(folder: str, most: int, now: float) -> dict[str, Any]:
    """The newest waves and the use of this UTC day."""
    path = os.path.join(folder, DATABASE)
    empty: dict[str, Any] = {"waves": [], "budget": {}, "problem": "", "halt_row": None}
    elsewhere = address_of(folder)
    if not (elsewhere or os.path.lexists(path)):
        return empty
    if not (elsewhere or os.path.isfile(path)):
        return {**empty, "problem": f"the database {path} is not a regular file"}
    from state_store.views.store_summary import Error, StoreSummary

    try:
        with StoreSummary(path) as summary:
            waves = [summary.wave(name) for name in summary.newest_waves(most)]
            budget = summary.day((iso(now) or "")[:10])
            halted = summary.halt_row()
    except (*Error, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return {**empty, "problem": f"the database {path} cannot be read: {error}"}
    times = ("started", "finished")
    shown = [{**wave, **{key: iso(wave[key]) for key in times}} for wave in waves]
    return {"waves": shown, "budget": budget, "problem": "", "halt_row": halted}


def _parked(folder: str, waves: list[dict[str, Any]], now: float) -> dict[str, Any] | None:
    """The backend's pause, if the newest wave ended for it and it still lasts."""
    if not waves or waves[0]["abort_reason"] != "parked":
        return None
    from driver.reports.documents import wave_of

    report = _json(os.path.join(folder, "runs", waves[0]["wave_id"], "report.json"))
    wave = wave_of(report) if isinstance(report, dict) else {}
    until = wave.get("parked_until")
    if isinstance(until, str) and until <= (iso(now) or ""):
        return None
    return {"wave_id": waves[0]["wave_id"], "until": until, "reason": wave.get("error")}


def next_steps(found: Mapping[str, Any], program: str) -> Iterator[str]:
    """The commands that help on, the most urgent first."""
    counts = found["items"]["counts"]
    if found["halt"]:
        yield f"{program} halt --clear    lets runs start again"
    if found["running"]:
        yield f"{program} logs -f    follows what is printed"
    elif counts.get("todo") or counts.get("claimed"):
        yield f"{program} run --execute    runs the next wave"
    elif not counts:
        yield f"{program} init    sets up this repository"
    elif not found["items"]["blocked"]:
        yield f"{program} add TITLE --owns PATH --test CMD    adds work"
    if found["items"]["blocked"]:
        yield "set a blocked item to todo in the tracker to try it again"
    if counts.get("in_progress"):
        yield "git branch --list 'wave/*'    shipped work to merge; the next run sets it to done"
