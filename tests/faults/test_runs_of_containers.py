"""A run in another container has other numbers for processes: it is never taken for dead by them,
and neither is the folder in which it works."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from driver.execution.process_identity import ProcessIdentity, identity, is_alive
from driver.run_state.run_registry import clear_up, waves_alive
from driver.workspace.run_folder import OWNER_FILE, FolderOwner, owner_of

pytestmark = pytest.mark.skipif(not Path("/proc/self/ns/pid").exists(), reason="no containers here")

NOBODY = 2**22 + 1


def me() -> ProcessIdentity:
    found = identity(os.getpid())
    assert found is not None
    return found


def noted(state: Path, maker: dict[str, Any]) -> tuple[Path, Path]:
    """A run's note and the folder that it works in."""
    record, folder = state / "runs" / "w1" / "run.json", state / "work"
    record.parent.mkdir(parents=True)
    folder.mkdir()
    told = {"wave_id": "w1", "folders": [str(folder)], "host": socket.gethostname()}
    record.write_text(json.dumps(told | maker), encoding="utf-8")
    return record, folder


def signed(folder: Path, maker: dict[str, Any]) -> FolderOwner:
    said = {"run": "w1@x", "base": "0" * 40, "top": b"/top".hex()}
    (folder / OWNER_FILE).write_text(json.dumps(said | maker), encoding="utf-8")
    found = owner_of(folder)
    assert found is not None
    return found


def test_a_run_of_another_container_keeps_its_note_and_its_folder(tmp_path: Path) -> None:
    there = asdict(replace(me(), pid=NOBODY, numbered_by="another"))
    record, folder = noted(tmp_path, there)
    assert tuple(clear_up(tmp_path, dict(os.environ))) == ()
    assert record.exists()
    assert folder.exists()
    assert waves_alive(tmp_path) == {"w1"}


@pytest.mark.parametrize("other", [{"boot": "an earlier one"}, {"numbered_by": ""}, {}])
def test_a_run_of_an_earlier_boot_or_of_this_container_is_dead(
    tmp_path: Path, other: dict[str, str]
) -> None:
    record, folder = noted(tmp_path, asdict(replace(me(), pid=NOBODY)) | other)
    assert tuple(clear_up(tmp_path, dict(os.environ))) == ("wave w1 ended without saying so",)
    assert not record.exists()
    assert not folder.exists()


def test_a_folder_of_another_container_is_nobodys_to_remove_while_it_is_young(
    tmp_path: Path,
) -> None:
    there = signed(tmp_path, asdict(replace(me(), numbered_by="another")))
    assert (there.is_in_use, there.is_from_elsewhere) == (False, True)
    ours = signed(tmp_path, asdict(me()))
    assert (ours.is_in_use, ours.is_from_elsewhere) == (True, False)


def test_only_a_number_of_ones_own_container_tells() -> None:
    assert is_alive(me()) is True
    assert is_alive(replace(me(), pid=NOBODY)) is False
    assert is_alive(replace(me(), numbered_by="another")) is None
    assert is_alive(replace(me(), numbered_by="another", boot="an earlier one")) is False
