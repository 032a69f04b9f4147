"""What the default run takes of a long table, and how a test that failed is repeated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
from tests.conftest import (
    pytest_addoption, pytest_collection_modifyitems, pytest_runtest_makereport)
"""
SETTINGS = """
[pytest]
addopts = --strict-markers -p no:cacheprovider -m "not more and not sweep"
markers =
    more
    sampled
    sweep
"""
TABLES = """
import pytest

@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", range(9))
def test_spread(n): pass

@pytest.mark.sampled(1)
@pytest.mark.parametrize("n", range(9))
def test_one(n): pass

@pytest.mark.sampled(9)
@pytest.mark.parametrize("n", range(2))
def test_all(n): pass

@pytest.mark.sampled(each="kind")
@pytest.mark.parametrize("n", range(4))
@pytest.mark.parametrize("kind", ["x", pytest.param("w", marks=pytest.mark.sweep), "y"])
def test_kinds(n, kind): pass

@pytest.mark.more
@pytest.mark.parametrize("n", ["x", pytest.param("w", marks=pytest.mark.sweep)])
def test_long(n): pass
"""
KEPT = "spread[0] spread[4] spread[8] one[0] all[0] all[1] kinds[x-0] kinds[y-0]"


def pytest_in(folder: Path, *flags: str) -> str:
    """The output of a run in a folder with the test module `tables`."""
    for name, text in {"conftest.py": CONFTEST, "pytest.ini": SETTINGS}.items():
        (folder / name).write_text(text)
    return subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-q", *flags],
        cwd=folder,
        env={"PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path)), "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    ).stdout


def chosen(folder: Path, *flags: str) -> list[str]:
    told = pytest_in(folder, "--collect-only", *flags)
    return [line.partition("::test_")[2] for line in told.splitlines() if "::" in line]


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    (tmp_path / "test_tables.py").write_text(TABLES)
    return tmp_path


def test_a_sample_is_spread_over_its_table_or_has_one_case_of_each_kind(tables: Path) -> None:
    assert chosen(tables) == KEPT.split()


@pytest.mark.more
def test_what_the_sample_leaves_is_marked_more_and_nothing_is_in_both(tables: Path) -> None:
    more, everything = chosen(tables, "-m", "more"), chosen(tables, "-m", "not sweep")
    assert sorted([*KEPT.split(), *more]) == sorted(everything)
    assert "long[x]" in more


@pytest.mark.more
def test_a_failed_test_says_how_it_is_repeated(tmp_path: Path) -> None:
    (tmp_path / "test_first.py").write_text("def test_good(): pass")
    (tmp_path / "test_then.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', ['a b'])\ndef test_bad(n): assert not n"
    )
    told = pytest_in(tmp_path, "--processes", "1").splitlines()
    start = "python -m pytest --processes 1"
    assert f"{start} -m '' 'test_then.py::test_bad[a b]'" in told
    assert f"in its order: {start} test_first.py test_then.py" in told
