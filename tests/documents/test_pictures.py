"""The pictures of the README are whole, load nothing and run nothing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.documents.made import IMAGES, MADE_PICTURES
from tests.documents.page_picture import page_picture
from tests.documents.pictures import COLUMNS, EVENTS, live_lines
from tests.documents.terminal_picture import terminal_picture

SVG = "{http://www.w3.org/2000/svg}"
PAGE = (
    '<html><head><style>body { color: red } .body { top: 0 }</style></head><body class="x">'
    '<p>a &lt; b &amp; c<br>\u00e9</p><svg viewBox="0 0 1 1" preserveAspectRatio="none"></svg>'
    "</body></html>"
)


@pytest.mark.parametrize("path", MADE_PICTURES, ids=lambda path: path.name)
def test_a_picture_is_whole_and_loads_nothing(path: Path) -> None:
    text = path.read_text(encoding="ascii")
    root = ET.fromstring(text)
    assert root.find(f"{SVG}title") is not None
    assert "<script" not in text
    assert set(re.findall(r"https?://[^\s\"')]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xhtml",
    }
    assert len(text) < 60_000


def test_every_picture_is_made() -> None:
    assert set(IMAGES.iterdir()) == set(MADE_PICTURES)


def test_no_line_of_the_screen_is_wider_than_it() -> None:
    lines = ["".join(text for text, _ in line) for line in live_lines()]
    assert max(map(len, lines)) < COLUMNS
    assert set(EVENTS) <= set(lines)


def test_spaces_and_signs_of_a_line_stay() -> None:
    drawn = ET.fromstring(terminal_picture([[("a  <b> &", "31")], []], 80, "t"))
    (line,) = drawn.iter(f"{SVG}text")
    assert line.text == "a\u00a0\u00a0<b>\u00a0&"
    assert line.get("textLength") == "67.2"


def test_a_page_becomes_xml_of_its_own() -> None:
    drawn = page_picture(PAGE, 100, 50, "t & u")
    root = ET.fromstring(drawn)
    assert "".join(root.itertext()).endswith("a < b & c\u00e9\n\n")
    assert ".page { color: red } .body { top: 0 }" in drawn
    assert 'viewBox="0 0 1 1" preserveAspectRatio="none"' in drawn
    assert drawn.isascii()
