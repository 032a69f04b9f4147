"""Nothing from outside acts on a terminal, and nothing grows without bound."""

from __future__ import annotations

import random

import pytest

from driver.terminal.safe_text import bounded, counted, describe_run, safe_line, safe_text


@pytest.mark.parametrize(
    "hostile", ["\x1b[2J", "\r", "\x07", "\x9b31m", "\u202e", "\0", "\x1b]52;c;eA==\x07"]
)
def test_control_characters_are_escaped(hostile: str) -> None:
    assert safe_text(f"a{hostile}b").isprintable()
    assert safe_line(f"a{hostile}b").isprintable()


def test_lines_and_tabs_are_kept_in_text_but_not_in_a_line() -> None:
    assert safe_text("a\n\tb\r\nc") == "a\n\tb\nc"
    assert "\n" not in safe_line("a\nb")


def test_random_text_leaves_only_lines_tabs_and_printables() -> None:
    rng = random.Random(7)
    for _ in range(500):
        text = "".join(
            chr(rng.choice((rng.randrange(0x300), rng.randrange(0xD7FF)))) for _ in range(40)
        )
        assert all(c in "\n\t" or c.isprintable() for c in safe_text(text))


def test_a_long_text_keeps_its_head_and_its_tail_and_counts_the_rest() -> None:
    text = bounded("h" * 600 + "t" * 600, 1000)
    assert text.startswith("h" * 500)
    assert text.endswith("t" * 500)
    assert "[... 200 characters left out ...]" in text
    assert bounded("short", 1000) == "short"


@pytest.mark.parametrize(
    ("kind", "said"),
    [("green", "green after 0.1 s"), ("could_not_run", "could not run after 0.1 s")],
)
def test_how_a_test_ended_is_told_in_words(kind: str, said: str) -> None:
    assert describe_run(kind, 0.1) == said


def test_one_is_counted_as_one() -> None:
    assert [counted(number, "item") for number in (0, 1, 2)] == ["0 items", "1 item", "2 items"]
