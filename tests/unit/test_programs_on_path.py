"""The folders on PATH that commands inside of walls may read."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from driver.filesystem.temporary import scratch_folder
from driver.walls.system import system_here

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="walls are made by Linux")


def program_in(folder: Path) -> Path:
    """A new program `tool`."""
    folder.mkdir(parents=True)
    (folder / "tool").touch(0o755)
    return folder / "tool"


def test_a_link_on_path_opens_no_folder_of_a_checkout(tmp_path: Path) -> None:
    on_path = tmp_path / "home" / ".local" / "bin"
    on_path.mkdir(parents=True)
    checkout, apart = tmp_path / "checkout", tmp_path / "apart"
    for top in (checkout, apart):
        (top / "lib").mkdir(parents=True)
        (on_path / top.name).symlink_to(program_in(top / "bin"))
    environ = {"HOME": str(tmp_path / "home"), "PATH": str(on_path)}
    readable = system_here(environ, avoid=(checkout,)).readable
    assert {apart / "bin", apart / "lib"} <= {*readable}
    assert [path for path in readable if path.is_relative_to(checkout)] == []


@pytest.mark.skipif(not os.access("/mnt", os.W_OK), reason="this user may not write in /mnt")
def test_programs_on_another_disk_are_in_reach(tmp_path: Path) -> None:
    """Only the disks of a Windows, which have one letter, are not."""
    with scratch_folder("/mnt") as disk:
        program = program_in(disk / "tools" / "bin")
        environ = {"HOME": str(tmp_path), "PATH": f"{program.parent}:/mnt/c/Windows"}
        readable = system_here(environ).readable
    assert program.parent in readable
    assert Path("/mnt/c/Windows") not in readable
