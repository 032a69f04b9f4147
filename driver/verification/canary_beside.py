"""Runs the canary of work beside the proof, while a slot for tests is idle.

The canary judges a proof, and needs nothing of it to run. So with two idle slots an item waits for
one run in place of two. It is done only where tests share nothing that they can write: else one run
could disturb the other, or know by it which of the two is the canary. A proof that is not accepted,
or is repeated, ends the run.
"""

from __future__ import annotations

import threading

from driver.execution.worker_pool import BackgroundTask
from driver.policy.acceptance import is_chosen
from driver.runners.canary import may_plan
from driver.runners.runner import NotApplicable
from driver.verification.alone import beside_proof
from driver.verification.canary_run import Planted, may_be_check, plan, plant
from driver.verification.test_run import ItemWork, own_test
from state_store.documents.errors import TidegateError
from state_store.values.lazy_dataclass import replace

_TICK_S = 0.1
_NOT_WANTED = "the proof does not need it"
_NEED_THE_PROOF = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")


class CanaryBeside:
    """The canary run of some work. `begin` lets it begin, `take` gives it, `close` ends it. For one
    thread, which proves the work."""

    def __init__(self, work: ItemWork) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._is_begun, self._over = False, threading.Event()
        self._task: BackgroundTask[Planted | None] | None = None

    def begin(self) -> None:
        """The proof begins, so the canary may take a slot that is idle. A proof that begins again
        may have been disturbed by it, or both by others."""
        if self._task is not None:
            self.close()
        elif _may_begin(self._work):
            self._task = BackgroundTask(self._run)

    def take(self) -> Planted | None:
        """The run, once it ends; None if it has not begun, or gave no answer."""
        with self._lock:
            if self._task is None or not self._is_begun:
                self._over.set()
                return None
        return self._task.result()

    def close(self) -> None:
        """End the run, or do not begin it."""
        self._over.set()
        while self._task is not None and not self._task.wait(_TICK_S):
            pass

    def _run(self) -> Planted | None:
        """The run, begun as soon as a slot is idle; None if it is not wanted any more."""
        work, item, tree = self._work, self._work.item, self._work.tree
        item.wave.turns.wait_for_idle(self._over.is_set)
        with self._lock:
            if self._over.is_set() or item.wave.gates.stop.is_set or tree is None:
                return None
            self._is_begun = True
        share = item.planned.policy.spot_check_frac
        is_fresh = is_chosen(item.wave.wave_id, item.slug, share) and may_be_check(work)
        try:
            with item.workspace.test_checkout(tree, fresh=is_fresh) as checkout:
                canary = plan(work, checkout.path)
                if isinstance(canary, NotApplicable) or canary.path.endswith(_NEED_THE_PROOF):
                    return None
                own = own_test(item)
                test = replace(own, variant_of=beside_proof(own.name)[1], watch=self._watch)
                planted = plant(work, checkout, tree, canary, "", test, is_fresh=is_fresh)
        except (TidegateError, OSError):
            return None  # a run after the proof will tell what is wrong
        return None if self._over.is_set() else planted

    def _watch(self, root: int, printed: int) -> str:
        """The reason to end the run; "" for none."""
        del root, printed
        return _NOT_WANTED if self._over.is_set() else ""


def _may_begin(work: ItemWork) -> bool:
    """True if the work gets a canary test, and two runs of its test may take place at once."""
    item, own = work.item, own_test(work.item)
    return (
        item.wave.settings.verify.canary
        and work.tree is not None
        and item.wave.walls.part_tests
        and item.wave.turns.may_share(own.name, own.alone)
        and may_plan(own.command)
    )
