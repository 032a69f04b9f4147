"""All documents that are made from the code, each as its path and text."""

from __future__ import annotations

from pathlib import Path

from tests.documents import schemas
from tests.documents.pictures import last_lines, live_picture, report_picture
from tests.documents.reference import configuration

CONFIGURATION = schemas.ROOT / "docs" / "configuration.md"
IMAGES = schemas.ROOT / "docs" / "images"
LIVE, REPORT = MADE_PICTURES = (IMAGES / "live.svg", IMAGES / "report.svg")


README = schemas.ROOT / "README.md"
LAST_LINES = "and the\ncommand that shows the branch:\n\n"


def made() -> dict[Path, str]:
    """Every document as the code has it now."""
    texts = {schemas.FOLDER / n: schemas.text_of(s) for n, s in schemas.documents().items()}
    return {
        **texts,
        LIVE: live_picture(),
        REPORT: report_picture(),
        CONFIGURATION: configuration(CONFIGURATION.read_text(encoding="utf-8")),
        README: _with_last_lines(README.read_text(encoding="utf-8")),
    }


def _with_last_lines(page: str) -> str:
    """The README with the last lines of a run as the programs print them now."""
    before, found, rest = page.partition(LAST_LINES)
    assert found, f"the README needs the words {LAST_LINES.strip()!r} above the last lines of a run"
    return before + found + last_lines() + "\n" + rest.partition("\n\n")[2]
