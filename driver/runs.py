"""Which runs are under way, and what a dead one left: its processes are ended, its work is saved.

Each run notes itself in `<state>/runs/<wave>/run.json` from its start to its end. A run is dead
when its process is gone; that a number was given to another process is told by its start time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from driver.git import PrivateGit
from driver.living import Identity, end_marked, identity
from state_store.errors import TidegateError
from state_store.files import BadFileError, read_json, write_bytes_atomic, write_json_atomic

RECORD = "run.json"
RUN_VARIABLE = "TIDEGATE_RUN"


@dataclass(frozen=True, slots=True)
class DeadRun:
    """A run that ended without saying so. `folders` hold its clones."""

    wave_id: str
    record: Path
    folders: tuple[Path, ...]


@contextmanager
def noted(run_dir: Path, wave_id: str, folders: Sequence[Path]) -> Iterator[None]:
    """This run's note in `run_dir`, there as long as the block runs."""
    record = run_dir / RECORD
    me = identity(os.getpid())
    note = {"wave_id": wave_id, "folders": [str(path) for path in folders]}
    write_json_atomic(record, note | (asdict(me) if me else {"pid": os.getpid()}))
    try:
        yield
    finally:
        with suppress(OSError):  # a state folder that was lost on the way
            record.unlink()


def dead_runs(state_dir: Path) -> Iterator[DeadRun]:
    """Runs of this state folder whose process is gone."""
    for record in sorted((state_dir / "runs").glob(f"*/{RECORD}")):
        try:
            found = read_json(record)
        except BadFileError:
            found = {}
        if isinstance(found, dict) and not _is_alive(found):
            yield DeadRun(
                str(found.get("wave_id") or record.parent.name),
                record,
                tuple(Path(str(name)) for name in found.get("folders") or ()),
            )


def clear_up(state_dir: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Clear up after every dead run of this state folder; a sentence for each thing done."""
    for dead in dead_runs(state_dir):
        yield f"wave {dead.wave_id} ended without saying so"
        yield from _clear_up_one(dead, environ)
        dead.record.unlink(missing_ok=True)


def _clear_up_one(dead: DeadRun, environ: Mapping[str, str]) -> tuple[str, ...]:
    """End what still runs of it, save the work in its clones as patches, remove the clones."""
    told = [
        f"ended process {pid} of wave {dead.wave_id}"
        for pid in end_marked(RUN_VARIABLE, dead.wave_id)
    ]
    for folder in dead.folders:
        for clone in sorted((folder / "items").glob("*")):
            patch = _salvage(folder, clone, dead.record.parent, environ)
            if patch is not None:
                told.append(f"saved the unfinished work on {clone.name} as {patch}")
        shutil.rmtree(folder, ignore_errors=True)
    return tuple(told)


def _salvage(folder: Path, clone: Path, run_dir: Path, environ: Mapping[str, str]) -> Path | None:
    """What differs in a clone from its base, as a patch beside the item's other files."""
    try:
        git = PrivateGit.reopen(folder / "private.git", environ)
        base = (folder / "base").read_text(encoding="ascii").strip()
        now = git.collect(clone, folder / "indexes" / clone.name, ())
        patch = git.patch(git.tree_of(base), now)
    except (OSError, TidegateError):
        return None
    if not patch:
        return None
    path = run_dir / clone.name / "interrupted.patch"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes_atomic(path, patch)
    return path


def _is_alive(record: Mapping[str, Any]) -> bool:
    pid = record.get("pid")
    if not isinstance(pid, int):
        return False
    noted_as = Identity(pid, record.get("started"), str(record.get("boot") or ""))
    return identity(pid) == noted_as
