"""The registry of runs: which are under way, and the clean-up after a dead one.

Each run notes itself in `<state>/runs/<wave>/run.json` from its start to its end. A run is dead
when its process is gone; the start time tells whether its number was given to another process.
`ended_runs` has the names of folders without a note, which nobody has to look into.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from driver.domain.item_key import digest
from driver.execution.process_identity import (
    RUN_VARIABLE,
    ProcessIdentity,
    end_marked,
    identity,
    is_alive,
)
from driver.execution.process_marks import end_carrying_mark
from driver.filesystem.temporary import scratch_of_dead
from driver.filesystem.tree import remove_tree
from driver.run_state import ended_runs
from driver.workspace.run_folder import save_unfinished, sentence
from state_store.documents.files import BadFileError, read_json, write_json_atomic
from state_store.values.lazy_dataclass import asdict, dataclass

RECORD = "run.json"


def run_mark(run_dir: Path, wave_id: str) -> str:
    """The value of `RUN_VARIABLE` in the agents of a wave. A wave of the same name in another
    state folder has another one, so neither takes the other's processes for its own."""
    return f"{wave_id}@{digest(str(run_dir.resolve()))[:12]}"


@dataclass(frozen=True, slots=True)
class DeadRun:
    """A run that ended without saying so. `folders` hold its clones, `key` is the key of its
    marks."""

    wave_id: str
    record: Path
    folders: tuple[Path, ...]
    key: str = ""


@contextmanager
def noted(run_dir: Path, wave_id: str, folders: Sequence[Path], key: str = "") -> Iterator[None]:
    """This run's note in `run_dir`, there as long as the block runs."""
    record = run_dir / RECORD
    me = identity(os.getpid())
    note = {
        "wave_id": wave_id,
        "folders": [str(path) for path in folders],
        "key": key,
        "host": socket.gethostname(),
    }
    ended_runs.forget(run_dir)
    write_json_atomic(record, note | (asdict(me) if me else {"pid": os.getpid()}))
    ended_runs.forget(run_dir)  # another run may have remembered it meanwhile
    try:
        yield
    finally:
        with suppress(OSError):  # a state folder that was lost on the way
            record.unlink()


def dead_runs(state_dir: Path) -> Iterator[DeadRun]:
    """Runs of this state folder whose process is gone."""
    for record in _records(state_dir):
        found = _record(record)
        if not _is_alive(found):
            yield DeadRun(
                str(found.get("wave_id") or record.parent.name),
                record,
                tuple(Path(str(name)) for name in found.get("folders") or ()),
                str(found.get("key") or ""),
            )


def waves_alive(state_dir: Path) -> set[str]:
    """The waves of this state folder that are under way, as far as can be seen."""
    return {str(record.get("wave_id")) for record in runs_alive(state_dir)}


def runs_alive(state_dir: Path) -> list[dict[str, Any]]:
    """The notes of the runs of this state folder that are under way, as far as can be seen."""
    return list(filter(_is_alive, map(_record, _records(state_dir))))


def _records(state_dir: Path) -> list[Path]:
    """The notes of runs; faster than `Path.glob` where thousands of runs have ended."""
    runs = str(state_dir / "runs")
    with suppress(OSError):
        names = set(os.listdir(runs)).difference(ended_runs.remembered(state_dir))  # noqa: PTH208
        there = (f"{runs}{os.sep}{name}{os.sep}{RECORD}" for name in sorted(names))
        return [Path(path) for path in there if os.path.lexists(path)]
    return []


def _record(path: Path) -> dict[str, Any]:
    try:
        found = read_json(path)
    except BadFileError:
        return {}
    return found if isinstance(found, dict) else {}


def clear_up(state_dir: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Clear up after every dead run of this state folder; a sentence for each thing done. Temporary
    folders of dead processes go as well: a run may be killed before its note is written."""
    for dead in dead_runs(state_dir):
        yield f"wave {dead.wave_id} ended without saying so"
        yield from _clear_up_one(dead, environ)
        dead.record.unlink(missing_ok=True)
    ended_runs.remember(state_dir, RECORD)
    for folder in scratch_of_dead(environ):
        with suppress(OSError):  # files of another user
            remove_tree(folder)


def _clear_up_one(dead: DeadRun, environ: Mapping[str, str]) -> tuple[str, ...]:
    """End what still runs of it, save the work in its clones as patches, remove the clones."""
    agents = end_marked(RUN_VARIABLE, run_mark(dead.record.parent, dead.wave_id))
    ended = (*agents, *end_carrying_mark(dead.key))
    told = [f"ended process {pid} of wave {dead.wave_id}" for pid in ended]
    for folder in dead.folders:
        saved = tuple(save_unfinished(folder, dead.record.parent, environ))
        told += [sentence(one, folder) for one in saved]
        if all(one.patch for one in saved):
            with suppress(OSError):  # tools/gc.py names what stays
                remove_tree(folder)
    return tuple(told)


def _is_alive(record: Mapping[str, Any]) -> bool:
    pid = record.get("pid")
    if record.get("host") not in (None, socket.gethostname()):
        return True  # another machine's: who lives there cannot be seen, its leases run out
    if not isinstance(pid, int):
        return False
    boot, numbered_by = (str(record.get(key) or "") for key in ("boot", "numbered_by"))
    # Another container's is left alone, as another machine's is.
    return is_alive(ProcessIdentity(pid, record.get("started"), boot, numbered_by)) is not False
