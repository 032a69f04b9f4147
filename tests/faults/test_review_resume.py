"""A run killed around a review goes on where it was: no tree is read twice, no repair is lost."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import pytest

from state_store.documents.journal import entry_path
from tests.support.beside import beside_each_other, selected
from tests.support.killing import Yard
from tests.support.pipelines import QUIET

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
KILLED = -signal.SIGKILL

# The first work is flawed although its test is green; told so, the agent mends it.
AGENT = """\
prompt=$(cat)
if [ "$TIDEGATE_PHASE" = review ]; then
  word=approve found=
  if grep -q flaw "$TIDEGATE_ITEM.txt"; then
    word=request_changes
    found='{{"file": "a.txt", "line": 2, "severity": "major",'
    found="$found "'"why": "a flaw", "check": ""}}'
  fi
  echo "$word" >> {folder}/reviewed
  printf '{{"nonce": "%s", "verdict": "%s", "summary": "seen", "findings": [%s]}}' \\
    "$TIDEGATE_NONCE" "$word" "$found" > "$TIDEGATE_VERDICT_FILE"
  exit
fi
{slow}
case $prompt in
*"a flaw"*) echo repair >> {folder}/dispatched; sed -i /flaw/d "$TIDEGATE_ITEM.txt" ;;
*) echo build >> {folder}/dispatched; printf 'good\\nflaw\\n' > "$TIDEGATE_ITEM.txt" ;;
esac
"""


class Reviewed(Yard):
    """A yard of one item that needs a review, by the agent that builds."""

    def __init__(self, folder: Path, config: str = "") -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(folder, slugs=("a",), agent=AGENT)
        settings = folder / "tidegate.toml"
        settings.write_text(settings.read_text().replace("[verify]\n", QUIET) + config)
        more = {"requireAdversarialReview": True, "repairCap": 3, "spotCheckFrac": 0}
        self.track(self.item("a", **more))

    def reviews(self) -> Counter[str]:
        """By word, what the reviewer said in all runs."""
        log = self.folder / "reviewed"
        return Counter(log.read_text().split() if log.exists() else ())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Reviewed:
    """A run to its end; the points that it passed are in `trace`."""
    yard = Reviewed(tmp_path_factory.mktemp("undisturbed"))
    assert yard.run(f"*=trace:{yard.folder / 'trace'}").code == 0
    return yard


@pytest.mark.more
def test_undisturbed_it_is_built_read_repaired_read_and_shipped(undisturbed: Reviewed) -> None:
    yard = undisturbed
    assert yard.reviews() == {"request_changes": 1, "approve": 1}
    assert yard.dispatched() == {"build": 1, "repair": 1}
    assert yard.wrong(clean_clone=True) == []


@dataclass(frozen=True)
class Killed:
    """What was seen of a run that was killed at a point, and of those that finished it."""

    code: int
    undone: list[str]
    dispatched: Counter[str]
    reviews: Counter[str]
    wrong: list[str]


Kills = Mapping[str, Future[Killed]]


def killed(folder: Path, where: str) -> Killed:
    yard = Reviewed(folder)
    code = yard.run(f"{where}=kill").code
    _, undone = yard.run_until_done()
    return Killed(code, undone, yard.dispatched(), yard.reviews(), yard.wrong(clean_clone=True))


@pytest.fixture(scope="module")
def kills(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kills:
    return beside_each_other(killed, selected(request, "where"), tmp_path_factory.mktemp("kills"))


# The processes in order: a look at the remote, build, test, review, repair, test, review, and the
# test of the ship.
@pytest.mark.parametrize(
    ("where", "repairs"),
    [
        pytest.param("process.before_start@4", 1, marks=pytest.mark.sweep),  # about to be read
        pytest.param("process.before_start@5", 1, marks=pytest.mark.sweep),  # about to be repaired
        ("process.after_finish@5", 2),  # repaired, and nobody has looked
        pytest.param("process.before_start@7", 1, marks=pytest.mark.sweep),  # to be read again
        pytest.param("git.before_push", 1, marks=pytest.mark.sweep),  # approved and on its way
    ],
)
def test_a_killed_run_goes_on_at_the_very_step(kills: Kills, where: str, repairs: int) -> None:
    seen = kills[where].result()
    assert (seen.code, seen.undone) == (KILLED, [])
    assert seen.dispatched == {"build": 1, "repair": repairs}
    assert seen.reviews == {"request_changes": 1, "approve": 1}
    assert seen.wrong == []


@pytest.mark.more
def test_rounds_go_on_counting_and_the_reviewer_is_told_what_it_saw_last(tmp_path: Path) -> None:
    yard = Reviewed(tmp_path)
    assert yard.run("process.before_start@7=kill").code == KILLED
    report = yard.run().report
    [record] = report["wave"]["built"]
    assert [one["number"] for one in record["attempts"]] == [2]
    assert [(one["round"], one["recalled"]) for one in record["reviews"]] == [(1, True), (2, False)]
    prompt = yard.state / "runs" / report["wave_id"] / "a" / "review-2" / "prompt.txt"
    since = prompt.read_text().partition("The change since that review")[2]
    assert "-flaw" in since.partition("The whole change")[0]


@pytest.mark.more
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.sweep)])
def test_between_review_and_repair_no_moment_costs_a_second_review(
    undisturbed: Reviewed, tmp_path: Path, every: bool
) -> None:
    points = (undisturbed.folder / "trace").read_text().split()
    finished = [n for n, name in enumerate(points, 1) if name == "process.after_finish"]
    started = [n for n, name in enumerate(points, 1) if name == "process.before_start"]
    # At one of the points in this window the review is written down, and counts from then on.
    window = range(finished[3] + 1, started[4]) if every else ()
    # The ends by name: how many points come before them is not quite the same in each run.
    first, last = "process.after_finish@4", "process.before_start@5"
    chosen = [first, *(f"#{point}" for point in window), last]
    told = []
    for where, kill in beside_each_other(killed, chosen, tmp_path).items():
        seen = kill.result()
        assert (seen.code, seen.undone, seen.wrong) == (KILLED, [], []), where
        assert seen.dispatched == {"build": 1, "repair": 1}, where
        told.append(seen.reviews["request_changes"])
    assert told == sorted(told, reverse=True)
    assert (told[0], told[-1]) == (2, 1)


@pytest.mark.more
def test_an_approval_counts_for_the_tree_that_was_approved_and_no_other(tmp_path: Path) -> None:
    yard = Reviewed(tmp_path)
    assert yard.run("git.before_push=kill").code == KILLED
    path = entry_path(yard.state, "a")
    for journal in (path, *path.parent.glob("together.*")):
        found = json.loads(journal.read_text())
        for entry in found if isinstance(found, list) else [found]:
            entry.update(commit=None, branch=None, tip=None, settled=False)
            entry["reviews"][-1]["tree"] = "0" * 40
        journal.write_text(json.dumps(found))
    yard.run_until_done()
    assert yard.dispatched() == {"build": 1, "repair": 1}
    assert yard.reviews()["approve"] == 2


@pytest.mark.more
def test_an_approval_ships_nothing_that_is_red_by_now(tmp_path: Path) -> None:
    yard = Reviewed(tmp_path)
    gone_bad = tmp_path / "gone-bad"
    more = {"requireAdversarialReview": True, "repairCap": 0, "spotCheckFrac": 0}
    test = f"test ! -e {gone_bad} && grep -qx good a.txt && ! grep -q flaw a.txt"
    agent = tmp_path / "agent.sh"
    agent.write_text(agent.read_text().replace("'good\\nflaw\\n'", "'good\\n'"))
    yard.track(yard.item("a", **{**more, "testCmd": test}))
    # Approved and noted; the ship is what it does not come to.
    assert yard.run("process.before_start@5=kill;git.before_push=kill").code == KILLED
    path = entry_path(yard.state, "a")
    for left in path.parent.glob("together.*"):
        left.unlink()
    entry = json.loads(path.read_text())
    assert entry["reviews"][-1]["verdict"] == "approved"
    gone_bad.touch()
    again = yard.run()
    assert again.verdicts == {"a": "failed"}
    assert yard.commits() == {}
