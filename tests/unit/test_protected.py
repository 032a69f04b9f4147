"""Which files always come from the base, by tables."""

from __future__ import annotations

import pytest

from driver.domain.ownership import parse_owned
from driver.domain.results import Change
from driver.policy.protected_paths import A_TEST, Protection, configuration, refusal
from driver.policy.shadowing import shadows
from driver.policy.test_files import is_test

BASE = frozenset(
    {
        *("Makefile", "src/app.py", "src/pkg/__init__.py", "src/pkg/a.py", "tests/test_app.py"),
        *("tests/data/golden.json", "run.sh", "tools/check.sh", "web/Makefile"),
    }
)


def changed(path: str, *, new: bool = False, gone: bool = False) -> Change:
    blob = None if gone else "0" * 40
    return Change(path, None if gone else "100644", blob, None if new else "100644")


def touched(
    *changes: Change,
    owns: tuple[str, ...] = ("src/", "tests/", "tools/", "web/"),
    command: str | tuple[str, ...] = "pytest",
    more: tuple[str, ...] = (),
    work_dir: str = ".",
) -> dict[str, str]:
    rules = Protection(BASE, command, work_dir, more)
    return dict(rules.protected_changes(changes, tuple(parse_owned(entry) for entry in owns)))


@pytest.mark.parametrize(
    "path",
    [
        *("conftest.py", "src/deep/conftest.py", "Conftest.py", "pytest.ini", "tox.ini"),
        *("setup.cfg", "pyproject.toml", "package.json", "web/package-lock.json", ".npmrc"),
        *("jest.config.js", "vitest.config.mts", ".mocharc.yml", "Makefile", "GNUmakefile"),
        *("makefile", "sub/CMakeLists.txt", ".cargo/config.toml", "build.gradle.kts", "pom.xml"),
        *("go.mod", "build.rs", "Cargo.toml", "sitecustomize.py", "lib/usercustomize.py"),
        *("src/x.pth", ".github/workflows/ci.yml", ".circleci/config.yml", "Jenkinsfile"),
        *(".husky/pre-commit", ".gitattributes", "sub/.gitattributes", ".gitmodules"),
        *("CLAUDE.md", "docs/AGENTS.md", ".claude/settings.json", ".cursor/rules/a.mdc"),
        *("GEMINI.md", ".github/copilot-instructions.md", "node_modules/.bin/jest"),
        *("venv/bin/python", "requirements-dev.txt", "tidegate.toml", "phpunit.xml.dist"),
    ],
)
def test_configuration_is_known_by_its_name(path: str) -> None:
    assert configuration(path)
    assert touched(changed(path, new=True), owns=("src/", "x/"))


@pytest.mark.parametrize(
    "path",
    [
        *("src/app.py", "README.md", "docs/makefiles.md", "src/package.py", "config.json"),
        *("src/hooks/use_state.ts", "package/data.json", ".github/ISSUE_TEMPLATE/bug.md"),
        *("src/agents.py", "docs/jest.md", "src/cargo/mod.rs", "requirements.md"),
    ],
)
def test_ordinary_files_are_no_configuration(path: str) -> None:
    assert configuration(path) == ""


@pytest.mark.parametrize(
    "path",
    [
        *("test_a.py", "src/a_test.py", "a_test.go", "a.test.ts", "b.spec.jsx", "a_spec.rb"),
        *("src/AppTest.java", "AppTests.cs", "AppIT.java", "TestApp.kt", "tests/helpers.py"),
        *("src/test/resources/a.xml", "__tests__/a.js", "pkg/testdata/x.txt", "tests.rs"),
        *("a/__snapshots__/b.snap", "test.js"),
    ],
)
def test_tests_are_known_by_the_names_that_runners_look_for(path: str) -> None:
    assert is_test(path)


@pytest.mark.parametrize(
    "path",
    [
        *("latest.py", "src/contest.py", "src/Latest.java", "attestation.go", "src/testing.py"),
        *("Unit.cs", "protest.ts", "src/spectest", "inspect.py", "Testament.java"),
    ],
)
def test_other_names_are_no_tests(path: str) -> None:
    assert not is_test(path)


def test_a_test_that_is_there_is_changed_only_by_who_lists_it() -> None:
    change = changed("tests/test_app.py")
    assert touched(change) == {"tests/test_app.py": A_TEST}
    assert touched(changed("tests/test_app.py", gone=True)) == {"tests/test_app.py": A_TEST}
    assert touched(changed("tests/data/golden.json")) == {"tests/data/golden.json": A_TEST}
    assert touched(change, owns=("tests/", "tests/test_app.py")) == {}


def test_who_owns_a_folder_of_tests_may_add_tests_but_no_configuration() -> None:
    assert touched(changed("tests/test_new.py", new=True)) == {}
    assert touched(changed("tests/data/more.json", new=True)) == {}
    assert list(touched(changed("tests/conftest.py", new=True))) == ["tests/conftest.py"]
    owns = ("tests/", "tests/conftest.py")
    assert touched(changed("tests/conftest.py", new=True), owns=owns) == {}


@pytest.mark.parametrize(
    ("path", "hides"),
    [
        ("src/unittest.py", True),
        ("src/pytest.py", True),
        ("src/json/__init__.py", True),
        ("tests/random.py", True),
        ("src/_pytest/__init__.py", True),
        ("src/json.cpython-312-x86_64-linux-gnu.so", True),
        ("src/json/data.txt", False),
        ("src/pkg/json.py", False),  # within a package a name is its own
        ("src/new/json.py", False),
        ("src/app2.py", False),
        ("src/json.txt", False),
        ("test/__init__.py", False),
    ],
)
def test_a_new_module_may_not_hide_one_of_python_or_a_runner(path: str, hides: bool) -> None:
    assert shadows(path, {*BASE, "src/new/__init__.py"}) is hides


def test_a_module_that_was_there_before_is_the_users() -> None:
    assert touched(changed("src/json.py")) == {}


@pytest.mark.parametrize(
    ("path", "command", "taken"),
    [
        ("web/test", "make -C web test", True),
        ("test", "make test", True),
        ("check/a.txt", ("make", "check"), True),
        ("verify", "cd . && make verify", True),
        ("test", "pytest", False),
        ("other", "make test", False),
        ("src/new", ("make", "src"), False),
    ],
)
def test_a_new_file_may_not_be_what_make_would_build(
    path: str, command: str | tuple[str, ...], taken: bool
) -> None:
    found = touched(changed(path, new=True), command=command)
    assert bool(found) is taken


def test_make_targets_count_in_the_work_folder() -> None:
    assert touched(changed("web/test", new=True), command="make test", work_dir="web")


@pytest.mark.parametrize(
    "command", ["./run.sh", "sh run.sh", ("sh", "run.sh", "-v"), "cd . && bash run.sh"]
)
def test_what_the_test_command_starts_is_part_of_the_test(
    command: str | tuple[str, ...],
) -> None:
    assert touched(changed("run.sh"), command=command)
    assert touched(changed("run.sh"), command=command, owns=("run.sh",)) == {}
    assert touched(changed("tools/check.sh"), command="sh check.sh", work_dir="tools")


def test_what_a_test_only_reads_is_not() -> None:
    assert touched(changed("src/app.py"), command="grep -q good src/app.py") == {}
    assert touched(changed("src/app.py"), command="python -m py_compile src/app.py") == {}


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("golden/", "src/golden/a.txt", True),
        ("golden/", "src/golden", False),
        ("*.approved.txt", "src/a.approved.TXT", True),
        ("src/golden/*", "src/golden/a/b.txt", True),
        ("src/golden/*", "lib/src/golden/a.txt", False),
        ("src/golden/", "src/golden/a.txt", True),
    ],
)
def test_users_protect_more_files_by_patterns(pattern: str, path: str, fits: bool) -> None:
    found = touched(changed(path, new=True), more=(pattern,))
    assert bool(found) is fits


def test_a_refusal_names_every_file_and_the_way_out() -> None:
    told = refusal((("tests/test_a.py", A_TEST), ("conftest.py", "configuration")))
    assert "tests/test_a.py (an existing test), conftest.py" in told
    assert "by name in ownsFiles" in told
    assert refusal([("a", "b")] * 23).count("a (b)") == 20
    assert "and 3 more" in refusal([("a", "b")] * 23)
    assert refusal(()) == ""


BUILD = {
    "Makefile": "-include local\ntest:\n\tsh src/check.sh\nrun:\n\tpython src/app.py\n",
    "package.json": '{"scripts": {"test": "node -r ./src/setup.js --test",'
    ' "start": "node src/s.js"}}',
}


@pytest.mark.parametrize(
    ("command", "path", "is_protected"),
    [
        ("make test", "src/check.sh", True),
        ("make test", "src/app.py", False),
        ("make run", "src/app.py", True),
        ("pytest", "src/check.sh", False),
        ("npm test", "src/setup.js", True),
        ("npm test", "src/s.js", False),
        ("python src/app.py", "src/app.py", True),
        (("node", "--require", "./src/a.js", "src/b.js"), "src/a.js", True),
        (("node", "--require", "./src/a.js", "src/b.js"), "src/b.js", True),
        ("bash -c 'python3 src/app.py x'", "src/app.py", True),
        ("python -m src.app", "src/app.py", True),
        ("python -m pytest --doctest-modules src/app.py", "src/app.py", False),
        ("grep x src/app.py", "src/app.py", False),
    ],
)
def test_what_a_command_starts_is_protected_also_by_way_of_a_build_file(
    command: str | tuple[str, ...], path: str, *, is_protected: bool
) -> None:
    rules = Protection(BASE | {path}, command, read=lambda name: BUILD.get(name, ""))
    owned = (parse_owned("src/"),)
    assert bool(rules.protected_changes([changed(path)], owned)) is is_protected


def test_what_a_makefile_includes_is_protected_also_when_it_is_new() -> None:
    rules = Protection(BASE, "make test", read=lambda name: BUILD.get(name, ""))
    assert rules.protected_changes([changed("local", new=True)], ())


@pytest.mark.parametrize(
    "path", ["x.dist-info/entry_points.txt", "src/x.egg-info/PKG-INFO", "a.mk"]
)
def test_entry_points_and_parts_of_makefiles_are_configuration(path: str) -> None:
    assert configuration(path)
