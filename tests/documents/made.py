"""All documents that are made from the code, each as its path and text."""

from __future__ import annotations

from pathlib import Path

from tests.documents import schemas
from tests.documents.pictures import live_picture, report_picture
from tests.documents.reference import configuration

CONFIGURATION = schemas.ROOT / "docs" / "configuration.md"
IMAGES = schemas.ROOT / "docs" / "images"
LIVE, REPORT = MADE_PICTURES = (IMAGES / "live.svg", IMAGES / "report.svg")


def made() -> dict[Path, str]:
    """Every document as the code has it now."""
    texts = {schemas.FOLDER / n: schemas.text_of(s) for n, s in schemas.documents().items()}
    return {
        **texts,
        LIVE: live_picture(),
        REPORT: report_picture(),
        CONFIGURATION: configuration(CONFIGURATION.read_text(encoding="utf-8")),
    }
