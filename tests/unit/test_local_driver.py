"""The small pure decisions that all our adapters share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from driver.backend_api.driver import Usage, WorkerRequest
from driver.backend_api.tries import TokenMeter
from driver.backends.cli.endings import MAX_LINE, printed_lines, tail
from driver.backends.cli.local_driver import item_of, phase_of
from driver.execution.processes import Ending, Finished


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("  short \n", "short"),
        ("one\ntwo two\nthree", "... three"),
        ("x" * 30, "... " + "x" * 10),
    ],
)
def test_the_end_of_a_text_starts_at_a_line_where_it_can(text: str, expected: str) -> None:
    assert tail(text, 10) == expected


@pytest.mark.parametrize(
    ("environment", "label", "expected"),
    [
        ({"TIDEGATE_ITEM": "a"}, "dispatch:b", "a"),
        ({}, "dispatch:b", "b"),
        ({}, "b", "b"),
        ({}, None, ""),
    ],
)
def test_the_engine_names_the_item_and_else_the_label_does(
    environment: dict[str, str], label: str | None, expected: str
) -> None:
    request = WorkerRequest("p", label=label, environment=environment)
    assert item_of(request) == expected


@pytest.mark.parametrize(
    ("environment", "phase", "expected"),
    [
        ({"TIDEGATE_PHASE": "repair"}, "build", "repair"),
        ({}, "repair", "repair"),
        ({}, None, "build"),
    ],
)
def test_a_dispatch_is_a_build_unless_said_otherwise(
    environment: dict[str, str], phase: str | None, expected: str
) -> None:
    assert phase_of(WorkerRequest("p", phase=phase, environment=environment)) == expected


def test_half_known_use_is_unknown_use() -> None:
    meter = TokenMeter()
    for usage in (Usage(1, None), Usage(None, 1), Usage(2, 3), Usage(0, 0)):
        meter.add(usage)
    assert (meter.known, meter.unmetered) == (5, 2)


def test_a_line_without_end_is_read_in_pieces(tmp_path: Path) -> None:
    printed = tmp_path / "agent.out"
    with printed.open("wb") as file:
        file.truncate(3 * MAX_LINE)  # takes no room on the disk
        file.seek(0, 2)
        file.write(b"\n{}\n")
    finished = Finished(Ending.EXITED, 0, "", "", 0.0, stdout_file=printed)
    lengths = [len(line) for line in printed_lines(finished)]
    assert lengths == [MAX_LINE] * 3 + [1, 3]


@pytest.mark.skipif(os.name == "nt", reason="no named pipes there")
def test_a_pipe_or_a_link_in_place_of_the_output_is_never_read(tmp_path: Path) -> None:
    """The agent can write the folder of its output, and reading a pipe may never end."""
    printed, secret = tmp_path / "agent.out", tmp_path / "secret"
    finished = Finished(Ending.EXITED, 0, "real\n", "", 0.0, stdout_file=printed)
    os.mkfifo(printed)
    writer = os.open(printed, os.O_RDWR)
    try:
        os.write(writer, b"forged\n")
        assert next(iter(printed_lines(finished))) == "real"
    finally:
        os.close(writer)
    printed.unlink()
    secret.write_text("secret\n", encoding="utf-8")
    printed.symlink_to(secret)
    assert list(printed_lines(finished)) == ["real"]
