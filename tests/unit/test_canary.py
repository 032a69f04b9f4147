"""Where a failing test is planted, how the command finds it, and what its run says."""

from __future__ import annotations

import ast
from collections.abc import Collection

import pytest

from driver.canary import Canary, CanaryVerdict, NotApplicable, canary_verdict, plan_canary
from driver.runners.summary import MISSING
from driver.test_counts import Counts, Doubt

FILES = frozenset(
    {
        "pkg/__init__.py",
        "pkg/calc.py",
        "src/lib/__init__.py",
        "src/lib/io.py",
        "examples/test_old.py",
        "tests/__init__.py",
        "tests/test_calc.py",
        "tests/deep/test_more.py",
        "sub/tests/test_sub.py",
        "web/test/a.test.js",
        "web/package.json",
        "web/lib/a.js",
    }
)
NONCE = "k7q2x"
Command = str | tuple[str, ...]


def plan(command: Command, files: Collection[str] = FILES, workdir: str = "") -> Canary:
    texts = {"web/package.json": '{"scripts": {"test": "node --test test/a.test.js"}}'}
    found = plan_canary(command, files, ("pkg/calc.py",), NONCE, texts=texts, workdir=workdir)
    assert isinstance(found, Canary), found
    return found


@pytest.mark.parametrize(
    ("command", "path", "called", "alone"),
    [
        ("pytest", "tests/test_k7q2x.py", "pytest --maxfail=0",
         "pytest --maxfail=0 tests/test_k7q2x.py"),
        (("pytest", "-q", "tests/deep"), "tests/deep/test_k7q2x.py",
         ("pytest", "-q", "tests/deep", "--maxfail=0"),
         ("pytest", "-q", "tests/deep", "--maxfail=0", "tests/deep/test_k7q2x.py")),
        ("pytest tests/test_calc.py::test_a", "tests/test_k7q2x.py",
         "pytest tests/test_calc.py::test_a --maxfail=0 tests/test_k7q2x.py", None),
        ("cd sub && pytest tests/test_sub.py", "sub/tests/test_k7q2x.py",
         "cd sub && pytest tests/test_sub.py --maxfail=0 tests/test_k7q2x.py", None),
        ("pytest | tee log", "tests/test_k7q2x.py", "pytest | tee log", None),
        ("pytest .", "tests/test_k7q2x.py", "pytest . --maxfail=0",
         "pytest . --maxfail=0 tests/test_k7q2x.py"),
        ("py -3 -m pytest -n 2", "tests/test_k7q2x.py", "py -3 -m pytest -n 2 --maxfail=0",
         "py -3 -m pytest -n 2 --maxfail=0 tests/test_k7q2x.py"),
        ("FOO=1 timeout 60 uv run pytest -q", "tests/test_k7q2x.py",
         "FOO=1 timeout 60 uv run pytest -q --maxfail=0",
         "FOO=1 timeout 60 uv run pytest -q --maxfail=0 tests/test_k7q2x.py"),
        ("python -m unittest", "test_k7q2x.py", "python -m unittest",
         "python -m unittest discover -p test_k7q2x.py"),
        ("python -m unittest discover -s tests -t .", "tests/test_k7q2x.py",
         "python -m unittest discover -s tests -t .",
         "python -m unittest discover -s tests -t . -p test_k7q2x.py"),
        ("python -m unittest tests.test_calc.A.test_b", "tests/test_k7q2x.py",
         "python -m unittest tests.test_calc.A.test_b tests.test_k7q2x", None),
        ("python -m unittest tests/test_calc.py", "tests/test_k7q2x.py",
         "python -m unittest tests/test_calc.py tests.test_k7q2x", None),
        ("cd web && node --test", "web/test/k7q2x.test.mjs", "cd web && node --test",
         "cd web && node --test test/k7q2x.test.mjs"),
    ],
)  # fmt: skip
def test_it_is_planted_beside_the_tests_that_the_command_runs(
    command: Command, path: str, called: Command, alone: Command | None
) -> None:
    canary = plan(command)
    assert (canary.path, canary.command, canary.alone) == (path, called, alone)


def test_a_work_folder_is_where_the_command_runs() -> None:
    assert plan("pytest", workdir="sub").path == "sub/tests/test_k7q2x.py"
    canary = plan(("npm", "test"), workdir="web")
    assert canary.command == ("npm", "test", "--", "test/k7q2x.test.mjs")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("make test", "no runner"),
        ("npm test", "no runner"),
        ("go test ./...", "no runner"),
        ("pytest && python -m unittest", "no runner"),
        ("echo 'unclosed", "no runner"),
        ("pytest -k calc", "selects tests by name"),
        ("pytest --lf", "selects tests by name"),
        ("pytest tests/test_calc.py | tee log", "none can be added"),
        ("python -m unittest -k x", "selects tests by name"),
        ("python -m unittest no.such.module", "is in the tree"),
        ("python -m unittest discover -s nowhere", "not clear"),
        ("python -m unittest discover -p 'a[b].py'", "not clear"),
        ("python -m unittest tests.test_calc | cat", "none can be added"),
        ("node --test --test-name-pattern=x", "selects tests by name"),
    ],
)
def test_where_it_would_not_be_found_none_is_planted(command: str, reason: str) -> None:
    found = plan_canary(command, FILES, (), NONCE)
    assert isinstance(found, NotApplicable)
    assert reason in found.reason


def test_it_imports_what_changed_by_the_names_that_tests_use() -> None:
    changed = ("pkg/calc.py", "src/lib/io.py", "tests/test_calc.py", "setup.py", "README.md",
               "scripts/run.py", "pkg/__init__.py", "a-b/c.py")  # fmt: skip
    canary = plan_canary("pytest", FILES, changed, NONCE)
    assert isinstance(canary, Canary)
    loop = next(node for node in ast.walk(ast.parse(canary.text)) if isinstance(node, ast.For))
    assert ast.literal_eval(loop.iter) == (
        (("pkg",), "pkg/__init__.py"),
        (("pkg.calc",), "pkg/calc.py"),
        (("lib.io", "src.lib.io"), "src/lib/io.py"),
    )


def test_its_names_come_from_the_nonce_alone() -> None:
    one, two = (plan_canary("pytest", FILES, (), nonce) for nonce in ("k7q2x", "m3n9p"))
    assert isinstance(one, Canary)
    assert isinstance(two, Canary)
    assert one.text.replace("k7q2x", "m3n9p") == two.text
    assert all("k7q2x" in name for name in (one.path, *one.names))


PYTEST = plan("pytest")
SEEN = " ".join(PYTEST.names)
REAL = Counts("pytest", 5, 0, 0)


@pytest.mark.parametrize(
    ("exit_code", "output", "now", "real", "verdict"),
    [
        (1, SEEN, Counts("pytest", 7, 2, 0), REAL, CanaryVerdict.RED),
        (1, SEEN, Counts("pytest", 7, 3, 0), None, CanaryVerdict.RED),
        (1, SEEN, None, None, CanaryVerdict.RED),
        (1, f"stopping after 1 failures {PYTEST.names[0]}", Counts("pytest", 3, 1, 0), REAL,
         CanaryVerdict.RED),
        (1, f"stopping after 1 failures {PYTEST.names[1]}", Counts("pytest", 3, 1, 0), REAL,
         CanaryVerdict.GREEN),
        (1, SEEN, Counts("pytest", 7, 1, 0), REAL, CanaryVerdict.GREEN),
        (1, "coverage is too low", Counts("pytest", 7, 0, 0), REAL, CanaryVerdict.GREEN),
        (0, SEEN, Counts("pytest", 7, 2, 0), REAL, CanaryVerdict.GREEN),
        (0, "", Counts("pytest", 7, 0, 0), REAL, CanaryVerdict.GREEN),
        (0, "", Counts("pytest", 5, 0, 2), REAL, CanaryVerdict.GREEN),
        (0, "", Doubt("pytest", MISSING), REAL, CanaryVerdict.GREEN),
        (0, "", None, None, CanaryVerdict.GREEN),
        (0, "", Counts("pytest", 5, 0, 0), REAL, CanaryVerdict.UNSEEN),
        (5, "", Counts("pytest", 0, 0, 0), None, CanaryVerdict.UNSEEN),
        (1, "", Counts("pytest", 5, 1, 0), REAL, CanaryVerdict.UNDECIDED),
        (3, "", Doubt("pytest", MISSING), REAL, CanaryVerdict.UNDECIDED),
        (127, "", None, REAL, CanaryVerdict.UNDECIDED),
        (-9, SEEN, None, REAL, CanaryVerdict.UNDECIDED),
        (None, SEEN, None, REAL, CanaryVerdict.UNDECIDED),
    ],
)  # fmt: skip
def test_only_a_planted_test_that_is_red_by_itself_counts(
    exit_code: int | None,
    output: str,
    now: Counts | Doubt | None,
    real: Counts | Doubt | None,
    verdict: CanaryVerdict,
) -> None:
    assert canary_verdict(PYTEST, exit_code, output, now, real).verdict is verdict
