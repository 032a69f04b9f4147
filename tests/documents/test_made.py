"""The documents that are made from the code are as the code has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents.made import made
from tests.documents.reference import meanings, plain
from tests.documents.schemas import ROOT
from tools.settings.schema import SECTIONS

MADE = made()


@pytest.mark.parametrize("path", MADE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_made_document_is_up_to_date(path: Path) -> None:
    kept = path.read_text(encoding="utf-8")
    assert kept == MADE[path], "run python tests/documents/write_documents.py"


def test_every_setting_has_a_meaning() -> None:
    for shape in SECTIONS.values():
        assert meanings(shape).keys() == shape.__dataclass_fields__.keys()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a `key` of it", "a key of it"),
        ("read by [the page](a.md#b) here", "read by the page here"),
        ("as told ([a.md](a.md)); more", "as told; more"),
    ],
)
def test_a_description_is_plain_text(text: str, told: str) -> None:
    assert plain(text) == told
