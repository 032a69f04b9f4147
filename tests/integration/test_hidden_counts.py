"""The tests of a command are counted although its output is hidden."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.waves import Scene, built, item, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="test commands for a POSIX shell")

FILES = {
    ".gitignore": "log\ntarget/\n",
    "value.py": "VALUE = 1\n",
    "test_value.py": (
        "import value\n\n\ndef test_value():\n    assert value.VALUE == 2\n\n\n"
        "def test_other():\n    assert value\n"
    ),
    "pom.xml": "<project/>\n",
    "mvn.sh": (
        "grep -q 2 value.py || exit 1\nmkdir -p target/surefire-reports\n"
        'echo \'<testsuite><testcase name="a"/><testcase name="b"/></testsuite>\''
        " > target/surefire-reports/TEST-A.xml\n"
    ),
}
CALL = (
    f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {shlex.quote(sys.executable)} -m pytest -q"
    " -p no:cacheprovider"
)


def evidence_of(report: dict[str, Any]) -> Any:
    return built(report)["a"]["attempts"][-1]["evidence"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("command", "runner"),
    [
        (f'out=$({CALL} 2>&1) || {{ echo "$out"; exit 1; }}', "pytest"),
        (f"{CALL} > log || {{ cat log; exit 1; }}", "pytest"),
        ("sh mvn.sh", "maven"),
    ],
    ids=["captured", "redirected", "quiet build"],
)
def test_work_under_a_command_that_hides_its_output_ships_and_is_counted(
    command: str, runner: str, tmp_path: Path
) -> None:
    scene = Scene(tmp_path, FILES)
    work = writes(value__py="VALUE = 2\n")
    report, driver = scene.play({"a": work}, [item("a", "value.py", command)])
    assert report["shipped"] == ["a"], built(report)["a"]["error"]
    assert len(driver.rounds_of("a")) == 1
    counts = {"runner": runner, "ran": 2, "failed": 0, "skipped": 0, "source": "reported"}
    evidence = evidence_of(report)
    proofs = [run for run in evidence["receipts"] if run["purpose"] == "proof"]
    assert proofs[0]["counts"] == counts
    assert evidence["grade"] in ("A", "B")


@pytest.mark.more
def test_a_runner_that_ends_early_is_seen_although_its_output_is_hidden(tmp_path: Path) -> None:
    scene = Scene(tmp_path, FILES)
    command = f'out=$({CALL} 2>&1) || {{ echo "$out"; exit 1; }}'
    work = writes(value__py="import os\n\nos._exit(0)\n")
    report, _ = scene.play({"a": [work, work]}, [item("a", "value.py", command)])
    assert report["shipped"] == []
    (doubt,) = evidence_of(report)["doubts"]
    assert (doubt["check"], doubt["onBase"]) == ("counts", False)
