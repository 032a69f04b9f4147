"""The output file that a person is to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.filesystem.kept_output import file_to_read


@pytest.mark.parametrize(
    ("out", "err", "read"),
    [("x", "y", ".out"), ("", "y", ".err"), ("", "", ".out"), (None, None, ".out")],
)
def test_stderr_is_named_only_if_stdout_is_empty(
    tmp_path: Path, out: str | None, err: str | None, read: str
) -> None:
    for text, ending in ((out, ".out"), (err, ".err")):
        if text is not None:
            (tmp_path / f"test-1{ending}").write_text(text, encoding="utf-8")
    assert file_to_read(str(tmp_path / "test-1.out")) == str(tmp_path / f"test-1{read}")
