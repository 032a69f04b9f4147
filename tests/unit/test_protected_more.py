"""Files that decide about a test run by the newer names, and names that only look like it."""

from __future__ import annotations

import pytest

from driver.domain.ownership import OwnedPath
from driver.domain.results import Change
from driver.policy.protected_paths import Protection, configuration
from driver.policy.test_files import is_test

WAS = "100644"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("pytest.toml", "test runner"),
        ("sub/.pytest.toml", "test runner"),
        ("tox.toml", "test runner"),
        ("web/ava.config.mjs", "test runner"),
        (".config/nextest.toml", "test runner"),
        ("Taskfile.dist.yml", "build"),
        ("vendor/modules.txt", "build"),
        ("__pycache__/calc.cpython-311.pyc", "compiled code"),
        ("lib/calc.pyc", "compiled code"),
    ],
)
def test_what_decides_about_a_run_is_protected(path: str, kind: str) -> None:
    assert kind in configuration(path)


@pytest.mark.parametrize(
    "path", ["src/snapshots/a.py", "pytest_toml.py", "vendor/a/modules.txt", "golden/a.txt"]
)
def test_what_only_looks_like_it_is_not(path: str) -> None:
    assert not configuration(path)
    assert not is_test(path)


@pytest.mark.parametrize("listed", [False, True])
def test_what_a_set_up_runs_comes_from_the_base(listed: bool) -> None:
    texts = {"tools/setup.sh": "sh tools/more.sh\n", "tools/more.sh": "", "tools/other.sh": ""}
    protection = Protection(
        frozenset(texts),
        "pytest",
        read=lambda path: texts.get(path, ""),
        setup=("sh tools/setup.sh",),
    )
    owned = [OwnedPath("tools", is_dir=True), *(OwnedPath(path) for path in texts if listed)]
    found = protection.protected_changes([Change(path, WAS, "b", WAS) for path in texts], owned)
    runs = "a file that the set-up runs"
    assert dict(found) == ({} if listed else {"tools/setup.sh": runs, "tools/more.sh": runs})


@pytest.mark.parametrize(
    ("command", "path", "kind"),
    [
        ("pytest -c ci/all.ini", "ci/all.ini", "a file that the test command runs"),
        ("sh run.sh", "lib/env.sh", "a file that the test command runs"),
        ("make -C sub -f rules", "sub/rules", "a file that the test command runs"),
        ("make -C sub -f rules", "sub/more.inc", "a file that the makefile includes"),
        ("make -C sub -f rules", "more.inc", ""),
        ("cc -c main.c", "main.c", ""),
    ],
)
def test_what_a_command_is_told_to_read_comes_from_the_base(
    command: str, path: str, kind: str
) -> None:
    texts = {"run.sh": ". lib/env.sh\n", "sub/rules": "include more.inc\nall:\n\ttrue\n"}
    base = frozenset({path, *texts})
    protection = Protection(base, command, read=lambda path: texts.get(path, ""))
    found = dict(protection.protected_changes([Change(path, WAS, "b", WAS)], ()))
    assert found.get(path, "") == kind
