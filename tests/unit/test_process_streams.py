"""The bounded text that is kept of an output."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.execution.streams import join_cut


@pytest.mark.parametrize(
    ("head", "tail", "size", "shown"),
    [
        (b"ab\n", b"yz\n", 100, "ab\n[... 94 bytes left out ...]\nyz\n"),
        (b"ab", b"yz", 100, "ab\n[... 96 bytes left out ...]\nyz"),
        (b"", b"", 9, "[... 9 bytes left out ...]\n"),
        (b"a\xe2\x82", b"\xacz", 9, "a\n[... 7 bytes left out ...]\nz"),
        (b"a\xe2\x82\xac", b"\x82\xacz", 9, "a\u20ac\n[... 4 bytes left out ...]\nz"),
        (b"a\xff", b"\xffz", 9, "a\ufffd\n[... 5 bytes left out ...]\n\ufffdz"),
        (b"a\0", b"\0z", 9, "a\\x00\n[... 5 bytes left out ...]\n\\x00z"),
        (b"a", b"\x80\x80\x80\x80", 9, "a\n[... 7 bytes left out ...]\n\ufffd"),
    ],
)
def test_a_cut_is_announced_and_goes_through_no_character(
    head: bytes, tail: bytes, size: int, shown: str
) -> None:
    assert join_cut(head, tail, size, None) == shown


def test_a_cut_names_the_file_that_holds_the_whole_text() -> None:
    assert "whole text in run.out ...]" in join_cut(b"a", b"b", 9, Path("run.out"))
