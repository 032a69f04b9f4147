"""Shows the user the state of a cycle: its current phase, STATE.md and BUILDLOG.md.

These files decide nothing, so a failure is reported and never ends a cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from driver.scheduler.backlog import ACTOR
from driver.terminal.progress import Progress
from state_store.api import StateAPI
from state_store.database import events
from state_store.documents.errors import TidegateError
from state_store.values.lazy_dataclass import dataclass
from state_store.views.export import export_buildlog, export_state_md

TRACKER, IDLE = "tracker", "idle"  # phases in addition to those that a report can end in
STATE_MD, BUILDLOG_MD = "STATE.md", "BUILDLOG.md"


@dataclass(frozen=True)
class CycleStatus:
    """The status of the cycle `wave_id`, kept in `api` and shown in `state_dir`."""

    api: StateAPI
    state_dir: Path
    wave_id: str
    progress: Progress

    @contextmanager
    def shown(self) -> Iterator[CycleStatus]:
        """After the block, however it ends, the cycle is idle and both files are written."""
        try:
            yield self
        finally:
            self.enter(IDLE)
            with self._reporting():
                export_state_md(self.api, self.state_dir / STATE_MD)
            with self._reporting():
                export_buildlog(self.api, self.state_dir / BUILDLOG_MD)

    def enter(self, phase: str) -> None:
        """Record that the cycle is in this phase from now on."""
        payload = {"phase": phase, "cycle": self.wave_id}
        with self._reporting():
            self.api.append(events.ORCHESTRATOR_STATUS, events.PHASE_CHANGED, payload, ACTOR)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except TidegateError as trouble:
            self.progress.say(str(trouble))
