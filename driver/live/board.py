"""The rows and sums of a wave for people, from its progress and the signs of its agents. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from driver.backend_api.provider_fault import AWAY
from driver.live.agent_output import NO_SIGN, Sign
from driver.terminal.amounts import duration, known_cost, tokens, usd
from driver.terminal.safe_text import safe_line
from state_store.views.item_progress import (
    DONE,
    PROVIDER,
    ROOM,
    RUNNING,
    SET_UP,
    SHIPPING,
    TEST,
    TOGETHER,
    WAITING,
    ItemProgress,
)
from state_store.views.wave_progress import WaveProgress

# The tones of a row, which a screen may show as colors, and their marks, which it always shows.
LIVELY, PATIENT, GOOD, BAD, QUIET = "lively", "patient", "good", "bad", "quiet"
MARKS = {LIVELY: ">", PATIENT: ".", GOOD: "+", BAD: "!", QUIET: " "}
_GOOD_VERDICTS = ("verified", "already_green", "shipped_elsewhere")
_NO_FAULT = ("leased_elsewhere", "withdrawn", "halted", "over_budget", "no_change")
_SILENT_AFTER_S = 5.0
NO_BILL = "no bill yet"
_NO_ROOM = "agents at work have reserved the rest of a ceiling"


class Row(NamedTuple):
    """The row of an item. Texts are safe to print; an unknown amount is ""."""

    name: str
    tone: str
    phase: str
    elapsed: str = ""
    tokens: str = ""
    cost: str = ""
    silent: str = ""
    last: str = ""

    @property
    def mark(self) -> str:
        """The character for the tone."""
        return MARKS[self.tone]


class Board(NamedTuple):
    """A wave at one moment. `notes` are sentences about all of it, `totals` its sums, the most
    important first."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    totals: tuple[str, ...]


SignOf = Callable[[ItemProgress], Sign]


def board(
    progress: WaveProgress,
    now: float,
    sign_of: SignOf = lambda _: NO_SIGN,
    stopping: str = "",
) -> Board:
    """The board at `now`, in seconds since the epoch. `stopping` is why the wave ends early."""
    closed = progress.span is not None and progress.span.phase == PROVIDER
    rows = tuple(row(item, now, sign_of(item), closed=closed) for item in progress.items.values())
    return Board(rows, tuple(_notes(progress, now, stopping)), tuple(totals(progress, now)))


def row(item: ItemProgress, now: float, sign: Sign = NO_SIGN, *, closed: bool = False) -> Row:
    """The row of an item. `closed` if its provider takes no calls now."""
    span = item.span
    use = {
        "tokens": tokens(item.tokens) if item.tokens else "",
        "cost": usd(item.cost_usd) if item.cost_usd else "",
    }
    name = safe_line(item.slug)
    if span is None:
        spent = _spent(item)
        tone = _tone(item)
        why = safe_line(item.reason or "") if tone in (BAD, PATIENT) else ""
        return Row(name, tone, _worded(item), duration(spent) if spent else "", **use, last=why)
    phase = f"{span.phase} {item.repairs}" if span.phase == "repair" else span.phase
    waits_for_provider = closed and span.phase not in (SET_UP, TEST, SHIPPING)
    patient = waits_for_provider or span.phase in (PROVIDER, ROOM)
    silent_s = now - sign.at if sign.at is not None else 0.0
    return Row(
        name,
        PATIENT if patient else LIVELY,
        "waits for room" if span.phase == ROOM else safe_line(phase),
        duration(now - span.started),
        **use,
        silent=duration(silent_s) if silent_s >= _SILENT_AFTER_S else "",
        last=sign.line or safe_line(span.why or (_NO_ROOM if span.phase == ROOM else "")),
    )


def interesting(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The rows with the most interesting first: running, red, waiting, good."""
    order = {LIVELY: 0, PATIENT: 1, BAD: 2, QUIET: 3, GOOD: 4}
    return tuple(sorted(rows, key=lambda one: order[one.tone]))


def totals(progress: WaveProgress, now: float) -> list[str]:
    """The sums of a wave, the most important first."""
    done, every = progress.count(DONE), len(progress.items)
    running, waiting = progress.count(RUNNING), progress.count(WAITING)
    found = [f"{done} of {every} done"]
    found += [f"{running} running"] if running else []
    found += [f"{waiting} waiting"] if waiting else []
    found.append(_cost(progress))
    found += _tokens(progress)
    if progress.started is not None:
        found.append(duration((progress.finished or now) - progress.started))
    found += [f"{progress.queued} more in the queue"] if progress.queued else []
    return found


def _cost(progress: WaveProgress) -> str:
    """The cost so far; an unknown one is never zero. Before an agent begins it is $0."""
    cost = known_cost(progress.cost_usd, is_least=progress.is_lower_bound)
    cost = NO_BILL if progress.awaits_bill else cost
    if (ceiling := progress.ceilings.get("usd")) is None:
        return cost
    is_known = progress.is_cost_known and not progress.awaits_bill
    return f"{cost} of {usd(ceiling)}" if is_known else f"{cost}, ceiling {usd(ceiling)}"


def _tokens(progress: WaveProgress) -> list[str]:
    """The tokens so far; without a ceiling they are left out until some are known."""
    used, ceiling = progress.tokens, progress.ceilings.get("tokens")
    is_least = progress.is_unmetered
    of = "" if ceiling is None else f" of {tokens(ceiling)}"
    if used or not (is_least or progress.awaits_bill or ceiling is None):
        return [f"{'at least ' if is_least else ''}{tokens(used)}{of} tokens"]
    if is_least:
        return ["tokens unknown" + (f", ceiling {tokens(ceiling)}" if ceiling is not None else "")]
    return [] if ceiling is None else [f"ceiling {tokens(ceiling)} tokens"]


def _notes(progress: WaveProgress, now: float, stopping: str) -> list[str]:
    found = [f"stopping: {safe_line(stopping)}"] if stopping else []
    if progress.finished is not None:
        shipped = sum(item.shipped for item in progress.items.values())
        why = f", {safe_line(progress.abort_reason)}" if progress.abort_reason else ""
        return [f"ended{why}: shipped {shipped} of {len(progress.items)}"]
    if (span := progress.span) is not None:
        since = duration(now - span.started)
        words = f"{safe_line(span.phase)}, {since}"
        if span.phase == TOGETHER:
            words = f"verified items are tested together, {since}"
        why = safe_line(span.why).replace(AWAY, " for ") if span.phase == PROVIDER else span.why
        found.append(f"{words}: {safe_line(why)}" if why else words)
    return found


def _worded(item: ItemProgress) -> str:
    """The state of an item that does nothing now."""
    if item.state == RUNNING and item.verdict and item.verdict not in _GOOD_VERDICTS:
        return f"{item.verdict}, to repair"
    return safe_line(item.phase)


def _tone(item: ItemProgress) -> str:
    if item.shipped or item.verdict in _GOOD_VERDICTS:
        return GOOD
    if item.state == RUNNING:
        return LIVELY
    if item.verdict in _NO_FAULT:
        return PATIENT
    return QUIET if item.verdict is None else BAD


def _spent(item: ItemProgress) -> float:
    """The seconds in which something was done for the item."""
    return sum(span.ended - span.started for span in item.spans if span.ended is not None)
