"""Slots: a number and ports for each test and agent, which nothing else of Tidegate's on this
machine has at the same time.

The last port of a slot is kept bound while the slot is in use. So the system itself keeps two runs
apart, also those of other users, and frees the slot of a killed run.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager

SLOT, PORT_BASE = "TIDEGATE_SLOT", "TIDEGATE_PORT_BASE"
FIRST_PORT, PORTS, SLOTS = 20_000, 100, 120  # below the ports that systems give out by themselves


@contextmanager
def slot() -> Iterator[dict[str, str]]:
    """The variables of the lowest free slot, which is in use until the block ends. There are no
    variables if every slot is in use."""
    for number in range(SLOTS):
        base = FIRST_PORT + number * PORTS
        with socket.socket() as guard:
            try:
                guard.bind(("", base + PORTS - 1))
            except OSError:
                continue
            yield {SLOT: str(number), PORT_BASE: str(base)}
            return
    yield {}


@contextmanager
def slot_if_wanted(command: str, names: Collection[str]) -> Iterator[dict[str, str]]:
    """A slot for a test whose command, or `[verify] env` as `names`, has one of the two variables.
    Other tests get none, so that code cannot tell by them where it is tested."""
    if any(name in names or name in command for name in (SLOT, PORT_BASE)):
        with slot() as variables:
            yield variables
    else:
        yield {}
