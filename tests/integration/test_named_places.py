"""What a person names with `--output` is written to, whatever it is."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from driver.cli.report_files import write_report
from tools import wave_templates

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no named pipes in folders")


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def _read_after(path: Path, reader: int) -> dict[str, object]:
    try:
        told = os.read(reader, 60_000)
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)
    found: dict[str, object] = json.loads(told)
    return found


def test_a_report_into_a_pipe_leaves_it_a_pipe(pipe: Path) -> None:
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert write_report({"success": True}, str(pipe)) == 0
    assert _read_after(pipe, reader) == {"success": True}


def test_a_template_into_a_pipe_leaves_it_a_pipe(pipe: Path) -> None:
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    asked = ["instantiate", "library", "--project-name", "p", "--base-dir", ".", "--output"]
    assert wave_templates.main([*asked, str(pipe)]) == 0
    assert "items" in _read_after(pipe, reader)


def test_a_link_to_a_device_stays_one(tmp_path: Path) -> None:
    link = tmp_path / "nowhere"
    link.symlink_to(os.devnull)
    assert write_report({"success": True}, str(link)) == 0
    assert link.is_symlink()
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
