"""Where tests import from: the question for a command, and what an answer means for an item."""

from __future__ import annotations

import pytest

from driver.domain.ownership import OwnedPath
from driver.python_imports.question import ImportQuestion, question_of
from driver.python_imports.rules import Imports, of_absent, of_elsewhere, of_missing, of_output
from driver.runners.table import find_call
from driver.test_command.invocations import Command

FILES = frozenset(
    {
        *("pyproject.toml", "src/x/__init__.py", "src/x/a.py", "tests/test_x.py"),
        *("packages/y/pyproject.toml", "packages/y/src/y/__init__.py", "tools/yaml.py"),
    }
)
MINE = "/home/me/shop"
PACKAGES = "/env/lib/python3.12/site-packages"
TESTS = ("tests/test_x.py",)


def owned(*paths: str) -> tuple[OwnedPath, ...]:
    return tuple(OwnedPath(path.rstrip("/"), is_dir=path.endswith("/")) for path in paths)


@pytest.mark.parametrize(
    ("name", "file", "owns", "place"),
    [
        ("x", f"{MINE}/src/x/__init__.py", "src/x/a.py", "src/x/__init__.py"),
        ("x.a", f"{MINE}/src/x/a.py", "src/", "src/x/a.py"),
        (
            "y",
            f"{MINE}/packages/y/src/y/__init__.py",
            "packages/y/",
            "packages/y/src/y/__init__.py",
        ),
        ("x", f"{PACKAGES}/x/__init__.py", "src/x/a.py", "src/x/__init__.py"),
        ("y", f"{PACKAGES}/y/__init__.py", "packages/y/", "packages/y/src/y/__init__.py"),
        ("x", f"{MINE}/src/x/__init__.py", "docs/", ""),
        ("yaml", f"{PACKAGES}/yaml/__init__.py", "tools/", ""),  # another project's
        ("x", "/usr/lib/python3.12/x.py", "src/", ""),
    ],
)
def test_a_module_from_elsewhere_stops_the_items_that_may_change_it(
    name: str, file: str, owns: str, place: str
) -> None:
    answer = Imports("python", elsewhere=((name, file, TESTS[0]),))
    told = of_elsewhere(answer, TESTS, FILES, owned(owns))
    assert (f"{file} in place of {place} " in told) is bool(place), told


def test_the_tests_of_other_items_stop_nobody() -> None:
    found = ("x", f"{MINE}/src/x/__init__.py", "tests/test_other.py")
    answer = Imports("python", elsewhere=(found,), missing=(("z", "tests/test_other.py"),))
    assert of_elsewhere(answer, TESTS, FILES, owned("src/")) == ""
    assert of_missing(answer, TESTS, FILES, owned("src/x/a.py")) == ""


@pytest.mark.parametrize(
    ("name", "owns", "told"),
    [
        ("x", ["src/x/a.py"], "set PYTHONPATH=src"),
        ("x", ["src/"], "set PYTHONPATH=src"),
        ("x", ["pyproject.toml"], ""),
        ("x", ["x.py"], ""),
        ("new", ["src/"], ""),
        ("new", ["new.py"], ""),
        ("new", ["src/x/a.py"], "install it for python"),
        ("x.new", ["src/x/"], ""),
        ("x.new", ["src/x/new.py"], ""),
        ("x.new", ["docs/"], "install it for python"),
        ("x", ["src/x/a.py", "tests/test_x.py"], ""),  # the item writes the test
    ],
)
def test_a_missing_module_stops_an_item_that_cannot_bring_it(
    name: str, owns: list[str], told: str
) -> None:
    answer = Imports("python", missing=((name, TESTS[0]),))
    found = of_missing(answer, TESTS, FILES, owned(*owns))
    assert (told in found, bool(found)) == (True, bool(told)), found


def test_an_item_that_may_add_the_dependency_is_not_stopped() -> None:
    answer = Imports("python", missing=(("new", TESTS[0]),))
    mine = owned("requirements.txt")
    assert of_missing(answer, TESTS, FILES, mine)
    assert of_missing(answer, TESTS, FILES, mine, may_add_dependencies=True) == ""


def test_a_test_file_that_is_absent_may_be_the_items() -> None:
    assert of_absent(["tests/test_n.py"], owned("tests/"), ()) == ""
    assert "not committed yet" in of_absent(["tests/test_n.py"], owned("a"), {"tests/test_n.py"})
    assert "the base does not have" in of_absent(["tests/test_n.py"], owned("a"), ())


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (f"cannot import name 'b' from 'x.a' ({MINE}/src/x/a.py)", True),
        ('File "/home/other/clone/src/x/a.py", line 3', True),
        ('File "src/x/a.py", line 3', False),
        ('File "/env/lib/python3.12/site-packages/a.py", line 3', False),
    ],
)
def test_a_red_output_may_name_another_checkout(output: str, *, told: bool) -> None:
    assert bool(of_output(output, ["src/x/a.py"], MINE)) is told


@pytest.mark.parametrize(
    ("command", "question"),
    [
        (
            "pytest -q tests/test_x.py::test_a",
            ImportQuestion(("pytest", "-q"), TESTS, folders=("tests",), plugin=True),
        ),
        (
            ("python", "-m", "pytest", "tests/test_n.py"),
            ImportQuestion(
                ("python", "-m", "pytest"), (), absent=("tests/test_n.py",), plugin=True
            ),
        ),
        (
            "pytest --ignore=tests/a",
            ImportQuestion(("pytest", "--ignore=tests/a"), TESTS, plugin=True, certain=False),
        ),
        ("python -m unittest -q tests.test_x", ImportQuestion(("python",), TESTS)),
        (
            "python -W error -m unittest discover -s tests",
            ImportQuestion(("python", "-W", "error"), TESTS, first=("tests",)),
        ),
        (
            "python -m unittest tests.test_n",
            ImportQuestion(("python",), (), absent=("tests/test_n.py",)),
        ),
        ("uv run pytest", None),
        ("pytest --lf", None),
        ("node --test", None),
    ],
)
def test_a_command_of_python_makes_a_question(
    command: Command, question: ImportQuestion | None
) -> None:
    call = find_call(command)
    assert call is not None
    assert question_of(call, FILES, {}) == question
