"""Which tests a runner finds by a pattern that its command says."""

from __future__ import annotations

import pytest

from driver.policy.test_files import named_tests
from driver.runners.unittest import discovery_of

CHECK = "checks/unit/calc_check.py"


@pytest.mark.parametrize(
    "options",
    [
        "discover -s checks -p *_check.py",
        "discover -s checks/unit -p *_check.py",
        "discover -s checks.unit -p *_check.py",
        "discover checks.unit *_check.py",
        "discover -schecks -p*_check.py",
        "discover --start=checks --pat=*_check.py",
        "discover -s other -s checks -p *.py -p *_check.py",
        "discover --top-level-directory other -s checks -p *_check.py",
    ],
)
def test_what_discovery_finds_by_pattern_is_a_test(options: str) -> None:
    command = ("python", "-m", "unittest", *options.split())
    found = named_tests(command, ".", lambda _: "")
    assert found.holds(CHECK)
    assert not found.holds("checks/unit/calc.py")
    assert not found.holds("src/calc_check.py")


@pytest.mark.parametrize("options", [(), ("-v",), ("discover",), ("discover", "-s", ".")])
def test_discovery_looks_everywhere_for_the_usual_names(options: tuple[str, ...]) -> None:
    found = discovery_of(options)
    assert found is not None
    assert (found.start, found.pattern) == (".", "test*.py")


def test_named_modules_are_no_discovery() -> None:
    assert discovery_of(("-v", "checks.calc")) is None


@pytest.mark.parametrize(
    "options",
    [
        "-o python_files=*_check.py",
        "-opython_files=*_check.py",
        "--override-ini=python_files=*_check.py",
        "-c ci.ini",
        "--config-file=ci.ini",
    ],
)
def test_what_pytest_is_told_to_take_for_test_files_are_tests(options: str) -> None:
    texts = {"ci.ini": "[pytest]\npython_files = *_check.py\n"}
    found = named_tests(("pytest", *options.split()), ".", lambda path: texts.get(path, ""))
    assert found.holds(CHECK)
    assert not found.holds("checks/unit/calc.py")
