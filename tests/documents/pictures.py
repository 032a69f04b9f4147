"""The pictures and the output in the README, made from waves that are told: boards and reports."""

from __future__ import annotations

from collections.abc import Iterator

from driver.live.agent_output import NO_SIGN, Sign
from driver.live.board import board
from driver.live.frame import frame
from driver.reports.overview import overview
from driver.reports.pages.wave_page import page
from driver.reports.summary_lines import page_line, summary_lines, table
from state_store.views.item_progress import DONE, RUNNING, TEST, ItemProgress, Span
from state_store.views.wave_progress import WaveProgress
from tests.documents.page_picture import page_picture
from tests.documents.sample_report import sample_report, two_items
from tests.documents.terminal_picture import Painted, terminal_picture

COLUMNS, HEIGHT = 104, 40
PAGE_WIDTH, PAGE_HEIGHT = 1000, 950  # to the end of the timeline
NOW = 1_796_000_000.0  # any time
BEGIN = NOW - 1_134
EVENTS = (
    "tidegate: 02:31:40 round-prices: verified",
    "tidegate: 02:33:02 csv-export: test failed with exit 1",
    "tidegate: 02:33:02 csv-export: repair started (attempt 2)",
    "tidegate: 02:36:17 login-limit: verified",
    "tidegate: 02:40:55 dark-theme: refused: changed outside its files: app/main.css",
)


def live_picture() -> str:
    """A terminal in which a wave is under way."""
    title = "tidegate run: the live screen of a wave of 8 items"
    return terminal_picture(live_lines(), COLUMNS, title)


def live_lines() -> list[Painted]:
    """The lines of that terminal, each with its color."""
    signs = {
        "csv-export": Sign(NOW - 2, "Editing shop/export.py: quote a field that has a line break"),
        "search-index": Sign(NOW - 41, "python3 -m pytest -q tests/test_index.py"),
        "slow-report": Sign(NOW - 9, "I will keep the totals in one pass over the rows"),
        "mail-retries": Sign(NOW - 1, "test_waits_longer_each_time (tests.test_mail) ... ok"),
    }
    found = board(_wave(), NOW, lambda item: signs.get(item.slug, NO_SIGN))
    lines: list[Painted] = [[("$ tidegate run --execute --max-items 8", "")], []]
    lines += [[(event, "")] for event in EVENTS]
    lines += [list(line.parts) for line in frame(found, COLUMNS, HEIGHT)]
    return lines


def report_picture() -> str:
    """The top of `report.html` of a wave that has ended."""
    shown = page(overview(sample_report()), None, {})
    return page_picture(shown, PAGE_WIDTH, PAGE_HEIGHT, "report.html of a wave of 8 items")


def last_lines() -> str:
    """The last lines of a run on a terminal, as an indented block of Markdown."""
    report = two_items()
    rows = (line for line, _ in table(report))
    lines = (f"tidegate: {line}" for line in (*page_line(report), *summary_lines(report)))
    return "".join(f"    {line}\n" for line in (*rows, *lines))


def _wave() -> WaveProgress:
    wave = WaveProgress("6f0c12ab")
    wave.started, wave.ceilings, wave.queued = BEGIN, {"usd": 20.0}, 31
    wave.items = {item.slug: item for item in _items()}
    return wave


def _items() -> Iterator[ItemProgress]:
    yield _item("round-prices", 96_000, 0.31, verdict="verified", took=412)
    yield _item("csv-export", 214_000, 0.88, phase="repair", since=201, repairs=1)
    yield _item("login-limit", 131_000, 0.47, verdict="verified", took=655)
    yield _item("search-index", 187_000, 0.71, phase="build", since=512)
    reason = "changed outside its files: app/main.css"
    yield _item("dark-theme", 88_000, 0.29, verdict="refused", took=733, reason=reason)
    yield _item("slow-report", 42_000, 0.14, phase="build", since=95)
    yield _item("mail-retries", 109_000, 0.40, phase=TEST, since=12)
    yield ItemProgress("old-urls")


def _item(
    slug: str,
    tokens: int,
    cost_usd: float,
    *,
    phase: str = "",
    since: float = 0.0,
    verdict: str | None = None,
    took: float = 0.0,
    reason: str | None = None,
    repairs: int = 0,
) -> ItemProgress:
    span = Span(phase, NOW - since) if phase else Span("build", BEGIN, BEGIN + took)
    return ItemProgress(
        slug,
        state=RUNNING if phase else DONE,
        verdict=verdict,
        reason=reason,
        spans=[span],
        tokens=tokens,
        cost_usd=cost_usd,
        repairs=repairs,
    )
