"""Brings the work of a wave to where other machines find it, while the wave goes on, and keeps the
ends of its outputs in the store.

That is a ref on the remote, or the store where there is no remote or it takes no such refs. Only
work that Tidegate would ship goes there, which other files and secrets keep back. Nobody waits for
it, and a failure costs no more than that another machine builds the item anew.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

from driver.agents.attempt import against
from driver.execution.worker_pool import BackgroundTask
from driver.handover.kept_outputs import OutputKeeper
from driver.handover.remote_refs import commit_of, put_refs, ref_of
from driver.run_state.context import Handover, ItemRun, Wave
from driver.run_state.leases import LeasedElsewhereError
from driver.workspace.clone_context import CloneContext
from driver.workspace.repository_context import Observed
from driver.workspace.saved_patch import Origin, with_origin
from state_store.documents.errors import TidegateError
from state_store.documents.failpoints import failpoint
from state_store.sql.unshipped import Place, Unshipped, packed
from state_store.values.lazy_dataclass import dataclass, replace


@dataclass(frozen=True, slots=True)
class _Load:
    item: ItemRun
    context: CloneContext
    patch: bytes
    place: Place


class Carrier(Handover):
    """Brings the work of a wave's items to their places. Safe to use from threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[ItemRun, str | None]] = {}
        self._task: BackgroundTask[None] | None = None
        self._is_busy = False
        self._refs: dict[str, ItemRun] = {}
        self._trees: dict[str, str] = {}
        self._has_told = False
        self._outputs: OutputKeeper | None = OutputKeeper()

    def offer(self, item: ItemRun, tree: str | None) -> None:
        """A step of the item is recorded, and its work is `tree` now, if it has any."""
        with self._lock:
            before = self._waiting.get(item.slug)
            self._waiting[item.slug] = item, tree or (before[1] if before else None)
            if not self._is_busy:
                self._is_busy = True
                self._task = BackgroundTask(self._carry)

    def inherit(self, item: ItemRun, ref: str) -> None:
        """An earlier run put the item's work at a ref."""
        self._refs[ref] = item

    def close(self, wave: Wave) -> None:
        """Bring what still waits to its place, and remove the refs of work that has shipped or is
        somewhere else now. What cannot be removed is left to `gc`."""
        if self._task is not None:
            self._task.result()
        for item in wave.items:
            self._keep_outputs(item)
        over = defaultdict[CloneContext, dict[str, str]](dict)
        with suppress(TidegateError):
            for ref, item in self._refs.items():
                row, context = _row_of(item), item.repository
                if context is not None and (row is None or row.place.ref != ref):
                    over[context][ref] = ""
        for context, refs in over.items():
            if context.remote is not None:
                put_refs(context.git.path, context.git.environ, context.remote, refs)

    def _carry(self) -> None:
        while True:
            with self._lock:
                some, self._waiting = self._waiting, {}
                if not some:
                    self._is_busy = False
                    return
            loads = []
            for item, tree in some.values():
                if tree is None or self._trees.get(item.slug) == tree:
                    continue
                with suppress(TidegateError, OSError):  # the step that comes to it reports it
                    loads += [load] if (load := _load_of(item, tree)) is not None else []
            for context in dict.fromkeys(load.context for load in loads):
                try:
                    self._bring(context, [load for load in loads if load.context is context])
                except (TidegateError, OSError) as trouble:
                    self._tell(loads[0].item.wave, str(trouble))
            for item, _ in some.values():
                self._keep_outputs(item)

    def _keep_outputs(self, item: ItemRun) -> None:
        """Keep the item's outputs, unless that failed before in this wave: each try may wait."""
        if self._outputs is None:
            return
        try:
            self._outputs.keep(item)
        except LeasedElsewhereError:  # the machine that has the item now keeps its own
            return
        except (TidegateError, OSError) as trouble:
            self._outputs = None
            item.wave.recorder.say(f"outputs are not in the database for other machines: {trouble}")

    def _bring(self, context: CloneContext, loads: Sequence[_Load]) -> None:
        on_remote = {load.place.ref: load.place.commit for load in loads if load.place.ref}
        failed: dict[str, str] = {}
        if context.remote is not None and on_remote:
            self._refs |= {load.place.ref: load.item for load in loads if load.place.ref}
            failed = put_refs(context.git.path, context.git.environ, context.remote, on_remote)
        for load in loads:
            place = load.place
            if place.ref in failed:
                self._tell(load.item.wave, failed[place.ref])
                place = place._replace(ref="", commit="")
            with suppress(LeasedElsewhereError):
                self._note(replace(load, place=place))

    def _note(self, load: _Load) -> None:
        """Tell others where the work is, in a transaction that asks for the lease."""
        item, place = load.item, load.place
        item.wave.recorder.handed_over(item.key, place, "" if place.ref else packed(load.patch))
        self._trees[item.slug] = place.tree
        failpoint("handover.noted")

    def _tell(self, wave: Wave, why: str) -> None:
        if not self._has_told:
            self._has_told = True
            wave.recorder.say(f"unshipped work is not on the remote for other machines: {why}")


def _row_of(item: ItemRun) -> Unshipped | None:
    """The row of the item's work, while that is not shipped."""
    rows = item.wave.recorder.store.read_unshipped(lambda book: book.of([item.slug]))
    return (rows or {}).get(item.slug)


def _load_of(item: ItemRun, tree: str) -> _Load | None:
    """The item's work and its place; None if it may not or need not leave this machine."""
    context, wave = item.repository, item.wave
    if context is None or tree == context.base_tree or _row_of(item) is None:
        return None
    git = context.git
    if against(item, Observed(git.changes(context.base_tree, tree), tree)) is not None:
        return None
    patch = git.patch(context.base_tree, tree)
    if len(patch) > wave.settings.state.unshipped_max:
        return None
    place = Place(context.base, tree, size=len(patch))
    if context.remote is not None and wave.shipping.is_wanted:
        ref = ref_of(wave.settings.state.schema, item.slug, wave.wave_id, tree)
        commit = commit_of(git, tree, context.base, wave.settings)
        place = place._replace(ref=ref, commit=commit)
    return _Load(item, context, with_origin(patch, Origin(context.base)), place)
