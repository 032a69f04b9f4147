"""The page: one HTML file with its script, the colors of all pages, and a nonce that allows it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from driver.reports.pages.style import PALETTE

_FILE = Path(__file__).with_name("page.html")
_NONCE, _COLORS = "NONCE", "PALETTE"


@cache
def _text() -> str:
    return _FILE.read_text(encoding="ascii").replace(_COLORS, PALETTE)


def page(nonce: str) -> str:
    """The page for one answer."""
    return _text().replace(_NONCE, nonce)
