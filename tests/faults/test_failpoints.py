"""Failpoints do what they are told, where they are told, and nothing otherwise."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from state_store.documents import failpoints
from tests.support.interpreter import PYTHON

ROOT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
HITS = """
from state_store.documents.failpoints import active, failpoint
for name in ("a", "b", "a", "c"):
    try:
        failpoint(name)
    except OSError as error:
        print(error.errno, error.filename)
    print(name, flush=True)
"""
WRITE = """
import pathlib, sys
from state_store.documents.files import write_text_atomic
write_text_atomic(pathlib.Path(sys.argv[1]), "new text")
"""


def ran(code: str, fail: str, *arguments: str | Path) -> tuple[int, list[str]]:
    done = subprocess.run(
        [*PYTHON, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "TIDEGATE_FAIL": fail},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stdout.split()


@pytest.mark.sampled(4)
@posix
@pytest.mark.parametrize(
    ("fail", "status", "hits"),
    [
        ("", 0, "abac"),
        ("x=kill", 0, "abac"),
        ("b=kill", -signal.SIGKILL, "a"),
        ("a@2=kill", -signal.SIGKILL, "ab"),
        ("#4=kill", -signal.SIGKILL, "aba"),
        ("*=kill", -signal.SIGKILL, ""),
        ("c=term", -signal.SIGTERM, "aba"),
        ("b=exit:7", 7, "a"),
        ("x=kill;b=exit:3", 3, "a"),
        ("b=torn:3", -signal.SIGKILL, "a"),
    ],
)
def test_a_point_ends_the_process_where_it_is_told(fail: str, status: int, hits: str) -> None:
    assert ran(HITS, fail) == (status, list(hits))


@posix
def test_an_error_is_raised_once_or_each_time() -> None:
    assert ran(HITS, "a@2=ENOSPC") == (0, ["a", "b", "28", "a", "a", "c"])


def test_all_points_of_a_run_can_be_listed(tmp_path: Path) -> None:
    ran(HITS, f"*=trace:{tmp_path / 'trace'}")
    assert (tmp_path / "trace").read_text().split() == ["a", "b", "a", "c"]


@posix
def test_a_stopped_process_goes_on_where_it_was() -> None:
    child = subprocess.Popen(
        [*PYTHON, "-c", HITS],
        cwd=ROOT,
        env={**os.environ, "TIDEGATE_FAIL": "b=stop"},
        stdout=subprocess.PIPE,
        text=True,
    )
    _, how = os.waitpid(child.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(how)
    os.kill(child.pid, signal.SIGCONT)
    assert child.communicate(timeout=60)[0].split() == ["a", "b", "a", "c"]


@pytest.mark.sampled(3)
@posix
@pytest.mark.parametrize(
    ("fail", "text"),
    [
        ("file.write=kill", "old"),
        ("file.write=torn:3", "old"),
        ("file.before_replace=kill", "old"),
        ("file.after_replace=kill", "new text"),
    ],
)
def test_a_file_is_the_old_or_the_new_one_wherever_its_writer_dies(
    tmp_path: Path, fail: str, text: str
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    status, _ = ran(WRITE, fail, path)
    assert status == -signal.SIGKILL
    assert path.read_text() == text


def test_nothing_is_armed_in_an_ordinary_run() -> None:
    failpoints.failpoint("anything")
    assert not failpoints.active()
