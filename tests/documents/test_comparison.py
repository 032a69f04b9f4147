"""Every sentence about another tool names a source, and every source has an address and a date."""

from __future__ import annotations

import re
from datetime import date

import pytest

from tests.documents.schemas import ROOT

PAGE = (ROOT / "docs" / "comparison.md").read_text("utf-8")
BODY, _, LIST = PAGE.partition("## Sources")
SOURCES = dict(re.findall(r"^\| (\d+) \| <(https://[^>]+)>.* \| \d{4}-", LIST, re.MULTILINE))
ABOUT_OTHERS = re.findall(r"^- \*\*.*?(?=\n- \*\*|\n\n|\Z)", BODY, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("entry", ABOUT_OTHERS, ids=lambda entry: entry[4:20])
def test_what_is_said_of_a_tool_has_a_source(entry: str) -> None:
    # What follows the praise, or compares with Tidegate, is ours to say.
    said = re.sub(r"\*Better:\*.*", "", " ".join(entry.split()))
    cited = re.findall(r"\[(\d+)\]", said)
    assert cited
    assert set(cited) <= SOURCES.keys()


def test_the_tools_are_there() -> None:
    assert len(ABOUT_OTHERS) >= 13


def test_every_source_is_used_and_dated() -> None:
    cited = set(re.findall(r"\[(\d+)\]", BODY))
    assert cited == SOURCES.keys()
    days = re.findall(r"\| (\d{4}-\d{2}-\d{2}) \|$", LIST, re.MULTILINE)
    assert len(days) == len(SOURCES)
    assert all(date.fromisoformat(day) for day in days)
