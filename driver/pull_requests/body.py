"""The title and the Markdown body of a pull request, from a summary of its items. Pure.

Only words and numbers of ours are plain text. Names, commands, reasons, and everything that an
agent, a reviewer or a test wrote is in code and escaped by `terminal.markdown`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from driver.runners.result import Counts
from driver.terminal.markdown import cell, fenced, plain
from driver.terminal.safe_text import counted
from state_store.values.lazy_dataclass import asdict, dataclass

MAX_TITLE_CHARS = 200
MAX_BODY_BYTES = 65_536  # what GitHub takes, in characters, which are never more than bytes
_MAX_QUOTE = 4_000
_MAX_FILES = 200
_MAX_NAME = 500
_ROOM_FOR_NOTES = 300

_LOST = "### Left out of this branch"
_HEAD = (
    "| item | verdict | evidence | test command | exit | tests before | tests after | files "
    "| repairs | tokens | USD | review | commit |\n" + "|---" * 13 + "|"
)
_INERT = (
    "What is in code was written by others: people, agents, reviewers, programs. A blank after `@`,"
    " `#` and the like was put in, so that nothing here calls anyone or closes anything."
)


@dataclass(frozen=True, slots=True)
class PullRequest:
    """An existing pull request. `state` is draft, open, closed or merged; `number` and `url` are
    None if the forge does not tell them."""

    url: str | None
    number: int | None
    state: str


@dataclass(frozen=True, slots=True)
class Proposed:
    """The result of a request for a pull request: `made`, or the `error` as a sentence."""

    repo: str
    branch: str
    commit: str
    wave_id: str
    made: PullRequest | None = None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The shape in reports."""
        return {
            "repo": self.repo,
            "branch": self.branch,
            "sha": self.commit,
            "wave_id": self.wave_id,
            "pr": asdict(self.made) if self.made else None,
            "prError": self.error,
        }


@dataclass(frozen=True, slots=True)
class ItemSummary:
    """An item of a pull request, or one that was evicted (then `commit` is None).

    `grade` is the grade of its evidence, `doubts` are sentences about what it lacks. `review_text`
    is from the last reviewer, `notes` from a phase of the work; None is unknown.
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
    review_text: str = ""
    reason: str = ""
    notes: str = ""
    commit: str | None = None
    grade: str = ""
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PullRequestSummary:
    """A pushed batch of commits. `onto` is the commit below it, on the branch `target`; `trees`
    counts the tested trees of several items."""

    wave_id: str
    branch: str
    target: str | None
    onto: str | None
    shipped: tuple[ItemSummary, ...]
    evicted: tuple[ItemSummary, ...] = ()
    trees: int = 0
    warning: str = ""


def title(summary: PullRequestSummary) -> str:
    """The title on one line: a single item's own title, else the wave and the number of items."""
    shipped = summary.shipped
    if len(shipped) == 1 and (line := plain(shipped[0].title or shipped[0].slug, MAX_TITLE_CHARS)):
        return line
    return plain(f"Wave {summary.wave_id}: {counted(len(shipped), 'item')}", MAX_TITLE_CHARS)


def body(summary: PullRequestSummary, *, bare: bool = False) -> str:
    """The description, never larger than a forge takes; what does not fit is counted.

    `bare` leaves out all free text, for a summary that holds a secret.
    """
    must = [_summary(summary), _reproduction(summary), _INERT]
    if bare:
        must.append("Texts were left out here, as one of them holds a secret; the report has them.")
    room = MAX_BODY_BYTES - _ROOM_FOR_NOTES - sum(_bytes(part) + 2 for part in must)
    table, room = _fitting("shipped", _HEAD, summary.shipped, _row, room, "\n")
    evicted, room = _fitting("left out", _LOST, () if bare else summary.evicted, _evicted, room)
    details, _ = _fitting("described", "", () if bare else summary.shipped, _details, room)
    parts = [must[0], table, evicted, must[1], details, *must[2:]]
    return "\n\n".join(part for part in parts if part) + "\n"


def _summary(summary: PullRequestSummary) -> str:
    onto = (summary.onto or "")[:12]
    where = f"on {cell(summary.target)} at {cell(onto)}" if summary.target else ""
    trees = counted(summary.trees, "tree")
    together = f" They were tested together too, on {trees}." if summary.trees else ""
    warned = f"\n\n{fenced(summary.warning, _MAX_QUOTE)}" if summary.warning else ""
    return (
        f"Tidegate built and proved {counted(len(summary.shipped), 'item')} {where}".rstrip()
        + f" in wave {cell(summary.wave_id)}, a commit each.{together} Nothing is merged."
        + warned
    )


def _row(item: ItemSummary) -> str:
    cells = (
        cell(item.slug),
        _word(item.verdict),
        _word(item.grade),
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


def _evicted(item: ItemSummary) -> str:
    reason = fenced(item.reason or "no reason is known", _MAX_QUOTE // 4)
    return f"{cell(item.slug)}: {_word(item.verdict)}\n\n{reason}"


def _details(item: ItemSummary) -> str:
    shown = [name[:_MAX_NAME] for name in item.files[:_MAX_FILES]]
    if len(item.files) > _MAX_FILES:
        shown.append(f"and {len(item.files) - _MAX_FILES} more")
    quotes = (
        ("Title", item.title),
        ("Test command", item.command),
        ("Files", "\n".join(shown)),
        ("What its evidence lacks", "\n".join(item.doubts)),
        (f"Review ({_word(item.review)})", item.review_text),
        ("Notes of the work", item.notes),
    )
    parts = [f"### {cell(item.slug)}"]
    parts += [f"{name}:\n\n{fenced(text, _MAX_QUOTE)}" for name, text in quotes if text.strip()]
    return "\n\n".join(parts)


def _reproduction(summary: PullRequestSummary) -> str:
    return (
        "### How to reproduce\n\n"
        "Each item's test is run again on its commit, in a fresh place, and compared with what was"
        " written down, by this command of Tidegate's checkout in a clone of this repository:\n\n"
        + fenced(
            f"git fetch REMOTE {summary.branch}\n"
            f"python3 TIDEGATE/tools/reproduce.py {summary.wave_id} ITEM",
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
    """A word of our own vocabulary; "-" for any text that cannot be one."""
    free = word.replace("_", " ")
    return free if free.replace(" ", "").isascii() and free.replace(" ", "").isalpha() else "-"


def _fitting(
    what: str,
    heading: str,
    items: Sequence[ItemSummary],
    part_of: Callable[[ItemSummary], str],
    room: int,
    gap: str = "\n\n",
) -> tuple[str, int]:
    """The heading and as many parts as fit, with a note about the rest; and the room left."""
    if not items:
        return "", room
    taken = [heading] if heading else []
    room -= _bytes(heading)
    for number, part in enumerate(map(part_of, items)):
        room -= _bytes(part) + len(gap)
        if room < 0:
            more = counted(len(items) - number, "item")
            return gap.join([*taken, f"\n{more} more {what}: the wave's report has all."]), 0
        taken.append(part)
    return gap.join(taken), room


def _bytes(text: str) -> int:
    return len(text.encode())
