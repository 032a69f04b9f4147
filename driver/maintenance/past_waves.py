"""Past waves in the state folder: their reports and patches. Reads only. A killed wave has no
report. A damaged report counts as missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from driver.reports.documents import whole_record
from driver.run_state.run_registry import RECORD, dead_runs
from driver.workspace.saved_patch import INTERRUPTED, WORK
from state_store.documents.files import BadFileError, read_json
from state_store.values.lazy_dataclass import dataclass

Json = Mapping[str, Any]
REPORT = "report.json"


@dataclass(frozen=True, slots=True)
class PastWave:
    """A folder of `<state>/runs`, with the report of its wave, {} without a report."""

    folder: Path
    report: Json

    @property
    def wave_id(self) -> str:
        """The wave's id in its report, else the folder's name."""
        return str(self.report.get("wave_id") or self.folder.name)

    @property
    def patches(self) -> list[Path]:
        """The patches of saved work."""
        found = (self.folder.glob(f"*/{name}") for name in (WORK, INTERRUPTED))
        return sorted(path for paths in found for path in paths if path.is_file())

    @property
    def built(self) -> list[Json]:
        """The records of its items, without the parts that their own files have."""
        return objects_in(self.report.get("built"))

    def whole(self, record: Json) -> Json:
        """The whole record of an item."""
        return whole_record(record, self.folder)

    @property
    def shipments(self) -> list[Json]:
        """The report's record of each repository."""
        return objects_in(self.report.get("shipped_repos"))

    def started_from(self, repo: Path) -> str | None:
        """The branch that was checked out when the wave began, if the report names it."""
        for base in objects_in(self.report.get("base")):
            if base.get("repo") == str(repo) and base.get("branch"):
                return str(base["branch"])
        return None


def past_waves(state_dir: Path) -> Iterator[PastWave]:
    """Every wave that has a folder, by name."""
    for folder in sorted((state_dir / "runs").glob("*/")):
        if not folder.is_symlink():
            yield PastWave(folder, _report(folder / REPORT))


def live_waves(state_dir: Path) -> frozenset[str]:
    """The folder names of the running waves."""
    dead = {run.record for run in dead_runs(state_dir)}
    noted = set((state_dir / "runs").glob(f"*/{RECORD}"))
    return frozenset(record.parent.name for record in noted - dead)


def _report(path: Path) -> Json:
    try:
        found = read_json(path)
    except BadFileError:
        return {}
    if isinstance(found, dict) and isinstance(found.get("wave"), dict):
        found = found["wave"]  # the report of a cycle
    return found if isinstance(found, dict) else {}


def objects_in(found: object) -> list[Json]:
    """The objects in a JSON list; none if it is no list."""
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
