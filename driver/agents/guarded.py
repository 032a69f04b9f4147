"""An item is at work: what changes elsewhere meanwhile may be held against it (`tripwire`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from driver.checkout_guard.fingerprint import STATE
from driver.checkout_guard.guard import CheckoutChange
from driver.run_state.context import Planned, Wave

Strays = Callable[[], tuple[CheckoutChange, ...]]


@contextmanager
def watched(planned: Planned, wave: Wave) -> Iterator[Strays]:
    """While the block runs this item is at work; what it gives tells what is held against it."""
    tripwire = wave.ground_of(planned).checkout_guard
    if tripwire is None:
        yield lambda: ()
        return

    def strays() -> tuple[CheckoutChange, ...]:
        if entry := wave.recorder.altered_entry(wave.subject(planned)):
            tripwire.report(f"{STATE}{entry.parent.name}/{entry.name}")
        return tripwire.strays(planned.slug)

    with tripwire.at_work(planned.slug, planned.owned):
        yield strays
