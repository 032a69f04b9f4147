"""Loads the handover of work to other machines only where machines share the store."""

from __future__ import annotations

from driver.run_state.context import Handover, Wave
from state_store.database.interface import Store


def handover_of(store: Store) -> Handover:
    """The handover of a wave's work."""
    if not store.folder:
        return Handover()
    from driver.handover.carrier import Carrier  # noqa: PLC0415 - only with other machines

    return Carrier()


def take_over(wave: Wave) -> None:
    """Take over the work of other machines' runs, if a resume is asked for."""
    if wave.recorder.folder and wave.resume:
        from driver.handover import taking_over  # noqa: PLC0415 - only with other machines

        taking_over.take_over(wave)
