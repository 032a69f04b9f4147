"""Which files a test command starts or is told to load."""

from __future__ import annotations

import pytest

from driver.policy.started_files import files_started
from driver.test_command.invocations import Command

TEXTS = {
    "run.sh": "#!/bin/sh\nset -e\nif true; then\n. lib/env.sh\nsh \\\n  lib/inner.sh\nfi\n",
    "lib/inner.sh": "case x in\npython tools/gen.py && pytest tests\n",
    "check": "sh run.sh\n",
    "loop.sh": "sh loop.sh\n",
    "main.c": "sh not_a_script.sh\n",
    "Makefile": "test:\n\tsh run.sh\n",
    "sub/Makefile": "test:\n\tsh check.sh\n",
    "sub/check.sh": "sh deeper.sh\n",
}


@pytest.mark.parametrize(
    ("command", "started"),
    [
        ("./run.sh", {"run.sh", "lib/env.sh", "lib/inner.sh", "tools/gen.py"}),
        ("bash -e ./check", {"check", "run.sh", "lib/env.sh", "lib/inner.sh", "tools/gen.py"}),
        ("sh loop.sh", {"loop.sh"}),
        ("make test", {"run.sh", "lib/inner.sh"}),
        ("make -C sub test", {"sub/check.sh", "sub/deeper.sh"}),
        ("make -f rules test", {"rules"}),
        ("cc -c main.c && ./a.out", {"a.out"}),
        ("pytest -c ci/a.ini -p tools.plugin", {"ci/a.ini", "tools/plugin.py"}),
        (("python", "-m", "pytest", "--config-file=ci/a.ini"), {"ci/a.ini"}),
        ("python -m tools.check", {"tools/check.py", "tools/check/__main__.py"}),
        ("npx jest --config ci/jest.json", {"ci/jest.json"}),
        ("node --require ./setup.js --test", {"setup.js"}),
        ("coverage run --rcfile=ci/cov -m pytest", {"ci/cov"}),
        ("go test -overlay o.json ./...", {"o.json"}),
    ],
)
def test_files_that_decide_about_a_run_are_found(command: Command, started: set[str]) -> None:
    assert started <= files_started(command, ".", lambda path: TEXTS.get(path, ""))


@pytest.mark.parametrize(
    "command", ["cc -c main.c && ./a.out", "python -m py_compile calc.py && pytest", "mypy calc.py"]
)
def test_what_a_command_only_works_on_is_not_among_them(command: str) -> None:
    found = files_started(command, ".", lambda path: TEXTS.get(path, ""))
    assert not found & {"main.c", "calc.py", "not_a_script.sh"}


def test_paths_are_those_from_the_top() -> None:
    assert "sub/run.sh" in files_started("./run.sh", "sub", lambda _: "")


@pytest.mark.parametrize(
    "command",
    [
        "node --check src/unique.js && node --test",
        "node -c src/unique.js",
        "bash -n src/unique.js",
        "ruby -c src/unique.js",
        "php -l src/unique.js",
    ],
)
def test_a_file_that_is_only_parsed_is_not_started(command: str) -> None:
    assert "src/unique.js" not in files_started(command, ".", lambda _: "")


@pytest.mark.parametrize("command", ["perl -c a.pl", "node src/a.pl", "bash -x a.pl", "sh -c a.pl"])
def test_a_file_that_runs_is_started(command: str) -> None:
    assert any(path.endswith("a.pl") for path in files_started(command, ".", lambda _: ""))
