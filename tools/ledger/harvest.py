"""Adds the use of other harnesses' agents to the ledger, once.

A file beside the ledger holds the harvested agents, and the tokens that are counted for them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from state_store.documents.files import BadFileError, read_json, write_json_atomic
from state_store.values.lazy_dataclass import dataclass, field
from tools.ledger import transcripts
from tools.ledger.rows import LEDGER, STAMP
from tools.ledger.writer import append_line

HARVEST = ".fleet-ledger-harvest.json"


@dataclass
class HarvestState:
    """The harvested agents (of older versions: transcripts), the time of the last harvest, and the
    tokens in and out that are counted for each agent."""

    seen: set[str] = field(default_factory=set)
    at: str | None = None
    counted: dict[str, tuple[int, int]] = field(default_factory=dict)


def new_rows(root: str | Path | None, state_dir: Path) -> tuple[int, int]:
    """Add a row for each new agent, and for what a known agent has used since its last row.

    Returns the number of rows, and of lines that are JSON, but no object.
    """
    path = (state_dir / LEDGER).with_name(HARVEST)
    state = load(path)
    found = transcripts.below(transcripts.root(root))
    added = 0
    for name, agent in found.agents.items():
        is_known = name in state.seen or agent.file in state.seen
        # Agents of an older harvest have no figures: what they used by now counts as harvested.
        before = state.counted.get(name, agent.tokens if is_known else (0, 0))
        after = (max(before[0], agent.tokens[0]), max(before[1], agent.tokens[1]))
        state.counted[name] = after
        entered, left = after[0] - before[0], after[1] - before[1]
        if not is_known or entered or left:
            verdict = "OK" if entered or left else "EMPTY"
            cells = (agent.stamp, "Agent", agent.model, 0, entered, left, verdict, "", "")
            append_line(state_dir, cells)
            added += 1
    if found.agents:
        state.seen |= found.agents.keys()
        state.at = datetime.now(UTC).strftime(STAMP)
        save(path, state)
    return added, found.skipped


def load(path: Path) -> HarvestState:
    """The state in a file; empty if there is none."""
    try:
        found = read_json(path)
    except BadFileError:
        return HarvestState()
    held = found if isinstance(found, dict) else {}
    state = HarvestState()
    for key in ("seen_agents", "seen"):  # the second is of older versions
        names = held.get(key)
        state.seen |= set(map(str, names)) if isinstance(names, list) else set()
    stamp = held.get("last_harvest_ts") or held.get("timestamp")
    state.at = stamp if isinstance(stamp, str) else None
    counted = held.get("counted")
    for name, pair in counted.items() if isinstance(counted, dict) else ():
        match pair:
            case [int(entered), int(left)]:
                state.counted[name] = (entered, left)
    return state


def save(path: Path, state: HarvestState) -> None:
    """Write the state. Raises CannotRunError."""
    document = {
        "seen_agents": sorted(state.seen),
        "last_harvest_ts": state.at,
        "counted": dict(sorted(state.counted.items())),
    }
    write_json_atomic(path, document)
