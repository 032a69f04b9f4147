"""The halt switch: whatever lies in its place stops, and everyone looks in the same place."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from state_store.documents.errors import CannotRunError, InputError
from tests.support import warm
from tests.support.interpreter import PYTHON
from tools import cost_ceiling, halt
from tools.settings import load as settings

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tools" / "halt.py"
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX files")


def run(
    *arguments: str | Path,
    cwd: Path,
    program: tuple[str | Path, ...] = (PROGRAM,),
    environ: Mapping[str, str] | None = None,
    as_nobody: bool = False,
) -> subprocess.CompletedProcess[str]:
    ours = {
        "HOME": str(cwd),
        "PATH": os.environ["PATH"],
        "SYSTEMROOT": os.environ.get("SYSTEMROOT", ""),
    }
    prefix = ("setpriv", "--reuid=65534", "--clear-groups") if as_nobody else ()
    return warm.run(
        [*prefix, *PYTHON, *program, *arguments],
        cwd=cwd,
        env={**ours, "PYTHONDONTWRITEBYTECODE": "1", **(environ or {})},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_set_status_and_clear_tell_by_exit_code_and_json(tmp_path: Path) -> None:
    assert run("--status", cwd=tmp_path).returncode == 0
    done = run("set", "stop \u00e9 \x1b[31m", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    held = json.loads((tmp_path / "state" / ".HALT").read_text(encoding="utf-8"))
    assert held["reason"] == "stop \u00e9 \x1b[31m"
    assert held["timestamp"].endswith("Z")
    for flags in (("--status",), ("--status", "--json")):
        status = run(*flags, cwd=tmp_path)
        assert status.returncode == 1
        assert status.stdout.isascii()
        assert "\x1b" not in status.stdout
    assert json.loads(status.stdout)["reason"] == held["reason"]
    assert run("--clear", cwd=tmp_path).returncode == 0
    assert json.loads(run("--status", "--json", cwd=tmp_path).stdout)["halted"] is False
    assert json.loads(run("--clear", "--json", cwd=tmp_path).stdout)["cleared"] is False


def test_the_text_form_says_halted_with_the_reason_not_halted_or_cleared(tmp_path: Path) -> None:
    assert run("--status", cwd=tmp_path).stdout == "not halted\n"
    done = run("set", "stop", "now", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "HALTED: stop now\n")
    status = run("--status", cwd=tmp_path)
    assert (status.returncode, status.stdout) == (1, "HALTED: stop now\n")
    assert run("--clear", cwd=tmp_path).stdout == "cleared\n"


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "arguments",
    [(), ("set",), ("set", " "), ("reset", "x"), ("--status", "--clear"), ("set", "x", "--clear")],
)
def test_anything_else_is_a_usage_error_and_halts_nothing(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "halt" in done.stderr
    assert not (tmp_path / "state").exists()


def test_it_runs_as_a_file_as_a_module_and_through_a_link(tmp_path: Path) -> None:
    run("set", "x", cwd=tmp_path)
    ways: list[tuple[str | Path, ...]] = [(PROGRAM,), ("-I", PROGRAM)]
    if sys.platform != "win32":
        link = tmp_path / "stop.py"
        link.symlink_to(PROGRAM)
        ways.append((link,))
    for way in ways:
        assert run("--status", cwd=tmp_path, program=way).returncode == 1, way
    module = run(
        "--status", cwd=tmp_path, program=("-m", "tools.halt"), environ={"PYTHONPATH": str(ROOT)}
    )
    assert module.returncode == 1


def make_directory(path: Path) -> None:
    path.mkdir()
    (path / "inside").touch()


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))


ODD: dict[str, Callable[[Path], Any]] = {
    "directory": make_directory,
    "fifo": lambda path: os.mkfifo(path),  # noqa: PLW0108 - Windows has none to name
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "empty": Path.touch,
    "list": lambda path: path.write_text("[]", encoding="utf-8"),
    "no reason": lambda path: path.write_text('{"reason": 5}', encoding="utf-8"),
    "binary": lambda path: path.write_bytes(b"\xff\x00" * 100),
    "huge": lambda path: path.write_bytes(b" " * 2**20),
    "deep": lambda path: path.write_bytes(b"[" * 60_000),
    "socket": make_socket,
}


@posix
@pytest.mark.parametrize("form", ODD)
def test_every_odd_form_of_the_file_halts_with_a_readable_reason(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    ODD[form](tmp_path / ".HALT")
    assert halt.is_halted(tmp_path)
    info = halt.get_halt_info(tmp_path)
    assert info is not None
    assert info["reason"].startswith("halted")
    assert halt.halt("again", tmp_path) == tmp_path / ".HALT"
    assert (halt.get_halt_info(tmp_path) or {})["reason"].startswith(("again", "halted"))


@posix
@pytest.mark.parametrize("form", [form for form in ODD if form != "directory"])
def test_every_form_but_a_full_folder_can_be_cleared(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ODD[form](tmp_path / ".HALT")
    assert halt.clear_halt(tmp_path)
    assert not halt.is_halted(tmp_path)
    assert not halt.clear_halt(tmp_path)


def test_a_full_folder_is_left_to_people(tmp_path: Path) -> None:
    make_directory(tmp_path / ".HALT")
    with pytest.raises(CannotRunError, match="by hand"):
        halt.clear_halt(tmp_path)
    assert run("--clear", "--state-dir", tmp_path, cwd=tmp_path).returncode == 4


def test_a_file_in_the_place_of_the_state_folder_halts(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    if sys.platform != "win32":
        assert halt.is_halted(tmp_path / "state")
    with pytest.raises(CannotRunError):
        halt.halt("x", tmp_path / "state")


def readable_by_nobody(path: Path) -> bool:
    """Whether another user could get here and run our Python at all."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("setpriv") is None:
        return False
    probe = run("--status", "--state-dir", path / "absent", cwd=path, as_nobody=True)
    return probe.returncode == 0


@pytest.mark.more
@posix
@pytest.mark.parametrize("mode", [0o000, 0o444, 0o555], ids=["closed", "unsearchable", "read-only"])
def test_an_ordinary_user_who_cannot_look_is_halted(tmp_path: Path, mode: int) -> None:
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    if not readable_by_nobody(tmp_path):
        pytest.skip("needs root, setpriv, and a checkout other users can read")
    state = tmp_path / "state"
    halt.halt("secret reason", state)
    (state / ".HALT").chmod(0o600)
    state.chmod(mode)
    status = run("--status", "--json", "--state-dir", state, cwd=tmp_path, as_nobody=True)
    assert status.returncode == 1, status.stderr
    assert json.loads(status.stdout)["reason"].startswith("halted")


@pytest.mark.more
@posix
def test_a_switch_that_could_not_be_set_is_an_error(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    if not readable_by_nobody(tmp_path):
        pytest.skip("needs root, setpriv, and a checkout other users can read")
    for mode in (0o555, 0o000):
        (tmp_path / "state").mkdir(exist_ok=True)
        (tmp_path / "state").chmod(mode)
        done = run("set", "x", "--state-dir", tmp_path / "state", cwd=tmp_path, as_nobody=True)
        assert done.returncode == 4, done.stdout
        assert done.stderr.count("\n") == 1
        assert ".HALT cannot be written" in done.stderr


def test_an_absent_state_folder_is_no_halt(tmp_path: Path) -> None:
    assert not halt.is_halted(tmp_path / "state")
    assert halt.get_halt_info(tmp_path / "state") is None


def test_all_programs_look_where_the_config_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "aesop.config.json").write_text('{"state_root": "elsewhere"}', encoding="utf-8")
    assert run("set", "x", cwd=tmp_path).returncode == 0
    assert (tmp_path / "elsewhere" / ".HALT").exists()
    for name in (*settings.STATE_VARIABLES, "AESOP_ROOT", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    assert halt.is_halted()
    assert settings.load().state_dir == halt.resolve_state_dir() == tmp_path / "elsewhere"
    assert halt.resolve_state_dir(halt.load_config()) == tmp_path / "elsewhere"
    assert halt.resolve_state_dir(cost_ceiling.load_config()) == tmp_path / "elsewhere"
    assert halt.resolve_state_dir({"state_root": "third"}) == tmp_path / "third"
    with pytest.raises(InputError):
        halt.resolve_state_dir({"state_root": 5})


def test_a_broken_config_stops_no_one_who_names_the_state_folder(tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text("state_dir = ", encoding="utf-8")
    unknown = run("--status", cwd=tmp_path)
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "tidegate.toml" in unknown.stderr
    assert run("set", "x", "--state-dir", tmp_path / "s", cwd=tmp_path).returncode == 0
    environ = {"AESOP_STATE_ROOT": str(tmp_path / "s")}
    assert run("--status", cwd=tmp_path, environ=environ).returncode == 1
