"""Files that are tests by what a command says, and new names that would go before old ones."""

from __future__ import annotations

import pytest

from driver.domain.ownership import parse_owned
from driver.domain.results import MODE_LINK, Change
from driver.policy.protected_paths import A_TEST, Protection, configuration
from driver.policy.test_files import named_tests
from driver.test_command.build_scripts import included, made_by_name

WAS = "100644"
TEXTS = {
    "pytest.ini": "[pytest]\npython_files = check_*.py\n    *_checks.py\n",
    "sub/Makefile": "test: unit style\n\nunit:\n\tpytest a.py\n\nstyle:\n\ttrue\n\n.PHONY: style\n",
    "web/package.json": '{"scripts": {"test": "node --test a.js"}}',
}


def read(path: str) -> str:
    return TEXTS.get(path, "")


def kind_of(
    change: Change, command: str | tuple[str, ...], base: frozenset[str], work_dir: str = "."
) -> str:
    rules = Protection(base | TEXTS.keys(), command, work_dir, read=read)
    return dict(rules.protected_changes([change], (parse_owned("src/"),))).get(change.path, "")


def new(path: str, mode: str = WAS) -> Change:
    return Change(path, mode, "b", None)


@pytest.mark.parametrize(
    ("command", "path", "is_one"),
    [
        ("python -m unittest", "a/testing.py", True),
        ("python -m unittest discover -s checks", "checks/testcalc.py", True),
        ("python -m unittest discover -s checks", "app/testing.py", False),
        ("python -m unittest discover -p 'check_*.py'", "check_a.py", True),
        ("python -m unittest discover checks --pattern=c*.py", "checks/calc.py", True),
        ("python -m unittest checks.calc.Case.test_a", "checks/calc.py", True),
        ("python -m unittest checks.calc", "testing.py", False),
        ("pytest", "sub/check_a.py", True),
        ("cd sub && pytest", "sub/a_checks.py", True),
        ("pytest", "src/a.py", False),
        ("pytest -q a.py::test_x", "a.py", True),
        ("pytest --cov a.py tests", "a.py", False),
        ("pytest --doctest-modules a.py", "a.py", False),
        ("make -C sub test", "sub/a.py", True),
        ("cargo test a.rs", "a.rs", False),
        ("mypy a.py", "a.py", False),
    ],
)
def test_a_command_says_which_files_are_its_tests(command: str, path: str, *, is_one: bool) -> None:
    assert named_tests(command, ".", read).holds(path) is is_one


def test_what_a_packages_script_names_is_a_test_where_it_is_run() -> None:
    assert named_tests("npm test", "web", read).holds("web/a.js")
    assert not named_tests("npm test", ".", read).is_read


def test_a_test_by_the_commands_say_comes_from_the_base() -> None:
    base = frozenset({"checks.py"})
    assert kind_of(Change("checks.py", WAS, "b", WAS), "pytest checks.py", base) == A_TEST
    assert kind_of(new("checks.py"), "pytest checks.py", frozenset()) == ""


@pytest.mark.parametrize(
    ("path", "hides"),
    [
        ("checks/calc.py", True),
        ("checks/calc/__init__.py", True),
        ("checks/other.py", False),  # nothing of that name is there
        ("pack/calc.py", False),  # a package is no place that is looked in
        ("plain/calc.py", False),  # no tests are there
        ("checks/sub/calc.py", False),
        ("checks/flat.py", True),
    ],
)
def test_a_new_module_may_not_hide_the_code_from_its_tests(path: str, *, hides: bool) -> None:
    base = frozenset(
        {
            *("src/calc.py", "flat/__init__.py", "checks/test_a.py", "pack/__init__.py"),
            *("pack/test_a.py", "plain/a.py"),
        }
    )
    assert bool(kind_of(new(path), "pytest checks", base)) is hides


def test_who_moves_a_module_hides_none() -> None:
    base = frozenset({"src/calc.py", "test_calc.py"})
    moved = [new("calc.py"), Change("src/calc.py", None, None, WAS)]
    assert Protection(base, "pytest", read=read).protected_changes(moved, ()) == ()


@pytest.mark.parametrize(
    ("command", "path", "goes"),
    [
        ("python -m check", "check/__main__.py", True),
        ("python -m check", "check/data.py", False),
        ("python check.py", "check/__main__.py", False),
        ("node check", "check", True),
        ("node -r ./check --test", "check/index.js", True),
        ("node check.js", "check", False),
        ("pytest", "check", False),
    ],
)
def test_a_new_file_may_not_go_before_what_the_command_runs(
    command: str, path: str, *, goes: bool
) -> None:
    base = frozenset({"check.py", "check.js"})
    assert ("runs in place of" in kind_of(new(path), command, base)) is goes


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        *(("node_modules", True), (".cargo", True), ("json", True), ("a/venv", True)),
        *(("sitecustomize", True), ("data", False), ("docs/latest", False)),
    ],
)
def test_a_link_is_taken_for_the_folder_that_it_may_be(path: str, *, kept: bool) -> None:
    assert bool(kind_of(new(path, MODE_LINK), "pytest", frozenset())) is kept


@pytest.mark.parametrize(
    ("path", "taken"),
    [
        *(("sub/unit", True), ("sub/unit/a.txt", True), ("sub/test", True), ("unit", False)),
        *(("sub/style", False), ("sub/units", False)),
    ],
)
def test_a_new_file_may_not_be_called_like_what_a_target_needs(path: str, *, taken: bool) -> None:
    assert bool(kind_of(new(path), "make -C sub test", frozenset())) is taken


def test_what_is_phony_or_has_a_suffix_is_made_whatever_is_there() -> None:
    text = "all: a b gen.txt\na:\nb:\ngen.txt:\n.PHONY: b\n"
    assert made_by_name(text) == ["all", "a"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("-include $(wildcard local*.conf)", ("local*.conf",)),
        ("include $(TOP)/rules ${X}", ("*/rules",)),
        ("-include $(OBJECTS:.o=.d)", ()),
        ("include config.$(OS) plain", ("config.*", "plain")),
    ],
)
def test_what_a_makefile_includes_is_known_also_behind_a_function(
    line: str, found: tuple[str, ...]
) -> None:
    assert included("make", ".", lambda path: line if path == "Makefile" else "") == found


@pytest.mark.parametrize(
    "path",
    [
        *("ruff.toml", "src/.eslintrc.json", "eslint.config.mjs", ".flake8", "mypy.ini"),
        *(
            "a/sitecustomize/__init__.py",
            "sitecustomize.abi3.so",
            "poetry.toml",
            "src/setupTests.js",
        ),
        *("pkg/defs.bzl", "mix.exs", ".node-version", "Makefile.inc", "lib/tasks/x.rake"),
    ],
)
def test_what_decides_about_checks_and_builds_is_configuration(path: str) -> None:
    assert configuration(path)


@pytest.mark.parametrize("path", ["src/rules.toml", "docs/ruff.md", "app/eslint.js", "a/dune.py"])
def test_what_is_only_called_alike_is_none(path: str) -> None:
    assert not configuration(path)
