"""The switch set with a shell, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.limits.admission import halt_reason
from tools.halt import HALT_FILE, halt


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "halted: without a reason in "),
        (b" \n", "halted: without a reason in "),
        (b"lunch\n", "halted: by hand: lunch; to go on: "),
        (b"lunch\nand more\n", "halted: by hand: lunch; to go on: "),
        (b"x" * 9000, f"halted: by hand: {'x' * 500}; to go on: "),
        (b"\x1b[31mred\n", "halted: for a reason that cannot be read: "),
        (b"\xff\xfe", "halted: for a reason that cannot be read: "),
        (b'{"reason": "lun', "halted: for a reason that cannot be read: "),
        (b"{}", "halted: without a reason in "),
    ],
)
def test_what_somebody_wrote_there_is_the_reason(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / HALT_FILE).write_bytes(content)
    assert halt_reason(tmp_path).startswith(said)


def test_a_reason_that_was_given_is_told(tmp_path: Path) -> None:
    halt("lunch", tmp_path)
    assert halt_reason(tmp_path).startswith("halted: lunch; to go on: ")
