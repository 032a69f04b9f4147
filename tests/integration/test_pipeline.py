"""Items go through the phases of a pipeline: what each may do, what it is told, what is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from driver.backend_api.driver import (
    FAILURE_AGENT,
    FAILURE_COULD_NOT_RUN,
    FAILURE_REFUSED,
    Usage,
    WorkerResult,
)
from state_store.database.store import EventStore
from tests.support import warm
from tests.support.interpreter import PYTHON
from tests.support.pipelines import (
    GATE,
    GOOD,
    IMPLEMENT,
    PR,
    PUBLISH,
    QUIET,
    REVIEW,
    WHOLE,
    answers,
    one,
    phases_asked,
    played,
    says,
    statuses,
)
from tests.support.programs import LOOP
from tests.support.waves import BILLED, Agent, Scene, Step, item, writes

FREE = Usage(0, 0, 0.0)


def ends(failure: str, error: str = "it fell over", usage: Usage = BILLED) -> Step:
    return lambda agent: WorkerResult("", failure=failure, error=error, usage=usage)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, {"base.txt": "x\n"}, config=QUIET)


def test_a_whole_pipeline_ships_one_proven_tree_and_writes_every_phase_down(scene: Scene) -> None:
    document = writes(README__md="told\n")
    steps = [GOOD, says(), document, answers("What it does")]
    report, driver, record = played(scene, steps, one(*WHOLE))
    assert phases_asked(driver) == ["implement", "review", "docs", "pr-description"]
    assert (report["exit_code"], record["verdict"]) == (0, "verified")
    assert record["adversarial_review"] == "approved"
    assert record["afterApproval"] == ["README.md"]
    run = scene.state / "runs" / "w1"
    assert (run / "a" / "pr.md").read_text() == "What it does\n"
    assert list((run / "a").glob("step-*.patch")) == []

    docs = next(p for p in record["phases"] if p["phase"] == "docs")
    gates = [p for p in record["phases"] if p["phase"] == "gate"]
    assert (docs["inputTree"], docs["outputTree"]) == (gates[0]["outputTree"], record["tree"])
    assert gates[-1]["inputTree"] == record["tree"]
    assert gates[-1]["gateReceipts"][0]["command"] == "grep -q good a.txt"
    assert docs["engine"]["name"] == "scripted"
    assert docs["usage"]["totalTokens"] == 100
    assert docs["promptHash"]
    assert record["usage"]["totalTokens"] == 400 == report["tokens"]["total"]

    snapshot = json.loads((run / "snapshot.json").read_text())
    assert snapshot["runId"] == "w1"
    assert snapshot["gateDefinitions"] == {"a": ["grep -q good a.txt"]}
    assert [base["commit"] for base in snapshot["bases"]] == [report["base"][0]["commit"]]
    [pipeline] = snapshot["pipelines"].values()
    assert [phase["name"] for phase in pipeline["phases"]][:2] == ["implement", "gate"]

    with EventStore(scene.state / "tracker_events.db") as store:
        steps_told = store.read("wave:w1")
        told = [e["payload"] for e in steps_told if e["type"] == "phase_finished"]
        begun = [e["payload"]["phase"] for e in steps_told if e["type"] == "attempt_started"]
        traced = [e["payload"] for e in store.read("agent_traces")]
    assert [f"{one_['phase']}:{one_['status']}" for one_ in told] == statuses(record)[:-1]
    assert begun == ["build"]
    ids = [t["agent_id"] for t in traced if t.get("phase") in ("docs", "pr-description")]
    assert {"w1/a/docs-1", "w1/a/pr-description-1"} <= set(ids)


@pytest.mark.more
def test_without_a_pipeline_the_record_tells_the_classic_phases(scene: Scene) -> None:
    made = item("a", "a.txt", "grep -q good a.txt", repairCap=1, spotCheckFrac=0)
    steps = [writes(a__txt="bad\n"), GOOD]
    _, driver, record = played(scene, steps, made)
    assert phases_asked(driver) == ["build", "repair"]
    assert statuses(record) == [
        "implement:completed",
        "gate:repair",
        "implement:completed",
        "gate:completed",
        "publish:completed",
    ]


def test_a_red_gate_is_repaired_and_rounds_are_counted_as_one(scene: Scene) -> None:
    bad = writes(a__txt="bad\n")
    steps = [bad, GOOD, says("request_changes", "still wrong")]
    report, driver, record = played(scene, steps, one(*WHOLE))
    assert phases_asked(driver) == ["implement", "repair", "review"]
    assert record["verdict"] == "failed"
    assert record["error"].startswith("round_cap")
    assert report["repairsUsed"] == 1


@pytest.mark.more
def test_a_gates_own_command_decides_too_and_its_output_goes_to_the_repair(scene: Scene) -> None:
    gate = {**GATE, "commands": ["true", "grep -q tidy a.txt || { echo untidy; exit 3; }", "false"]}
    steps = [GOOD, writes(a__txt="good tidy\n")]
    _, driver, record = played(scene, steps, one(IMPLEMENT, gate, requireAdversarialReview=False))
    assert "untidy" in driver.requests[1].prompt
    assert "exit code 3" in driver.requests[1].prompt
    assert record["verdict"] == "failed"
    last = record["phases"][-1]
    assert [c["exitCode"] for c in last["gateReceipts"]] == [0, 0, 0, 1]
    assert last["reason"].startswith("gate failed: false")


@pytest.mark.more
@pytest.mark.parametrize(
    ("step", "verdict", "words"),
    [
        (writes(a__txt="good and more\n"), "refused", "changed outside its writes: a.txt"),
        (writes(other__txt="x\n"), "refused", "changed outside its files: other.txt"),
        (ends(FAILURE_AGENT), "failed", "phase docs: it fell over"),
        (ends(FAILURE_COULD_NOT_RUN, usage=FREE), "undecided", "phase docs: it fell over"),
        # What was paid counts as an attempt, or every run would pay for it again.
        (ends(FAILURE_COULD_NOT_RUN), "failed", "phase docs: it fell over (this has cost"),
    ],
)
def test_a_later_agent_that_oversteps_or_fails_keeps_its_item_back(
    scene: Scene, step: Step, verdict: str, words: str
) -> None:
    report, _, record = played(scene, [GOOD, says(), step], one(*WHOLE))
    assert (record["verdict"], record["commit"]) == (verdict, None)
    assert words in record["error"]
    assert report["shipped"] == []


@pytest.mark.more
def test_what_a_later_agent_breaks_is_found_before_it_ships(scene: Scene) -> None:
    test = "grep -q good a.txt && test ! -e README.md"
    steps = [GOOD, says(), writes(README__md="told\n")]
    report, driver, record = played(scene, steps, one(*WHOLE, testCmd=test))
    assert (record["verdict"], report["shipped"]) == ("failed", [])
    assert phases_asked(driver) == ["implement", "review", "docs"]


@pytest.mark.more
def test_one_that_only_reads_works_on_a_copy(scene: Scene) -> None:
    def spoils(agent: Agent) -> WorkerResult:
        agent.write({"a.txt": "spoilt\n", "more.txt": "x"})
        answer = Path(agent.request.environment["TIDEGATE_ARTIFACT_FILE"])
        answer.write_text("From the file", encoding="utf-8")
        return WorkerResult("", ok=True, text="not this", usage=BILLED)

    steps = [GOOD, spoils]
    made = one(IMPLEMENT, GATE, PR, PUBLISH, requireAdversarialReview=False)
    report, _, record = played(scene, steps, made)
    assert report["exit_code"] == 0
    assert (scene.state / "runs" / "w1" / "a" / "pr.md").read_text() == "From the file\n"
    assert scene.repo.git("show", f"{record['commit']}:a.txt") == "good"


@pytest.mark.more
def test_an_answer_that_does_not_come_lets_the_work_wait_for_the_next_run(scene: Scene) -> None:
    made = one(IMPLEMENT, GATE, PR, PUBLISH, requireAdversarialReview=False)
    _, _, record = played(scene, [GOOD, answers("")], made)
    assert (record["verdict"], record["commit"]) == ("undecided", None)
    report, driver, record = played(scene, [answers("Now")], made, wave_id="w2", resume=True)
    assert phases_asked(driver) == ["pr-description"]
    assert report["exit_code"] == 0
    assert next(p["phase"] for p in record["phases"] if not p["recalled"]) == "gate"


@pytest.mark.more
def test_an_agent_that_did_not_come_to_its_end_is_tried_again_and_booked_each_time(
    scene: Scene,
) -> None:
    tried = {**IMPLEMENT, "retries": 2}
    steps = [ends(FAILURE_AGENT), GOOD]
    made = one(tried, GATE, PUBLISH, requireAdversarialReview=False)
    report, driver, record = played(scene, steps, made)
    assert phases_asked(driver) == ["implement", "implement"]
    assert (report["exit_code"], record["repairs"]) == (0, 0)
    assert record["usage"]["totalTokens"] == 200 == report["tokens"]["total"]
    assert report["budget"]["wave"]["dispatches"]["spent"] == 2


@pytest.mark.more
def test_a_reviewer_that_did_not_come_to_its_end_is_tried_again(scene: Scene) -> None:
    made = one(IMPLEMENT, GATE, {**REVIEW, "retries": 1}, PUBLISH)
    report, driver, record = played(scene, [GOOD, ends(FAILURE_AGENT), says()], made)
    assert phases_asked(driver) == ["implement", "review", "review"]
    assert (report["exit_code"], [one["verdict"] for one in record["reviews"]]) == (0, ["approved"])
    assert report["budget"]["wave"]["dispatches"]["spent"] == 3


@pytest.mark.more
@pytest.mark.parametrize(
    ("step", "verdict"),
    [(lambda agent: None, "no_change"), (ends(FAILURE_REFUSED), "refused")],
)
def test_what_the_work_is_worth_is_no_reason_to_try_again(
    scene: Scene, step: Step, verdict: str
) -> None:
    tried = {**IMPLEMENT, "retries": 2}
    made = one(tried, GATE, requireAdversarialReview=False, repairCap=0)
    _, driver, record = played(scene, [step], made)
    assert (len(driver.requests), record["verdict"]) == (1, verdict)


@pytest.mark.more
def test_a_pipeline_without_publish_proves_and_says_that_it_does_not_ship(scene: Scene) -> None:
    made = one(IMPLEMENT, GATE, requireAdversarialReview=False)
    report, _, record = played(scene, [GOOD], made)
    assert (record["verdict"], record["commit"], report["exit_code"]) == ("verified", None, 0)
    assert "no publish phase" in record["ship_warning"]
    assert record["savedWork"]


@pytest.mark.more
def test_a_phase_is_asked_with_its_own_model_effort_and_time(scene: Scene) -> None:
    own = {**IMPLEMENT, "model": "big", "effort": "thorough", "timeout_s": 7}
    made = one(own, GATE, requireAdversarialReview=False, model="small")
    _, driver, record = played(scene, [GOOD], made)
    [request] = driver.requests
    assert (request.model, request.effort, request.timeout_s) == ("big", "thorough", 7.0)
    assert record["phases"][0]["engine"]["effort"] == "thorough"


@pytest.mark.more
def test_a_set_up_may_leave_nothing_that_would_be_shipped(scene: Scene) -> None:
    made = one({"name": "prepare", "kind": "setup", "commands": ["echo x > a.txt"]}, IMPLEMENT)
    _, driver, record = played(scene, [], {**made, "requireAdversarialReview": False})
    assert (driver.requests, record["verdict"]) == ([], "undecided")
    assert "the set-up changed files: a.txt" in record["error"]


@pytest.mark.more
@pytest.mark.parametrize(
    ("dirty", "verdict", "words"),
    [(False, "verified", ""), (True, "refused", "wants a clean tree, and these changed: a.txt")],
)
def test_a_phase_that_wants_a_clean_tree_sees_what_changed_behind_its_back(
    scene: Scene, dirty: bool, verdict: str, words: str
) -> None:
    folders: list[Path] = []

    def implement(agent: Agent) -> None:
        agent.write({"a.txt": "good\n"})
        folders.append(agent.folder)

    def ask(slug: str, phase: str) -> str:
        if dirty and phase == "gate":
            (folders[0] / "a.txt").write_text("good, and changed\n", encoding="utf-8")
        return "run"

    clean = {**GATE, "requires_clean_tree": True}
    made = one(IMPLEMENT, clean, requireAdversarialReview=False)
    _, _, record = played(scene, [implement], made, ask=ask)
    assert record["verdict"] == verdict
    assert words in (record["error"] or "")


PROMPT = "Make {{TITLE}} so.\n{{TASK}}\n"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("committed", "words"),
    [
        (None, "is in no commit"),
        ("{{WHATEVER}}", "unknown variables: WHATEVER"),
    ],
)
def test_a_prompt_file_that_cannot_be_used_is_told_before_anything_is_spent(
    tmp_path: Path, committed: str | None, words: str
) -> None:
    files = {"base.txt": "x\n"} | ({} if committed is None else {"prompts/i.md": committed})
    scene = Scene(tmp_path, files, config=QUIET)
    scene.repo.write({"prompts/i.md": PROMPT})
    scene.repo.git("add", "prompts/i.md")  # the next commit is not this one
    made = one({**IMPLEMENT, "prompt": "i.md"}, GATE, requireAdversarialReview=False)
    report, driver = scene.play({"a": []}, [made])
    assert (report["exit_code"], driver.requests) == (2, [])
    assert words in report["error"]


@pytest.mark.more
def test_a_prompt_comes_from_the_base_and_never_from_the_checkout(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"prompts/i.md": PROMPT}, config=QUIET)
    scene.repo.write({"prompts/i.md": "Do something else.\n"})
    made = one({**IMPLEMENT, "prompt": "i.md"}, GATE, requireAdversarialReview=False, title="it")
    _, driver, record = played(scene, [GOOD], made)
    assert driver.requests[0].prompt.startswith("Make it so.\nDo a.\n\nRules of this workspace:")
    assert record["verdict"] == "verified"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("made", "more", "words"),
    [
        (one(IMPLEMENT, GATE, verificationTier=4), {}, "needs a review"),
        (one(IMPLEMENT, GATE), {"from_phase": "nowhere"}, "item 'a' has implement, gate"),
        (one(), {}, "at least one"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_spent(
    scene: Scene, made: Mapping[str, Any], more: Mapping[str, Any], words: str
) -> None:
    report, driver = scene.play({"a": []}, [made], **more)
    assert (report["exit_code"], driver.requests) == (2, [])
    assert words in report["error"]


def test_a_phase_that_must_be_in_a_sandbox_is_not_begun_without_one(scene: Scene) -> None:
    report, driver = scene.play({"a": []}, [one(IMPLEMENT, {**GATE, "hermetic": "require"})])
    assert (report["exit_code"], driver.requests) == (4, [])
    assert "there is no sandbox" in report["error"]


@pytest.mark.more
def test_a_pipeline_of_the_configuration_is_that_of_items_without_their_own(tmp_path: Path) -> None:
    table = '[[pipeline.phase]]\nname = "implement"\nkind = "agent"\n'
    scene = Scene(tmp_path, {"base.txt": "x\n"}, config=QUIET + table)
    made = item("a", "a.txt", "grep -q good a.txt", spotCheckFrac=0)
    _, driver, record = played(scene, [GOOD], made)
    assert phases_asked(driver) == ["implement"]
    assert (record["verdict"], record["commit"]) == ("verified", None)


@pytest.mark.more
def test_from_a_phase_on_what_stands_before_is_taken_as_done(scene: Scene) -> None:
    made = one(IMPLEMENT, GATE, PR, requireAdversarialReview=False)
    played(scene, [GOOD, answers("First")], made)
    steps = [answers("Second")]
    _, driver, record = played(scene, steps, made, wave_id="w2", from_phase="pr-description")
    assert phases_asked(driver) == ["pr-description"]
    assert record["verdict"] == "verified"
    assert (scene.state / "runs" / "w2" / "a" / "pr.md").read_text() == "Second\n"


@pytest.mark.more
def test_from_a_phase_on_without_earlier_work_nothing_is_asked(scene: Scene) -> None:
    made = one(IMPLEMENT, GATE, PR, requireAdversarialReview=False)
    _, driver, record = played(scene, [], made, from_phase="pr-description")
    assert (driver.requests, record["verdict"]) == ([], "no_change")


@pytest.mark.more
def test_the_classic_order_can_be_begun_at_its_review_too(scene: Scene) -> None:
    made = item("a", "a.txt", "grep -q good a.txt", requireAdversarialReview=True, spotCheckFrac=0)
    _, _, record = played(scene, [GOOD, ends(FAILURE_AGENT)], made)
    assert record["verdict"] == "undecided"
    report, driver, _ = played(scene, [says()], made, wave_id="w2", from_phase="review")
    assert phases_asked(driver) == ["review"]
    assert report["shipped"] == ["a"]


@pytest.mark.more
def test_who_skips_the_review_ships_nothing(scene: Scene) -> None:
    def ask(slug: str, phase: str) -> str:
        return "skip" if phase == "review" else "run"

    report, _, record = played(scene, [GOOD], one(IMPLEMENT, GATE, REVIEW, PUBLISH), ask=ask)
    assert (record["verdict"], report["shipped"]) == ("undecided", [])
    assert "review:skipped" in statuses(record)


AGENT = """\
cat > /dev/null
case $TIDEGATE_PHASE in
pr-description) echo told ;;
*) echo good > a.txt ;;
esac
"""
# Starts a program whose controlling terminal is the one given as stdin.
AT_TERMINAL = (
    "import fcntl, os, sys, termios; os.setsid();"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


class Console:
    """The wave loop as a user calls it, with the command backend."""

    def __init__(self, folder: Path) -> None:
        (folder / "agent.sh").write_text(AGENT)
        agent = json.dumps(["sh", str(folder / "agent.sh")])
        backend = f'[backend]\nname = "command"\ncommand = {agent}\ntier = 1\n'
        self.scene = Scene(folder, {"base.txt": "x\n"}, config=backend + QUIET)
        made = one(IMPLEMENT, GATE, PR, PUBLISH, requireAdversarialReview=False)
        manifest = folder / "manifest.json"
        manifest.write_text(json.dumps({"wave_id": "w1", "items": [made]}))
        flags = ("--manifest", manifest, "--repo", self.scene.repo.path, "--git")
        places = ("--state-dir", self.scene.state, "--config", folder / "tidegate.toml")
        self.argv = [*PYTHON, *map(str, (LOOP, *flags, *places))]

    def run(self, *flags: str) -> subprocess.CompletedProcess[str]:
        """Without any terminal."""
        return warm.run(
            [*self.argv, *flags],
            cwd=self.scene.folder,
            env=self.scene.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            start_new_session=True,
        )

    def run_at_terminal(self, typed: str, *flags: str) -> subprocess.CompletedProcess[str]:
        ours, theirs = os.openpty()
        try:
            os.write(ours, typed.encode())
            return subprocess.run(
                [*PYTHON, "-c", AT_TERMINAL, *self.argv, *flags],
                cwd=self.scene.folder,
                env=self.scene.environ,
                stdin=theirs,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        finally:
            os.close(ours)
            os.close(theirs)


posix = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX terminal")


@pytest.mark.more
@posix
def test_to_confirm_takes_a_terminal_and_yes_asks_nothing(tmp_path: Path) -> None:
    console = Console(tmp_path)
    ran = console.run("--confirm")
    assert ran.returncode == 2
    assert "say --yes" in ran.stderr
    assert console.run("--confirm", "--yes").returncode == 0


@pytest.mark.more
@posix
@pytest.mark.parametrize(
    ("typed", "code", "verdict", "shipped"),
    [
        ("\ny\n\n\n", 0, "verified", ["a"]),
        ("\n\nn\nn\n", 0, "verified", []),
        ("\nq\n", 3, "halted", []),
    ],
)
def test_at_a_terminal_each_phase_is_asked_for(
    tmp_path: Path, typed: str, code: int, verdict: str, shipped: list[str]
) -> None:
    ran = Console(tmp_path).run_at_terminal(typed, "--confirm")
    report = json.loads(ran.stdout)
    assert (ran.returncode, report["shipped"]) == (code, shipped), ran.stderr
    [record] = report["built"]
    assert record["verdict"] == verdict
    assert report["abort_reason"] == ("stopped_by_user" if code == 3 else None)


def test_a_dry_run_tells_each_phases_command_and_prompt(tmp_path: Path) -> None:
    report = json.loads(Console(tmp_path).run("--dry-run").stdout)
    told = report["pipelines"]["a"]
    assert [phase["phase"] for phase in told] == ["implement", "gate", "pr-description", "publish"]
    assert told[0]["command"][0] == "sh"
    assert report["prompts"]["a"].startswith("Do a.")
    assert told[0].get("prompt") != report["prompts"]["a"]
    assert told[1]["commands"] == ["grep -q good a.txt"]
    assert "pull request" in told[2]["prompt"]
