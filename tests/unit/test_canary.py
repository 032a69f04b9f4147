"""Where a failing test is planted, how the command finds it, and what its run says."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

import pytest

from driver.runners.canary import CanaryVerdict, canary_verdict, plan_canary
from driver.runners.counts import Counts, Doubt
from driver.runners.result import MISSING
from driver.runners.runner import Canary, NotApplicable

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
        ("go test ./...", "no test file"),
        ("pytest && python -m unittest", "no runner"),
        ("echo 'unclosed", "no runner"),
        ("pytest -k calc | cat", "cannot select another"),
        ("pytest --lf", "selects tests by name"),
        ("pytest tests/test_calc.py | tee log", "cannot add a"),
        ("python -m unittest -k x | cat", "cannot select another"),
        ("python -m unittest no.such.module", "the tree has no module"),
        ("python -m unittest discover -s nowhere", "cannot tell which"),
        ("python -m unittest discover -p 'a[b].py'", "cannot tell which"),
        ("python -m unittest tests.test_calc | cat", "cannot add a"),
        ("node --test --test-name-pattern=y", "no test shows such a name"),
        ("node --test --test-only", "selects tests by name"),
    ],
)
def test_where_it_would_not_be_found_none_is_planted(command: str, reason: str) -> None:
    found = plan_canary(command, FILES, (), NONCE)
    assert isinstance(found, NotApplicable)
    assert reason in found.reason


def test_it_imports_nothing_and_tells_what_is_loaded_by_the_names_that_tests_use() -> None:
    changed = ("pkg/calc.py", "src/lib/io.py", "tests/test_calc.py", "setup.py", "README.md",
               "scripts/run.py", "pkg/__init__.py", "a-b/c.py")  # fmt: skip
    canary = plan_canary("pytest", FILES, changed, NONCE)
    assert isinstance(canary, Canary)
    module = ast.parse(canary.text)
    names = next(node for node in ast.walk(module) if isinstance(node, ast.Assign))
    assert ast.literal_eval(names.value) == ("pkg", "pkg.calc", "lib.io", "src.lib.io")
    assert canary.modules == (
        ("pkg", "pkg/__init__.py"),
        ("pkg.calc", "pkg/calc.py"),
        ("lib.io", "src/lib/io.py"),
        ("src.lib.io", "src/lib/io.py"),
    )
    imports = [node for node in ast.walk(module) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in imports] == ["import sys"]


def test_its_names_come_from_the_nonce_alone() -> None:
    one, two = (plan_canary("pytest", FILES, (), nonce) for nonce in ("k7q2x", "m3n9p"))
    assert isinstance(one, Canary)
    assert isinstance(two, Canary)
    assert re.sub("(?i)k7q2x", "m3n9p", one.text) == re.sub("(?i)m3n9p", "m3n9p", two.text)
    assert all("k7q2x" in name for name in (one.path, *one.names))


PYTEST = plan("pytest")
ONE, TWO = PYTEST.names
SEEN = f"FAILED {PYTEST.path}::{ONE} - assert [1] == [2]\nFAILED {PYTEST.path}::K7q2x::{TWO}\n"
LINT = f"{PYTEST.path}:3:5: error: {ONE} {TWO}\n  names are printed with their source"
GUARD = SEEN.replace("FAILED", "ERROR")
REAL = Counts("pytest", 5, 0, 0)


@pytest.mark.parametrize(
    ("exit_code", "output", "now", "real", "verdict"),
    [
        (1, SEEN, Counts("pytest", 7, 2, 0), REAL, CanaryVerdict.RED),
        (1, SEEN, Counts("pytest", 7, 3, 0), None, CanaryVerdict.RED),
        (1, SEEN, None, None, CanaryVerdict.RED),
        (1, f"stopping after 1 failures\nFAILED a.py::{ONE}", Counts("pytest", 3, 1, 0), REAL,
         CanaryVerdict.RED),
        (1, f"stopping after 1 failures\nFAILED a.py::{ONE}", Counts("pytest", 7, 1, 0), REAL,
         CanaryVerdict.GREEN),
        (1, f"stopping after 1 failures\nFAILED a.py::{ONE}", Counts("pytest", 2, 1, 0), None,
         CanaryVerdict.GREEN),
        (1, f"stopping after 1 failures\nFAILED a.py::{ONE}", Counts("pytest", 1, 1, 0), None,
         CanaryVerdict.RED),
        (1, f"stopping after 1 failures\nFAILED a.py::a {ONE}", Counts("pytest", 3, 1, 0), REAL,
         CanaryVerdict.GREEN),
        (1, SEEN, Counts("pytest", 7, 1, 0), REAL, CanaryVerdict.GREEN),
        (1, f"FAILED a.py::{ONE}", Counts("pytest", 7, 1, 0), REAL, CanaryVerdict.GREEN),
        (1, "FAILED a.py::test_a", Counts("pytest", 2, 1, 0), REAL, CanaryVerdict.UNDECIDED),
        (1, "FAILED a.py::test_a", Counts("pytest", 2, 1, 0), None, CanaryVerdict.UNSEEN),
        (1, "ERROR a.py - ImportError", Counts("pytest", 2, 1, 0), None, CanaryVerdict.UNDECIDED),
        (1, LINT, None, REAL, CanaryVerdict.NOT_APPLICABLE),
        (1, LINT, Doubt("pytest", MISSING), REAL, CanaryVerdict.NOT_APPLICABLE),
        (1, GUARD, Counts("pytest", 7, 2, 0), REAL, CanaryVerdict.NOT_APPLICABLE),
        (1, SEEN.replace("assert", "TypeError: no"), Counts("pytest", 7, 2, 0), REAL,
         CanaryVerdict.NOT_APPLICABLE),
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


GO = {"go.mod", "calc.go", "calc_test.go", "a/a.go", "a/a_test.go", "sub/go.mod", "sub/s_test.go"}
GO_TEXTS = dict.fromkeys(GO, "package calc\n")


@pytest.mark.parametrize(
    ("command", "changed", "path", "called"),
    [
        ("go test ./...", "a/a.go", "a/0k7q2x_test.go", "go test ./... ./a"),
        ("go test ./...", "calc.go", "0k7q2x_test.go", "go test ./... ."),
        ("go test -v ./a", "calc.go", "a/0k7q2x_test.go", "go test -v ./a ./a"),
        (("go", "test"), "a/a.go", "0k7q2x_test.go", ("go", "test", ".")),
    ],
)
def test_in_go_it_stands_among_the_tests_of_a_package(
    command: Command, changed: str, path: str, called: Command
) -> None:
    found = plan_canary(command, GO, (changed,), NONCE, texts=GO_TEXTS)
    assert isinstance(found, Canary), found
    assert (found.path, found.command) == (path, called)
    assert found.text.startswith("package calc\n")


CARGO = {"Cargo.toml", "src/lib.rs", "tests/calc.rs"}


@pytest.mark.parametrize(
    ("command", "called"),
    [
        ("cargo test", "cargo test"),
        ("cargo test -p calc -- --test-threads=1", "cargo test -p calc -- --test-threads=1"),
        ("cargo test --test calc", f"cargo test --test calc --test {NONCE}"),
    ],
)
def test_in_rust_it_stands_in_a_test_file_or_in_a_copy(command: Command, called: Command) -> None:
    texts = {"tests/calc.rs": "#[test]\nfn a() {}\n"}
    found = plan_canary(command, CARGO, ("src/lib.rs",), NONCE, texts=texts)
    assert isinstance(found, Canary), found
    assert (found.path, found.command, found.amends) == ("tests/calc.rs", command, True)
    texts = {"tests/calc.rs": "// real\nfn main() {}\n"}
    found = plan_canary(command, CARGO, ("src/lib.rs",), NONCE, texts=texts)
    assert isinstance(found, Canary), found
    assert (found.path, found.command) == (f"tests/{NONCE}.rs", called)
    assert found.text.startswith("// real\n")


@pytest.mark.parametrize(
    "command",
    [
        *(
            "go test -skip X ./...",
            "go test -run X ./... | cat",
            "go test ./none/...",
            "go test ./sub/none",
        ),
        *("cargo test add", "cargo test --lib", "cargo test -- add"),
        *("cargo test --test calc -- --nocapture", "cargo build"),
    ],
)
def test_selected_tests_of_compiled_languages_have_none(command: str) -> None:
    texts = {**GO_TEXTS, "tests/calc.rs": ""}
    assert isinstance(plan_canary(command, GO | CARGO, (), NONCE, texts=texts), NotApplicable)


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        ('const { test } = require("node:test");\n', ".cjs"),
        ('import { test } from "node:test";\n', ".mjs"),
        ("", ".cjs"),
    ],
)
def test_in_node_it_stands_in_a_test_file_or_in_a_copy(text: str, ending: str) -> None:
    texts = {"test/a.test.js": text}
    found = plan_canary("node --test", {"test/a.test.js", "a.js"}, ("a.js",), NONCE, texts=texts)
    assert isinstance(found, Canary), found
    assert found.path == ("test/a.test.js" if text else f"test/{NONCE}.test{ending}")
    assert found.text.startswith(text)
    assert ("import assert_" in found.text) == (ending == ".mjs")


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ('const t = require("node:test");\nt.test("a", f);\nt.test("b", f);\n', "t.test("),
        ('const t = require("node:test");\nt.it("a", f);\n', "t.it("),
        ('const t = require("node:test");\nt("a", f);\n', "t("),
        ('const { it, test } = require("node:test");\nit("a", f);\n', "it("),
        ('import test, { it as check } from "node:test";\ncheck("a", f);\n', "check("),
        ('import test from "node:test";\ntest("a", async (t) => t.test("b", f));\n', "test("),
    ],
)
def test_in_node_it_is_declared_as_most_tests_of_its_file_are(text: str, called: str) -> None:
    texts = {"test/a.test.js": text}
    found = plan_canary("node --test", {"test/a.test.js"}, (), NONCE, texts=texts)
    assert isinstance(found, Canary), found
    assert f"\n\n{called}" in found.text.removeprefix(text.rstrip())


GO_FILE = 'package calc\n\nimport "testing"\n\n// TestAdd adds.\nfunc TestAdd(t *testing.T) {}\n'


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (GO_FILE, "calc_test.go"),
        (GO_FILE.replace('"testing"', '(\n\t"os"\n\t"testing"\n)'), "calc_test.go"),
        (GO_FILE.replace('"testing"', 't "testing"'), "0k7q2x_test.go"),
        ("//go:build slow\n\n" + GO_FILE, "0k7q2x_test.go"),
        ('package calc\n\nimport "testing"\n', "0k7q2x_test.go"),
    ],
)
def test_in_go_it_stands_before_the_first_test_of_a_file(text: str, path: str) -> None:
    found = plan_canary("go test", {"calc_test.go"}, (), NONCE, texts={"calc_test.go": text})
    assert isinstance(found, Canary), found
    assert (found.path, found.amends) == (path, path == "calc_test.go")
    assert found.text.index("package") < found.text.index("TestK7q2x")
    assert not found.amends or found.text.index("TestK7q2x") < found.text.index("TestAdd(")


def test_behind_make_it_is_found_by_the_runner_of_the_target() -> None:
    texts = {"Makefile": "all:\n\ttrue\ntest:\n\tpython -m unittest\n"}
    found = plan_canary("make test", FILES, ("pkg/calc.py",), NONCE, texts=texts)
    assert isinstance(found, Canary), found
    assert (found.runner, found.command) == ("unittest", "make test")
    assert isinstance(plan_canary("make all", FILES, (), NONCE, texts=texts), NotApplicable)


@pytest.mark.parametrize(
    ("command", "name", "called"),
    [
        ("go test -run Add .", "TestAddK7q2x", "go test -run Add . ."),
        ("go test -run='^TestAdd/x$' .", "TestAddK7q2x", "go test -run='^TestAdd/x$' . ."),
        ("go test -run '^TestAdd$' .", "TestK7q2x", "go test -run '^TestAdd$' . . -run=TestK7q2x"),
    ],
)
def test_in_go_it_has_a_name_that_the_command_selects(command: str, name: str, called: str) -> None:
    found = plan_canary(command, {"a_test.go"}, (), NONCE, texts={"a_test.go": GO_FILE})
    assert isinstance(found, Canary), found
    assert (found.names, found.command) == ((name,), called)
    assert found.selects == ("$' . ." in called and "-run=Test" in called)
    assert f"func {name}(t" in found.text
