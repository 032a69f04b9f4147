"""Tests shared out among processes are reported as if one had run them all."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no process is forked there")

CONFTEST = "from tests.conftest import pytest_addoption, pytest_runtestloop  # noqa: F401"
EVERY_END = """
import pytest
def test_good(): print("said by a good test")
def test_bad(): assert not "said by a bad test"
@pytest.mark.skip
def test_left_out(): pass
@pytest.mark.xfail
def test_known(): assert False
@pytest.fixture(scope="module")
def broken():
    yield
    raise OSError("not torn down")
def test_torn(broken): print("printed", end="")
"""
KILLED = "import os, signal\ndef test_killed(): os.kill(os.getpid(), signal.SIGKILL)"
MEETS = """
from pathlib import Path
def test_{0}():
    with open("begun", "a") as begun:
        begun.write("{0} ")
    Path("{0}").touch()
    while "{1}" and not Path("{1}").exists():
        pass
"""
IN_FOLDERS = """
import pytest
@pytest.fixture(scope="session", params=["{0}"])
def made(): return "{0}"
def test_first(made): pass
def test_last(made): pass
"""
QUIET = "def test_{0}(tmp_path): assert tmp_path.is_dir()"


def told(folder: Path, processes: int, **modules: str) -> tuple[int, str]:
    """Exit code and output of a run of these modules, without how long it took and whose module was
    ready first."""
    folder.mkdir(exist_ok=True)
    for name, text in {"conftest": CONFTEST, **modules}.items():
        (folder / f"{name}.py").write_text(text)
    flags = ("-q", "-rfEs", "-o", "cache_dir=cache", "--processes", str(processes), "--basetemp")
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", *flags, folder / "temp", "."],
        cwd=folder,
        env={"PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path))},  # pytest may be anywhere
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    said = re.sub(r"in [0-9.]+s", "", done.stdout).replace(str(folder), "")
    return done.returncode, re.sub("^[.a-zA-Z]+", lambda ends: "".join(sorted(ends[0])), said)


@pytest.mark.more
def test_every_end_of_a_test_is_told_as_by_one_process(tmp_path: Path) -> None:
    modules = {"test_a": EVERY_END, "test_b": QUIET.format("b"), "test_c": QUIET.format("c")}
    code, output = told(tmp_path / "two", 2, **modules)
    assert (code, output) == told(tmp_path / "one", 1, **modules)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 4 passed, 1 skipped, 1 xfailed, 1 error" in output


def test_a_process_that_dies_fails_the_run(tmp_path: Path) -> None:
    modules = {"test_a": KILLED, "test_b": QUIET.format("b")}
    code, output = told(tmp_path / "two", 2, **modules)
    assert code == pytest.ExitCode.INTERNAL_ERROR
    assert "tests without a report, such as test_a.py::test_killed" in output


@pytest.mark.more
def test_a_run_is_timed_for_the_next_one(tmp_path: Path) -> None:
    told(tmp_path / "run", 2, test_a=QUIET.format("a"), test_b=QUIET.format("b"))
    assert {*json.loads(cached(tmp_path / "run").read_text())} == {"test_a.py ", "test_b.py "}


@pytest.mark.more
def test_the_longest_modules_begin_first(tmp_path: Path) -> None:
    """The two that are long wait for each other, which the short one could be before."""
    times = cached(tmp_path / "run")
    times.parent.mkdir(parents=True)
    times.write_text(json.dumps({"test_a.py ": 5, "test_b.py ": 1, "test_c.py ": 9}))
    modules = {"test_a": ("a", "c"), "test_b": ("b", ""), "test_c": ("c", "a")}
    code, _ = told(tmp_path / "run", 2, **{n: MEETS.format(*of) for n, of in modules.items()})
    assert code == 0
    assert (tmp_path / "run" / "begun").read_text().split()[-1] == "b"


def cached(folder: Path) -> Path:
    return folder / "cache" / "v" / "tidegate" / "seconds"


@pytest.mark.more
def test_a_module_of_another_folder_begins_where_nothing_is_set_up(tmp_path: Path) -> None:
    folders = [tmp_path / "run" / name for name in "abcdef"]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / f"test_{folder.name}.py").write_text(IN_FOLDERS.format(folder.name))
        (folder / f"test_{folder.name}{folder.name}.py").write_text(QUIET.format("x"))
    code, output = told(tmp_path / "run", 2)
    assert (code, "18 passed" in output) == (0, True), output
