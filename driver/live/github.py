"""The lines of a wave in a job of GitHub Actions: one group, and a mark on each red item.

Only this module writes workflow commands. No other line can be one: each begins with `tidegate:`,
and `terminal.progress` breaks the commands that count in the middle of a line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from driver.live.board import BAD, PATIENT, row
from driver.live.wave_view import WaveView
from driver.run_state.context import Wave
from driver.terminal.safe_text import describe_verdict, workflow_message, workflow_property
from state_store.documents.errors import TidegateError
from state_store.views.wave_progress import WaveProgress

_MOST_OF_A_KIND = 10  # GitHub shows no more of one step


@contextmanager
def grouped(wave: Wave) -> Iterator[None]:
    """Put the wave's lines into a group, and mark its items after it."""
    progress = wave.options.progress
    progress.command(command("group", f"tidegate wave {wave.wave_id}"))
    try:
        yield
    finally:
        progress.command(command("endgroup"))
        with suppress(TidegateError):
            for line in marks_of(WaveView(wave).progress, ships=wave.shipping.is_wanted):
                progress.command(line)


def marks_of(progress: WaveProgress, *, ships: bool) -> Iterator[str]:
    """An error for each red item, and a warning for each other one that did not come through."""
    errors, warnings = list[str](), list[str]()
    for item in progress.items.values():
        tone = row(item, 0.0).tone
        unshipped = ships and item.verdict == "verified" and not item.shipped
        said = "verified, not shipped" if unshipped else ""
        said = said or describe_verdict(item.verdict or "not run", item.reason)
        if tone == BAD:
            errors.append(command("error", said, title=f"tidegate: {item.slug}"))
        elif tone == PATIENT or unshipped:
            warnings.append(command("warning", said, title=f"tidegate: {item.slug}"))
    yield from errors[:_MOST_OF_A_KIND]
    yield from warnings[:_MOST_OF_A_KIND]


def command(name: str, data: str = "", *, title: str = "") -> str:
    """A workflow command whose data and title cannot end it or begin another."""
    properties = f" title={workflow_property(title)}" if title else ""
    return f"::{name}{properties}::{workflow_message(data)}"
