"""Shows the state (items, waves, traces, events) and merges the tracker file with the store.

Views and merges are in `state_store`. A view creates no database.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:  # run as a file, or imported by its bare name
    _ROOT = str(Path(__file__).resolve().parents[1])
    if __name__ == "__main__":
        sys.path[0] = _ROOT  # import from the checkout, not from this folder
    else:
        from importlib import import_module

        sys.path.append(_ROOT)
        sys.modules[__name__] = import_module("tools.state")

from state_store.documents.errors import ExitCode, InputError
from state_store.views.store_summary import wave_named
from tools.program import program
from tools.program import show as show_answer

if TYPE_CHECKING:
    import argparse

    from state_store.api import StateAPI

CONFLICT = 1  # `sync` left an item for a person to decide


def main(argv: Sequence[str] | None = None) -> int:
    """The program. Exit code 1 if `sync` leaves conflicts."""
    from driver.cli.flags import Parser

    parser = Parser(prog="state.py", description="Show the state of the runs.")
    views = parser.add_subparsers(dest="what", required=True)
    items = views.add_parser("items", help="the backlog in the store")
    waves = views.add_parser("waves", help="all waves: start, end, shipped items")
    wave = views.add_parser("wave", help="one wave: verdict, attempts and commit of each item")
    traces = views.add_parser("traces", help="every dispatch of an agent, and its use")
    status = views.add_parser("status", help="phase, newest cycle, decisions, next steps")
    events = views.add_parser("events", help="the events of a stream")
    settle = views.add_parser("sync", help="merge tracker file and store")
    wave.add_argument("name", metavar="ID", help="a wave's id, or a prefix of it")
    events.add_argument("name", metavar="STREAM", help="tracker, claims, wave:<id>, ...")
    events.add_argument("--after", metavar="N", type=int, default=0, help="after this version")
    settle.add_argument("--tracker", metavar="FILE", help="(default: STATE_DIR/tracker.json)")
    settle.add_argument(
        "--prefer", metavar="ID=SIDE", action="append", default=[], help="SIDE: file or store"
    )
    copy = views.add_parser("copy", help="copy everything to another database")
    place = "a state folder, a file, postgresql://..., or url for the one of [state] url"
    copy.add_argument("source", metavar="FROM", help=place)
    copy.add_argument("target", metavar="TO", help="likewise; it has to be empty")
    schema = "(default: [state] schema)"
    copy.add_argument("--from-schema", metavar="NAME", help=f"the schema in FROM {schema}")
    copy.add_argument("--to-schema", metavar="NAME", help=f"the schema in TO {schema}")
    views.metavar = f"{{{','.join(views.choices)}}}"  # named if it is missing
    for view in (items, waves, wave, traces, status, events, settle):
        view.add_argument("--state-dir", help="the state folder (default: that of the settings)")
    return program(parser, _act, argv)


def _act(asked: argparse.Namespace) -> int:
    if asked.what == "copy":
        from driver.maintenance.state_copy import copied

        return copied(asked)
    from state_store.api import StateAPI
    from state_store.place import has_begun
    from state_store.write_api import STATE_DB_FILENAME
    from tools.settings import load as settings

    path = settings.resolve_store(asked.state_dir) / STATE_DB_FILENAME
    if not has_begun(path):
        raise InputError(f"there is no database {path}; name its folder with --state-dir")
    with StateAPI(path) as api:
        return sync(api, asked) if asked.what == "sync" else show(api, asked)


def show(api: StateAPI, asked: argparse.Namespace) -> int:
    """Print a view: one JSON document, or a line for each entry."""
    found, lines = {
        "items": _items,
        "waves": _waves,
        "wave": _wave,
        "traces": _traces,
        "status": _status,
        "events": _events,
    }[asked.what](api, asked)
    show_answer(found, lines, as_json=asked.json)
    return ExitCode.DONE


def sync(api: StateAPI, asked: argparse.Namespace) -> int:
    """Merge tracker file and store, and resolve conflicts by `--prefer`."""
    from dataclasses import asdict

    from state_store.tracker.ingest import sync_tracker

    preferences = {}
    for text in asked.prefer:
        item_id, _, side = text.rpartition("=")
        if not item_id or side not in ("file", "store"):
            raise InputError(f"--prefer {text} is not ID=file or ID=store")
        preferences[item_id] = side
    tracker = Path(asked.tracker) if asked.tracker else api.store.path.parent / "tracker.json"
    report = sync_tracker(api, tracker, "state", preferences)
    conflicts = [str(conflict) for conflict in report.conflicts]
    done = f"{report.ingested} events taken in, {report.exported} items written to the file"
    lines = (done, *conflicts, *report.problems)
    show_answer({**asdict(report), "conflicts": conflicts}, lines, as_json=asked.json)
    return CONFLICT if conflicts else ExitCode.DONE


View = tuple[Any, Iterable[str]]


def _items(api: StateAPI, _: argparse.Namespace) -> View:
    found = api.project("tracker")
    return found, (_line(i["id"], i.get("status"), i.get("title")) for i in found["items"])


def _waves(api: StateAPI, _: argparse.Namespace) -> View:
    found = [{**api.project(f"wave:{name}"), "wave_id": name} for name in api.waves()]
    found.sort(key=lambda wave: str(wave["started"]))
    return found, (
        _line(w["wave_id"], w["started"], w["finished"], f"{len(w['shipped'])}/{len(w['items'])}")
        for w in found
    )


def _wave(api: StateAPI, asked: argparse.Namespace) -> View:
    found = api.project(f"wave:{wave_named(str(api.store.path), asked.name)}")
    return found, (
        _line(i["slug"], i["verdict"] or i["phase"], len(i["attempts"]), i["commit"], i["reason"])
        for i in found["items"]
    )


def _traces(api: StateAPI, _: argparse.Namespace) -> View:
    from driver.run_state.run_registry import waves_alive

    found = api.project("agent_traces")
    living = waves_alive(api.store.path.parent)
    for agent in found["agents"]:
        if agent["ended"] is None and str(agent["wave"]) not in living:
            agent["state"] = "lost"
    totals = found["totals"]
    totals["running"] = sum(a["ended"] is None and a["state"] != "lost" for a in found["agents"])
    keys = ("id", "state", "verdict", "tokens", "cost_usd")
    lines = [_line(*map(agent.get, keys)) for agent in found["agents"]]
    lines.append(_line("total", totals["dispatches"], "", totals["tokens"], totals["cost_usd"]))
    return found, lines


def _status(api: StateAPI, _: argparse.Namespace) -> View:
    """The status with the running waves. A cycle that ended without work does not hide their
    phases; a phase that a person set stays."""
    from driver.run_state.run_registry import waves_alive

    found = api.project("orchestrator_status")
    reports = (e["payload"] | {"ts": e["ts"]} for e in api.get("orchestrator_status"))
    phases = {one.get("cycle"): one for one in reports if isinstance(one.get("phase"), str)}
    living = waves_alive(api.store.path.parent)
    running = [_running(api, wave, phases.get(wave)) for wave in living]
    running.sort(key=lambda one: str(one["since"]))
    cycle = found["cycle"] or {"phase": None, "since": None}
    if running and cycle["phase"] in (None, "idle"):
        newest = running[-1]
        if (found["phase"], found["phase_since"]) == (cycle["phase"], cycle["since"]):
            found |= {"phase": newest["phase"], "phase_since": newest["since"]}
        found["cycle"] = newest
    if running:
        found["running"] = running
    return found, (f"{key}: {json.dumps(value)}" for key, value in found.items())


def _running(api: StateAPI, wave: str, report: dict[str, Any] | None) -> dict[str, Any]:
    """Describes a running wave; one without a scheduler reports no phase."""
    from state_store.database.projections import iso_time

    if report is None:
        since = api.project(f"wave:{wave}")["started"]
        return {"phase": "dispatch", "wave_id": wave, "since": since}
    return {"phase": report["phase"], "wave_id": wave, "since": iso_time(report["ts"])}


def _events(api: StateAPI, asked: argparse.Namespace) -> View:
    if asked.name not in api.store.heads():
        known = ", ".join(sorted(api.store.heads())) or "none"
        raise InputError(f"there is no stream {asked.name}; there are: {known}")
    found = api.get(asked.name, after=asked.after)
    return found, (
        _line(e["version"], e["ts"], e["actor"], e["type"], json.dumps(e["payload"])) for e in found
    )


def _line(*cells: Any) -> str:
    """Joins cells by tabs; line breaks and tabs in a cell become spaces."""
    return "\t".join("-" if cell is None else " ".join(str(cell).split()) for cell in cells)


if __name__ == "__main__":
    sys.exit(main())
