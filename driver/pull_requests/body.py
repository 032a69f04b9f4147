"""A pull request as data, and what it says of a shipment: title, and body as Markdown. Pure.

Only words and numbers of ours stand free in it. Names, commands, reasons, and whatever an agent, a
reviewer or a test wrote is in code, made inert by `inert`. Who makes the request is `propose`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from driver.pull_requests.escaped_text import cell, fenced, plain
from driver.runners.result import Counts
from driver.terminal.safe_text import counted

MAX_TITLE_CHARS = 200
MAX_BODY_BYTES = 65_536  # what GitHub takes, in characters, which are never more than bytes
_MAX_QUOTE = 4_000
_MAX_FILES = 200
_MAX_NAME = 500
_ROOM_FOR_NOTES = 300

_LOST = "### Left out of this branch"
_HEAD = (
    "| item | verdict | test command | exit | tests before | tests after | files | repairs "
    "| tokens | USD | review | commit |\n" + "|---" * 12 + "|"
)
_INERT = (
    "What is in code was written by others: people, agents, reviewers, programs. A blank after `@`,"
    " `#` and the like was put in, so that nothing here calls anyone or closes anything."
)


@dataclass(frozen=True, slots=True)
class PullRequest:
    """One that is there. `state` is draft, open, closed or merged; `number` and `url` are None
    where a forge does not tell them."""

    url: str | None
    number: int | None
    state: str


@dataclass(frozen=True, slots=True)
class Proposed:
    """What came of asking for one: `made`, or in a sentence why it is not there."""

    repo: str
    branch: str
    commit: str
    wave_id: str
    made: PullRequest | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ItemSummary:
    """One item of a shipment, or one that was left out of it (then `commit` is None).

    `said` is what the last reviewer wrote, `notes` what a phase of the work wrote for the request;
    None is unknown.
    """

    slug: str
    title: str
    verdict: str
    command: str
    exit_code: int | None = None
    before: Counts | None = None
    after: Counts | None = None
    files: tuple[str, ...] = ()
    repairs: int = 0
    tokens: int | None = None
    cost_usd: float | None = None
    review: str = ""
    said: str = ""
    reason: str = ""
    notes: str = ""
    commit: str | None = None


@dataclass(frozen=True, slots=True)
class PullRequestSummary:
    """A pushed line of commits. `onto` is the commit below it, `target` the branch that is on;
    `trees` counts the trees of several items that were tested."""

    wave_id: str
    branch: str
    target: str | None
    onto: str | None
    shipped: tuple[ItemSummary, ...]
    left_out: tuple[ItemSummary, ...] = ()
    trees: int = 0
    warning: str = ""


def title(told: PullRequestSummary) -> str:
    """One line: the item's own title where there is but one."""
    if len(told.shipped) == 1:
        only = told.shipped[0]
        if line := plain(only.title or only.slug, MAX_TITLE_CHARS):
            return line
    return plain(f"Wave {told.wave_id}: {counted(len(told.shipped), 'item')}", MAX_TITLE_CHARS)


def body(told: PullRequestSummary, *, bare: bool = False) -> str:
    """The description, never larger than a forge takes. What does not fit is counted.

    `bare` leaves all free text out, where one of them may not be told.
    """
    must = [_summary(told), _reproduction(told), _INERT]
    if bare:
        must.append("Texts were left out here, as one of them holds a secret; the report has them.")
    room = MAX_BODY_BYTES - _ROOM_FOR_NOTES - sum(_bytes(part) + 2 for part in must)
    table, room = _fitting("shipped", _HEAD, told.shipped, _row, room, "\n")
    left_out = () if bare else told.left_out
    lost, room = _fitting("left out", _LOST, left_out, _lost, room)
    shown = () if bare else told.shipped
    details, _ = _fitting("described", "", shown, _details, room)
    parts = [must[0], table, lost, must[1], details, *must[2:]]
    return "\n\n".join(part for part in parts if part) + "\n"


def _summary(told: PullRequestSummary) -> str:
    where = f"on {cell(told.target)} at {cell((told.onto or '')[:12])}" if told.target else ""
    together = (
        f" They were tested together too, on {counted(told.trees, 'tree')}." if told.trees else ""
    )
    warned = f"\n\n{fenced(told.warning, _MAX_QUOTE)}" if told.warning else ""
    return (
        f"Tidegate built and proved {counted(len(told.shipped), 'item')} {where}".rstrip()
        + f" in wave {cell(told.wave_id)}, a commit each.{together} Nothing is merged."
        + warned
    )


def _row(item: ItemSummary) -> str:
    cells = (
        cell(item.slug),
        _word(item.verdict),
        cell(item.command),
        _number(item.exit_code),
        _counts(item.before),
        _counts(item.after),
        str(len(item.files)),
        str(item.repairs),
        _number(item.tokens),
        "unknown" if item.cost_usd is None else f"{item.cost_usd:.4f}",
        _word(item.review),
        cell((item.commit or "")[:12]),
    )
    return f"| {' | '.join(cells)} |"


def _lost(item: ItemSummary) -> str:
    said = fenced(item.reason or "no reason is known", _MAX_QUOTE // 4)
    return f"{cell(item.slug)}: {_word(item.verdict)}\n\n{said}"


def _details(item: ItemSummary) -> str:
    shown = [name[:_MAX_NAME] for name in item.files[:_MAX_FILES]]
    if len(item.files) > _MAX_FILES:
        shown.append(f"and {len(item.files) - _MAX_FILES} more")
    quotes = (
        ("Title", item.title),
        ("Test command", item.command),
        ("Files", "\n".join(shown)),
        (f"Review ({_word(item.review)})", item.said),
        ("Notes of the work", item.notes),
    )
    parts = [f"### {cell(item.slug)}"]
    parts += [f"{name}:\n\n{fenced(text, _MAX_QUOTE)}" for name, text in quotes if text.strip()]
    return "\n\n".join(parts)


def _reproduction(told: PullRequestSummary) -> str:
    return (
        "### How to reproduce\n\n"
        "Each item's test is run again on its commit, in a fresh place, and compared with what was"
        " written down, by this command of Tidegate's checkout in a clone of this repository:\n\n"
        + fenced(
            f"git fetch REMOTE {told.branch}\n"
            f"python TIDEGATE/tools/reproduce.py {told.wave_id} ITEM",
            _MAX_QUOTE,
        )
    )


def _counts(counts: Counts | None) -> str:
    if counts is None:
        return "-"
    skipped = f", {counts.skipped} skipped" if counts.skipped else ""
    failed = f", {counts.failed} failed" if counts.failed else ""
    return f"{counts.ran} ran{failed}{skipped}"


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _word(word: str) -> str:
    """One of our own words; anything else is not believed to be one."""
    free = word.replace("_", " ")
    return free if free.replace(" ", "").isascii() and free.replace(" ", "").isalpha() else "-"


def _fitting(
    what: str,
    heading: str,
    told: Sequence[ItemSummary],
    part_of: Callable[[ItemSummary], str],
    room: int,
    gap: str = "\n\n",
) -> tuple[str, int]:
    """As many parts as there is room for below their heading, with a note of how many more there
    are; and the room left. "" where there are none."""
    if not told:
        return "", room
    taken = [heading] if heading else []
    room -= _bytes(heading)
    for number, part in enumerate(map(part_of, told)):
        room -= _bytes(part) + len(gap)
        if room < 0:
            more = counted(len(told) - number, "item")
            return gap.join([*taken, f"\n{more} more {what}: the wave's report has all."]), 0
        taken.append(part)
    return gap.join(taken), room


def _bytes(text: str) -> int:
    return len(text.encode())
