"""Guards the checkout while an item is at work: what changes there may be attributed to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from driver.checkout_guard.fingerprint import STATE
from driver.checkout_guard.guard import CheckoutChange
from driver.run_state.context import ItemRun

Strays = Callable[[], tuple[CheckoutChange, ...]]


@contextmanager
def watched(item: ItemRun) -> Iterator[Strays]:
    """While the block runs this item is at work; what it gives tells what is held against it."""
    checkout_guard = item.context.checkout_guard
    if checkout_guard is None:
        yield lambda: ()
        return

    def strays() -> tuple[CheckoutChange, ...]:
        if entry := item.wave.recorder.altered_entry(item.key):
            checkout_guard.report(f"{STATE}{entry.parent.name}/{entry.name}")
        return checkout_guard.changes_of(item.slug)

    with checkout_guard.guarded(item.slug, item.planned.owned):
        yield strays
