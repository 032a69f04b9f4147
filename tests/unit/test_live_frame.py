"""The frame of a live screen: every line fits, whatever the size and the characters are."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from driver.live.agent_output import NO_SIGN, Sign, last_line
from driver.live.board import (
    BAD,
    GOOD,
    LIVELY,
    PATIENT,
    QUIET,
    Board,
    Row,
    board,
    interesting,
    totals,
)
from driver.live.cells import char_width, clip, fit, width_of
from driver.live.frame import frame, joined
from driver.live.heartbeat import heartbeat
from driver.terminal.amounts import duration, tokens, usd
from driver.terminal.color import DIM, RED
from state_store.views.wave_progress import WaveProgress, fold

WIDE = "\u6f22\u5b57"
COMBINED = "e\u0301"


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 0),
        ("abc", 3),
        (WIDE, 4),
        (COMBINED, 1),
        ("\U0001f600", 2),
        ("\uff21", 2),
        ("\u200b", 0),
    ],
)
def test_wide_and_combining_characters_have_their_cells(text: str, width: int) -> None:
    assert width_of(text) == width == sum(map(char_width, text))


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 4, "abc~"),
        (WIDE, 4, WIDE),
        (WIDE, 3, "\u6f22~"),
        (WIDE, 2, "~"),
        (WIDE, 0, ""),
        (f"{COMBINED}{COMBINED}x", 2, f"{COMBINED}~"),
        ("abc", 1, "~"),
    ],
)
def test_text_is_cut_at_a_cell_and_never_in_a_character(text: str, width: int, shown: str) -> None:
    assert clip(text, width) == shown
    assert width_of(fit(text, width)) == width == width_of(fit(text, width, right=True))


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-3, "0 s"), (0.9, "0 s"), (59.9, "59 s"), (60, "1:00"), (3599, "59:59"), (3661, "1:01:01")],
)
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0"), (999, "999"), (1000, "1k"), (999_499, "999k"), (999_500, "1.0M"), (250e6, "250M")],
)
def test_tokens(number: float, shown: str) -> None:
    assert tokens(number) == shown


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0, "$0"),
        (0.001, "<$0.01"),
        (0.060000000000000005, "$0.06"),
        (12.3, "$12.30"),
        (2e3, "$2000"),
    ],
)
def test_money(amount: float, shown: str) -> None:
    assert usd(amount) == shown


def a_row(number: int, tone: str = LIVELY, **more: str) -> Row:
    texts = {"phase": "build", "elapsed": "1:00", "tokens": "120k", "cost": "$0.42", **more}
    return Row(f"item-{number}", tone, **texts)


ROWS = tuple(
    a_row(n, tone, last=f"{WIDE} {COMBINED} {'words ' * 50}", silent="2:10")
    for n, tone in enumerate([GOOD, LIVELY, QUIET, BAD, PATIENT] * 6)
)
NOTES = (f"waiting for the provider {WIDE} {'and ' * 60}",)
TOTALS = ("3 of 30 done", "8 running", "19 waiting", "$4.20 of $40.00", "1.2M tokens", "12:40")


@pytest.mark.parametrize(
    ("width", "height"),
    [
        *itertools.product(
            (1, 2, 10, 39, 40, 41, 60, 80, 100, 160, 250), (1, 2, 3, 5, 12, 13, 24, 60)
        )
    ],
)
def test_no_frame_is_wider_or_higher_than_the_screen(width: int, height: int) -> None:
    for rows in ((), ROWS[:3], ROWS):
        lines = frame(Board(rows, NOTES, TOTALS), width, height)
        assert all(width_of(line.text) < max(2, width) for line in lines)
        assert len(lines) <= max(1, height)
        sums = lines[-2:] if width <= 60 and height > 12 else lines[-1:]
        assert sums[0].text.startswith(TOTALS[0][: max(0, width - 2)])


def test_what_does_not_fit_is_counted_and_the_most_interesting_is_shown() -> None:
    lines = [line.text for line in frame(Board(ROWS, (), TOTALS), 100, 16)]
    shown = [line[0] for line in lines[1:-2]]
    assert shown == sorted(shown, key=">.! +".index)
    assert lines[-2].startswith("  + 21 more: ")
    assert sum(int(part.split()[0]) for part in lines[-2].partition(": ")[2].split(", ")) == 21


def test_rows_that_fit_keep_their_order() -> None:
    lines = [line.text for line in frame(Board(ROWS[:5], (), TOTALS), 100, 24)]
    assert [line.split()[-0 if line[0] == " " else 1] for line in lines[1:6]] == [
        f"item-{n}" for n in range(5)
    ]


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (40, ["item", "phase", "time"]),
        (80, ["item", "phase", "time", "cost", "tokens", "silent"]),
    ],
)
def test_narrow_screens_lose_columns_from_the_right(width: int, columns: list[str]) -> None:
    rows = tuple(row._replace(name=f"{row.name}-with-a-long-name") for row in ROWS[:3])
    header = frame(Board(rows, (), TOTALS), width, 24)[0].text
    assert header.split()[: len(columns)] == columns
    assert ("tokens" in header) == ("tokens" in columns)


def test_sums_that_do_not_fit_are_left_out() -> None:
    assert joined(TOTALS, 30) == ["3 of 30 done, 8 running, 12:40"]
    assert joined(TOTALS, 3) == ["3 of 30 done"]


def test_sums_take_two_lines_where_one_is_too_short() -> None:
    sums = ["1 of 9 done, 6 running, 2 waiting", "$1.11 of $20.00, 546k of 30.0M tokens"]
    shown = frame(Board(ROWS[:3], (), (*", ".join(sums).split(", "), "24 s")), 40, 24)
    assert [line.text for line in shown[-2:]] == sums


def test_the_output_of_an_agent_stands_back() -> None:
    lively, red = a_row(1), a_row(1, tone=BAD)
    for row, last in ((lively, DIM), (red, RED)):
        line = frame(Board((row._replace(last="its words"),), (), TOTALS), 100, 24)[1]
        assert next(text for text, color in line.parts if color == last).endswith("its words")
        assert "".join(text for text, _ in line.parts) == line.text


def test_the_most_interesting_rows_come_first() -> None:
    assert [row.tone for row in interesting(ROWS[:5])] == [LIVELY, PATIENT, BAD, QUIET, GOOD]


def a_wave(*more: tuple[str, dict[str, Any]]) -> WaveProgress:
    facts = {"wave_id": "w", "items": ["a", "b"], "ceilings": {"usd": 4.0}, "queued": 7}
    agent = {"agent_id": "w/a/1", "item": "a", "wave": "w", "attempt": 1}
    entries: list[tuple[str, str, dict[str, Any]]] = [
        ("wave:w", "wave_started", facts),
        ("agent_traces", "agent_dispatched", {**agent, "phase": "build"}),
        ("agent_traces", "agent_billed", {**agent, "tokens": 1200, "cost_usd": 0.5}),
        *(("wave:w", kind, payload) for kind, payload in more),
    ]
    return fold(
        "w",
        [
            {"id": n, "ts": 100.0 + n, "stream": stream, "type": kind, "payload": payload}
            for n, (stream, kind, payload) in enumerate(entries)
        ],
    )


def test_a_board_has_a_row_for_each_item_and_the_sums() -> None:
    found = board(a_wave(), 161.0, lambda _: Sign(140.0, "reading"))
    first, second = found.rows
    assert first == Row("a", LIVELY, "build", "1:00", "1k", "$0.50", "21 s", "reading")
    assert (second.tone, second.phase) == (QUIET, "waiting")
    assert found.totals == (
        "0 of 2 done",
        "1 running",
        "1 waiting",
        "$0.50 of $4.00",
        "1k tokens",
        "1:01",
        "7 more in the queue",
    )


def billed(ceilings: dict[str, float] | None = None, **use: float) -> list[str]:
    facts = {"wave_id": "w", "items": ["a"], "ceilings": ceilings or {}}
    agent = {"agent_id": "w/a/1", "item": "a", "wave": "w", **use}
    entries = (("wave:w", "wave_started", facts), ("agent_traces", "agent_billed", agent))
    rows = [{"ts": 1.0, "stream": s, "type": t, "payload": p} for s, t, p in entries]
    return totals(fold("w", rows), 2.0)


def test_an_unknown_cost_is_not_zero() -> None:
    assert "cost unknown" in billed(tokens=7)
    assert not any("$" in one for one in billed(tokens=7))
    assert "$0" in billed(tokens=7, cost_usd=0.0)
    assert "at least $0.50" in billed(cost_usd=0.5)
    assert "tokens unknown" in billed(cost_usd=0.5)
    assert "tokens unknown, ceiling 9k" in billed(ceilings={"tokens": 9000})


def test_before_the_first_bill_nothing_is_said_to_be_zero() -> None:
    ceilings = {"usd": 20.0, "tokens": 9000}
    begun = ("wave_started", {"wave_id": "w", "items": ["a"], "ceilings": ceilings})
    waits = fold("w", [{"ts": 1.0, "stream": "wave:w", "type": begun[0], "payload": begun[1]}])
    assert totals(waits, 2.0)[2:4] == ["$0 of $20.00", "0 of 9k tokens"]
    asked = {"agent_id": "w/a/1", "item": "a", "wave": "w", "attempt": 1, "backend": "command"}
    waits.apply({"ts": 1.0, "stream": "agent_traces", "type": "agent_dispatched", "payload": asked})
    assert totals(waits, 2.0)[2:4] == ["no bill yet, ceiling $20.00", "ceiling 9k tokens"]


def test_a_closed_provider_holds_agents_and_no_tests() -> None:
    why = {"phase": "waiting for the provider", "since": 103.0, "why": "429"}
    found = board(a_wave(("phase_entered", why)), 113.0)
    assert found.rows[0].tone == PATIENT
    assert found.notes == ("waiting for the provider, 10 s: 429",)
    told = "rate_limited, so no call to the provider for 47 s: HTTP Error 429"
    found = board(a_wave(("phase_entered", {**why, "why": told})), 113.0)
    assert [line.text for line in frame(found, 40, 24)[-4:-2]] == [
        "waiting for the provider, 10 s:",
        "rate_limited for 47 s: HTTP Error 429",
    ]
    testing = a_wave(("phase_entered", {"slug": "a", "phase": "test"}), ("phase_entered", why))
    assert board(testing, 120.0).rows[0].tone == LIVELY


def test_a_stop_and_the_end_are_told() -> None:
    assert board(a_wave(), 110.0, stopping="halted by hand").notes[0] == "stopping: halted by hand"
    end = ("wave_finished", {"aborted": True, "abort_reason": "halt"})
    assert board(a_wave(end), 110.0).notes == ("ended, halt: shipped 0 of 2",)


def test_the_heartbeat_says_what_is_waited_for() -> None:
    line = heartbeat(board(a_wave(), 161.0, lambda _: Sign(101.0)))
    assert line == (
        "waiting for a (build 1:00, silent for 1:00); 0 of 2 done, 1 running, 1 waiting, "
        "$0.50 of $4.00, 1k tokens, 1:01, 7 more in the queue"
    )
    many = Board(tuple(a_row(n) for n in range(8)), (), ("0 of 8 done",))
    assert heartbeat(many).endswith("item-4 (build 1:00) and 3 more; 0 of 8 done")


@pytest.mark.parametrize(
    ("tail", "shown"),
    [
        (b"", ""),
        (b"one\ntwo\n\n  \n", "two"),
        (b"a\x1b[31mred\x1b[0m \x1b]0;title\x07word\x1b", "ared word\\x1b"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"x" * 900, "x" * 300),
        (
            b'{"type":"assistant","message":{"content":[{"type":"text","text":"I look."}]}}',
            "I look.",
        ),
        (b'{"content":[{"name":"Bash","input":{"command":"ls -l"}}]}', "Bash: ls -l"),
        (b'words\n{"type":"system","session":1}\n', "words"),
        (b'{"broken', '{"broken'),
        (b'{"a":' * 40, '{"a":' * 40),
        (b"\xe2\x80\xaeevil", "\\u202eevil"),
    ],
)
def test_the_last_line_with_words_of_an_output(tail: bytes, shown: str) -> None:
    assert last_line(tail) == shown


def test_no_sign_without_output() -> None:
    assert board(a_wave(), 200.0).rows[0].silent == ""
    assert NO_SIGN.at is None
