"""A pipeline that is killed after any of its steps goes on at the next: nobody is asked twice."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.killing import Yard

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
KILLED = -signal.SIGKILL

PIPELINE = """
[[pipeline.phase]]
name = "implement"
kind = "agent"

[[pipeline.phase]]
name = "gate"
kind = "gate"
commands = ["test -e a.txt"]

[[pipeline.phase]]
name = "review"
kind = "review"
repair = ["address", "gate"]

[[pipeline.phase]]
name = "docs"
kind = "agent"
writes = ["docs/", "*.md"]

[[pipeline.phase]]
name = "pr-description"
kind = "agent"
permissions = "read-only"

[[pipeline.phase]]
name = "publish"
kind = "publish"
"""

# The first work is flawed although its test is green; told so, the agent mends it.
AGENT = """\
cat > /dev/null
echo "$TIDEGATE_PHASE" >> {folder}/asked
{slow}
case $TIDEGATE_PHASE in
review)
  word=approve found=
  if grep -q flaw a.txt; then
    word=request_changes
    found='{{"file": "a.txt", "line": 2, "severity": "major",'
    found="$found "'"why": "a flaw", "check": ""}}'
  fi
  printf '{{"nonce": "%s", "verdict": "%s", "summary": "seen", "findings": [%s]}}' \\
    "$TIDEGATE_NONCE" "$word" "$found" > "$TIDEGATE_VERDICT_FILE" ;;
implement) printf 'good\\nflaw\\n' > a.txt ;;
address) sed -i /flaw/d a.txt ;;
docs) mkdir -p docs; echo told > docs/a.md ;;
pr-description) echo "What it does" > "$TIDEGATE_ARTIFACT_FILE" ;;
esac
"""
ASKED = {"implement": 1, "review": 2, "address": 1, "docs": 1, "pr-description": 1}
# implement, gate, review, address, gate, review, docs, gate, pr-description
RECORDED = 9


class Piped(Yard):
    """A yard of one item with a pipeline of its own configuration."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(folder, slugs=("a",), agent=AGENT)
        settings = folder / "tidegate.toml"
        quiet = settings.read_text().replace("[verify]\n", '[verify]\nred_first = "off"\n')
        settings.write_text(quiet.replace("[verify]\n", "[verify]\ncanary = false\n") + PIPELINE)
        self.track(self.item("a", ownsFiles=["a.txt", "docs/"], repairCap=3, spotCheckFrac=0))

    def asked(self) -> Counter[str]:
        """How often each phase's agent was started, in all runs."""
        log = self.folder / "asked"
        return Counter(log.read_text().split() if log.exists() else ())

    def shipped_files(self) -> dict[str, str]:
        """What the one commit on the remote's wave branch holds, by path."""
        [[one]] = self.commits().values()
        names = self.remote.git("ls-tree", "-r", "--name-only", one.commit).split()
        return {name: self.remote.git("show", f"{one.commit}:{name}") for name in names}

    def description(self) -> str:
        """Of the run that shipped, for whoever opens the pull request."""
        [report] = (self.state / "runs").glob("*/report.json")
        return (report.parent / "a" / "pr.md").read_text()


def record_of(report: dict[str, Any]) -> dict[str, Any]:
    [record] = report["wave"]["built"]
    return dict(record)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Piped:
    folder = tmp_path_factory.mktemp("whole")
    yard = Piped(folder)
    ran = yard.run(f"*=trace:{folder / 'trace'}")
    assert ran.code == 0, ran.err
    (folder / "report.json").write_text(json.dumps(ran.report))
    return yard


@pytest.mark.more
def test_undisturbed_each_phase_is_asked_once_and_leaves_a_receipt(undisturbed: Piped) -> None:
    assert undisturbed.asked() == ASKED
    assert undisturbed.wrong(clean_clone=True) == []
    record = record_of(json.loads((undisturbed.folder / "report.json").read_text()))
    told = [(one["phase"], one["status"]) for one in record["phases"]]
    assert told == [
        ("implement", "completed"),
        ("gate", "completed"),
        ("review", "repair"),
        ("address", "completed"),
        ("gate", "completed"),
        ("review", "completed"),
        ("docs", "completed"),
        ("gate", "completed"),
        ("pr-description", "completed"),
        ("publish", "completed"),
    ]
    assert (record["adversarial_review"], record["afterApproval"]) == ("approved", ["docs/a.md"])
    points = (undisturbed.folder / "trace").read_text().split()
    assert points.count("phase.recorded") == RECORDED


def check_killed_at(folder: Path, whole: Piped, *points: str) -> None:
    yard = Piped(folder)
    for where in points:
        assert yard.run(f"{where}=kill").code == KILLED
    _, undone = yard.run_until_done()
    assert undone == []
    assert yard.asked() == ASKED
    assert yard.shipped_files() == whole.shipped_files()
    assert yard.description() == whole.description()
    assert yard.wrong(clean_clone=True) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("step", [4, 9])
def test_killed_after_a_step_it_goes_on_at_the_next(
    tmp_path: Path, undisturbed: Piped, step: int
) -> None:
    check_killed_at(tmp_path, undisturbed, f"phase.recorded@{step}")


@pytest.mark.more
def test_killed_twice_an_approval_is_still_known(tmp_path: Path, undisturbed: Piped) -> None:
    # After the approval, then after the documentation that follows the proof made again.
    check_killed_at(tmp_path, undisturbed, "phase.recorded@6", "phase.recorded@2")


@pytest.mark.sweep
@pytest.mark.parametrize("step", range(1, RECORDED + 1))
def test_killed_after_each_step_it_goes_on_at_the_next(
    tmp_path: Path, undisturbed: Piped, step: int
) -> None:
    check_killed_at(tmp_path, undisturbed, f"phase.recorded@{step}")


@pytest.mark.sweep
def test_killed_at_any_moment_it_ends_as_if_undisturbed(tmp_path: Path, undisturbed: Piped) -> None:
    """An agent that was at work is asked again, and nobody else."""
    points = (undisturbed.folder / "trace").read_text().split()
    whole = undisturbed.shipped_files()
    for number in range(1, len(points) + 1, 3):
        yard = Piped(tmp_path / str(number))
        assert yard.run(f"#{number}=kill").code == KILLED
        _, undone = yard.run_until_done()
        assert undone == [], (number, points[number - 1])
        more = sum((yard.asked() - Counter(ASKED)).values())
        assert more <= 1, (number, points[number - 1], yard.asked())
        assert yard.shipped_files() == whole, (number, points[number - 1])
        assert yard.wrong() == [], (number, points[number - 1])
