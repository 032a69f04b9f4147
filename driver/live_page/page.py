"""The page: one HTML file with its style and script, which a nonce allows to run."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("page.html")
_PLACE = "NONCE"


@cache
def _text() -> str:
    return _FILE.read_text(encoding="ascii")


def page(nonce: str) -> str:
    """The page for one answer."""
    return _text().replace(_PLACE, nonce)
