"""Reviews that are given: found wanting, repaired, read again, approved, remembered."""

from __future__ import annotations

import io
import json
import signal
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from driver.backend_api.driver import FAILURE_CANCELLED, FAILURE_COULD_NOT_RUN, Usage, WorkerResult
from driver.backend_api.provider_fault import FaultKind, ProviderFault
from driver.backends.recording import RecordingWriter
from driver.backends.replay import ReplayDriver
from driver.execution.cancellation import CancellationToken
from driver.terminal.progress import Progress
from driver.wave_loop import run_wave
from state_store.api import StateAPI
from state_store.database.store import EventStore
from state_store.write_api import STATE_DB_FILENAME
from tests.support import pipelines
from tests.support.beside import beside, beside_on
from tests.support.processes import eventually
from tests.support.reviewers import Reviewer
from tests.support.waves import Agent, Scene, ScriptedDriver, Step, built, item, verdicts, writes
from tools import fleet_ledger, halt

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX shell tests")
FILES = {"a.txt": "base\n", "b.txt": "base\n", "test_a.py": "assert True\n"}
A_GOOD = "grep -q good a.txt"
COST = Usage(11, 4, 0.5)
says = partial(pipelines.says, usage=COST, model="critic")


APPROVES = says("approve")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, FILES)


on_scene = beside_on(lambda folder: nullcontext(Scene(folder, FILES)))


def play(
    scene: Scene, *steps: Step, driver: ScriptedDriver | None = None, **more: Any
) -> dict[str, Any]:
    driver = driver or ScriptedDriver({"a": list(steps)}, tier=3, environ=scene.environ)
    options = {key: more.pop(key) for key in ("wave_id", "resume", "recording") if key in more}
    return scene.run(driver, [item("a", "a.txt", A_GOOD, **more)], **options)


@on_scene
def test_a_finding_is_repaired_and_approved_and_the_report_tells_all(scene: Scene) -> None:
    driver = ScriptedDriver(
        {
            "a": [
                writes(a__txt="good but\n"),
                says("request_changes", "it ends in but"),
                writes(a__txt="good\n"),
                APPROVES,
            ]
        },
        tier=3,
        environ=scene.environ,
    )
    report = play(scene, driver=driver)
    record = built(report)["a"]
    assert (report["shipped"], record["adversarial_review"]) == (["a"], "approved")
    assert (record["repairs"], [one["phase"] for one in record["attempts"]]) == (
        1,
        ["build", "repair"],
    )
    first, second = record["reviews"]
    assert [first["round"], first["verdict"], first["since"]] == [1, "changes_requested", None]
    assert first["findings"][0]["why"] == "it ends in but"
    assert [second["round"], second["verdict"], second["since"]] == [2, "approved", first["tree"]]
    assert (second["tree"], second["backend"], second["model"]) == (
        record["tree"],
        "scripted",
        "critic",
    )
    tokens = report["tokens"]
    assert (tokens["verifyIn"], tokens["verifyOut"]) == (22, 8)
    assert (tokens["total"], record["usage"]["totalTokens"]) == (230, 230)
    _, review, repair, again = driver.requests
    assert review.role == "verify"
    assert review.model == "scripted-verify"
    assert "1. a.txt:1: major: it ends in but" in repair.prompt
    assert "+good but" in repair.prompt
    assert "The change since that review" in again.prompt
    assert "-good but" in again.prompt
    assert "+good but" in review.prompt


@pytest.mark.more
@on_scene
def test_a_reviewer_sees_the_work_beside_the_base_and_its_receipts(scene: Scene) -> None:
    seen: dict[str, str] = {}
    clones: list[Path] = []

    def agent(agent: Agent) -> None:
        clones.append(agent.folder)
        agent.write({"a.txt": "good\n"})

    def reader(agent: Agent) -> WorkerResult | None:
        assert not clones[0].exists()
        seen["a.txt"] = (agent.folder / "a.txt").read_text()
        seen["other"] = (agent.folder / "b.txt").read_text()
        seen["environment"] = json.dumps(dict(agent.request.environment))
        return APPROVES(agent)

    driver = ScriptedDriver({"a": [agent, reader]}, tier=2, environ=scene.environ)
    assert play(scene, driver=driver, title="Make it good")["shipped"] == ["a"]
    assert (seen["a.txt"], seen["other"]) == ("good\n", "base\n")
    assert json.loads(seen["environment"])["TIDEGATE_PHASE"] == "review"
    prompt = driver.requests[1].prompt
    for told in (
        "The item: Make it good",
        "Do a.",
        "- test command: grep -q good a.txt",
        "- on this change: green, exit code 0",
        "- on the base: red, exit code 1",
        "Gate status: passing",
        "-base\n+good\n",
    ):
        assert told in prompt, told


@pytest.mark.more
@on_scene
def test_tests_of_the_agents_own_are_shown_to_the_reviewer_and_to_the_person(scene: Scene) -> None:
    def agent(agent: Agent) -> None:
        agent.write({"a.txt": "good\n", "test_new.py": "assert True\n"})

    driver = ScriptedDriver({"a": [agent, APPROVES]}, tier=3, environ=scene.environ)
    report = scene.run(driver, [item("a", ["a.txt", "test_new.py"], A_GOOD)])
    assert built(report)["a"]["selfWrittenTests"] == ["test_new.py"]
    assert "so look at them twice:\n  test_new.py\n" in driver.requests[1].prompt


@on_scene
def test_a_verdict_that_does_not_fit_its_schema_is_asked_for_once_more(scene: Scene) -> None:
    driver = ScriptedDriver(
        {"a": [writes(a__txt="good\n"), says("approve", findings="none"), APPROVES]},
        tier=3,
        environ=scene.environ,
    )
    report = play(scene, driver=driver)
    (review,) = built(report)["a"]["reviews"]
    assert (report["shipped"], review["verdict"], review["round"]) == (["a"], "approved", 1)
    assert (report["tokens"]["verifyIn"], report["tokens"]["verifyOut"]) == (22, 8)
    _, first, again = driver.requests
    assert "could not be used" not in first.prompt
    assert "the verdict.findings must be" in again.prompt
    nonces = {one.environment["TIDEGATE_NONCE"] for one in (first, again)}
    assert len(nonces) == 2


@pytest.mark.more
@on_scene
def test_two_verdicts_that_do_not_fit_leave_the_item_undecided(scene: Scene) -> None:
    misshapen = says("approve", findings="none")
    report = play(scene, writes(a__txt="good\n"), misshapen, misshapen, APPROVES)
    record = built(report)["a"]
    assert (record["verdict"], len(record["reviews"])) == ("undecided", 1)
    assert report["tokens"]["verifyIn"] == 22


@pytest.mark.more
@on_scene
def test_a_first_verdict_is_paid_though_nobody_may_be_asked_again(scene: Scene) -> None:
    def misshapen(agent: Agent) -> WorkerResult | None:
        halt.halt("enough", scene.state)
        return says("approve", findings="none")(agent)

    report = play(scene, writes(a__txt="good\n"), misshapen, APPROVES)
    record = built(report)["a"]
    assert report["shipped"] == []
    assert record["reviews"][0]["usage"]["totalTokens"] == 15
    assert "not asked again" in record["reviews"][0]["reason"]


@pytest.mark.more
@on_scene
def test_rounds_of_repair_and_of_review_are_counted_as_one(scene: Scene) -> None:
    steps = [
        writes(a__txt="bad\n"),
        writes(a__txt="good 1\n"),
        says("request_changes", "first"),
        writes(a__txt="good 2\n"),
        says("request_changes", "second"),
    ]
    report = play(scene, *steps, repairCap=2)
    record = built(report)["a"]
    assert (record["verdict"], record["adversarial_review"]) == ("failed", "changes_requested")
    assert record["error"].startswith("round_cap: ")
    assert "a.txt:1: major: second" in record["error"]
    assert len(record["attempts"]) == 3
    assert [one["findings"][0]["why"] for one in record["reviews"]] == ["first", "second"]
    assert report["shipped"] == []


@pytest.mark.more
@on_scene
def test_a_repair_that_makes_the_test_red_is_repaired_before_it_is_read_again(scene: Scene) -> None:
    driver = ScriptedDriver(
        {
            "a": [
                writes(a__txt="good 1\n"),
                says("request_changes", "wrong"),
                writes(a__txt="bad\n"),
                writes(a__txt="good 2\n"),
                APPROVES,
            ]
        },
        tier=3,
        environ=scene.environ,
    )
    assert play(scene, driver=driver)["shipped"] == ["a"]
    assert "test failed with exit 1" in driver.requests[3].prompt


@pytest.mark.more
@on_scene
def test_a_repair_that_changes_nothing_gets_no_second_review_of_the_same_tree(scene: Scene) -> None:
    asked = says("request_changes", "wrong")
    report = play(scene, writes(a__txt="good\n"), asked, lambda _: None, repairCap=1)
    record = built(report)["a"]
    assert (record["verdict"], len(record["reviews"])) == ("failed", 1)
    assert record["error"].startswith("round_cap: ")


@pytest.mark.more
@beside
def test_always_has_everybody_reviewed_and_off_nobody(folder: Path) -> None:
    for mode, tier, word in [
        ("always", 1, "approved"),
        ("off", 4, "off"),
        ("policy", 1, "not_required"),
    ]:
        scene = Scene(folder / mode, FILES, config=f'[review]\nmode = "{mode}"\n')
        steps = [writes(a__txt="good\n"), APPROVES]
        driver = ScriptedDriver({"a": steps}, tier=tier, environ=scene.environ)
        report = play(scene, driver=driver)
        assert (report["shipped"], report["adversarial_review"]) == (["a"], word)


@pytest.mark.more
@beside
def test_what_is_in_no_repository_is_not_built_for_a_review_that_cannot_be(folder: Path) -> None:
    scene = Scene(folder, FILES, config='[review]\nmode = "always"\n')
    plain = folder / "plain"
    plain.mkdir()
    driver = ScriptedDriver({}, tier=3, environ=scene.environ)
    report = scene.run(
        driver, [item("a", "a.txt", "true", workDir=str(plain))], git={"mode": "none"}
    )
    assert (verdicts(report), driver.requests) == ({"a": "undecided"}, [])
    assert "put it under git" in built(report)["a"]["error"]


@pytest.mark.more
@beside
def test_a_reviewer_out_of_service_parks_the_reviews_and_not_the_builders(folder: Path) -> None:
    said = "You've hit your usage limit. Upgrade to Pro or try again in 3 days 2 hours."
    reviewer = Reviewer(folder, f"print({said!r}, file=sys.stderr); sys.exit(1)")
    config = reviewer.config(max_retries=0) + "[limits]\nmax_workers = 1\n"
    scene = Scene(folder, FILES, config=config)
    driver = ScriptedDriver(
        {"a": writes(a__txt="good\n"), "b": writes(b__txt="good\n"), "c": writes(c__txt="good\n")},
        tier=3,
        environ=scene.environ,
    )
    items = [
        item("a", "a.txt", A_GOOD),
        item("b", "b.txt", "grep -q good b.txt", requireAdversarialReview=False),
        item("c", "c.txt", "grep -q good c.txt"),
    ]
    report = scene.run(driver, items)
    assert verdicts(report) == {"a": "undecided", "b": "verified", "c": "undecided"}
    assert report["shipped"] == ["b"]
    assert report["parked_until"] is not None
    assert "its reviewer is out" in built(report)["c"]["error"]
    assert [r.environment["TIDEGATE_ITEM"] for r in driver.requests] == ["a", "b"]


@pytest.mark.more
@beside
def test_work_under_way_when_its_reviewer_goes_out_of_service_is_undecided(folder: Path) -> None:
    said = "You've hit your usage limit. Upgrade to Pro or try again in 3 days 2 hours."
    reviewer = Reviewer(folder, f"print({said!r}, file=sys.stderr); sys.exit(1)")
    scene = Scene(folder, FILES, config=reviewer.config(max_retries=0))

    def late(agent: Agent) -> None:
        assert eventually(lambda: "a: review 1: undecided" in scene.said.getvalue(), 20.0)
        agent.write({"b.txt": "good\n"})

    driver = ScriptedDriver(
        {"a": writes(a__txt="good\n"), "b": late}, tier=3, environ=scene.environ
    )
    items = [item("a", "a.txt", A_GOOD), item("b", "b.txt", "grep -q good b.txt")]
    report = scene.run(driver, items)
    assert verdicts(report) == {"a": "undecided", "b": "undecided"}
    assert "used up" in built(report)["b"]["error"]
    assert len(reviewer.shown()) == 1


@pytest.mark.more
@beside
def test_a_reviewer_that_is_not_there_keeps_the_wave_from_starting(folder: Path) -> None:
    config = '[review.backend]\nname = "command"\ncommand = ["no-such-critic"]\n'
    scene = Scene(folder, FILES, config=config)
    driver = ScriptedDriver({}, tier=3, environ=scene.environ)
    report = play(scene, driver=driver)
    assert (report["exit_code"], report["abort_reason"]) == (4, "backend_not_ready")
    assert "[review.backend] command" in report["error"]
    assert driver.requests == []


@pytest.mark.more
@on_scene
def test_the_backend_that_builds_is_closed_by_a_fault_of_its_review(scene: Scene) -> None:
    def out(agent: Agent) -> WorkerResult:
        fault = ProviderFault(FaultKind.BAD_KEY, "no login")
        return WorkerResult("", error="no login", failure=FAILURE_COULD_NOT_RUN, fault=fault)

    report = play(scene, writes(a__txt="good\n"), out)
    assert (verdicts(report), report["shipped"]) == ({"a": "undecided"}, [])
    assert report["abort_reason"] == "backend_refused"


@pytest.mark.more
@on_scene
def test_an_undecided_review_is_asked_again_by_the_next_run_without_building(scene: Scene) -> None:
    first = play(scene, writes(a__txt="good\n"), lambda _: None)
    assert verdicts(first) == {"a": "undecided"}
    driver = ScriptedDriver({"a": [APPROVES]}, tier=3, environ=scene.environ)
    second = resumed(scene, driver)
    assert second["shipped"] == ["a"]
    record = built(second)["a"]
    assert [(one["verdict"], one["recalled"]) for one in record["reviews"]] == [
        ("undecided", True),
        ("approved", False),
    ]
    assert second["tokens"]["total"] == 15
    assert record["skipped_from_journal"]


@pytest.mark.more
@on_scene
def test_work_that_could_not_be_shown_for_a_trouble_of_ours_is_kept(scene: Scene) -> None:
    def agent(agent: Agent) -> None:
        agent.write({"a.txt": "good\n"})
        reading = agent.folder.parent.parent / "reading"
        reading.rmdir()
        reading.write_text("in the way")

    assert verdicts(play(scene, agent)) == {"a": "undecided"}
    driver = ScriptedDriver({"a": [APPROVES]}, tier=3, environ=scene.environ)
    assert resumed(scene, driver)["shipped"] == ["a"]


class HaltsOnceVerified(io.StringIO):
    """What a wave says of itself; somebody who reads it halts the wave at the first verdict."""

    def __init__(self, state: Path) -> None:
        super().__init__()
        self.state = state

    def write(self, text: str) -> int:
        if "a: verified" in text:
            halt.halt("enough", self.state)
        return super().write(text)


@pytest.mark.more
@on_scene
def test_a_halt_before_a_review_loses_nothing_that_was_proven(scene: Scene) -> None:
    driver = ScriptedDriver({"a": [writes(a__txt="good\n")]}, tier=3, environ=scene.environ)
    told = Progress(HaltsOnceVerified(scene.state))
    first = scene.run(driver, [item("a", "a.txt", A_GOOD)], progress=told)
    assert (verdicts(first), first["exit_code"]) == ({"a": "halted"}, 3)
    halt.clear_halt(scene.state)
    driver = ScriptedDriver({"a": [APPROVES]}, tier=3, environ=scene.environ)
    assert resumed(scene, driver)["shipped"] == ["a"]


@pytest.mark.more
@on_scene
def test_a_review_that_a_signal_ended_is_given_again(scene: Scene) -> None:
    stop = CancellationToken()

    def is_interrupted(agent: Agent) -> WorkerResult:
        stop.set(signal.SIGINT)
        return WorkerResult("", failure=FAILURE_CANCELLED, error="cancelled", usage=COST)

    driver = ScriptedDriver(
        {"a": [writes(a__txt="good\n"), is_interrupted]}, tier=3, environ=scene.environ
    )
    first = scene.run(driver, [item("a", "a.txt", A_GOOD)], stop=stop)
    assert (verdicts(first), first["exit_code"]) == ({"a": "halted"}, 130)
    assert first["tokens"]["verifyIn"] == 11
    again = ScriptedDriver({"a": [APPROVES]}, tier=3, environ=scene.environ)
    assert resumed(scene, again)["shipped"] == ["a"]


@pytest.mark.more
@on_scene
def test_work_verified_when_nobody_was_to_review_is_read_once_somebody_is(scene: Scene) -> None:
    unasked = {"requireAdversarialReview": False}
    stopped = scene.run(
        ScriptedDriver({"a": writes(a__txt="good\n")}, tier=3, environ=scene.environ),
        [item("a", "a.txt", A_GOOD, **unasked)],
        git={"mode": "none"},
    )
    assert verdicts(stopped) == {"a": "verified"}
    driver = ScriptedDriver({"a": [says("request_changes", "x"), lambda _: None]}, tier=3,
                            environ=scene.environ)  # fmt: skip
    report = resumed(scene, driver, repairCap=1)
    assert report["shipped"] == []
    assert [request.role for request in driver.requests] == ["verify", "worker"]


def resumed(scene: Scene, driver: ScriptedDriver, **more: Any) -> dict[str, Any]:
    return run_wave(
        driver,
        {"wave_id": "w2", "items": [item("a", "a.txt", A_GOOD, **more)]},
        state_dir=scene.state,
        git={"expectTopLevel": str(scene.repo.path), "mode": "branch"},
        resume_journal=True,
        options=scene.options(),
    )


@pytest.mark.more
@on_scene
def test_every_review_is_an_event_with_what_it_cost(scene: Scene) -> None:
    play(scene, writes(a__txt="good\n"), APPROVES)
    with EventStore(scene.state / "tracker_events.db") as store:
        steps = {event["type"]: event["payload"] for event in store.read("wave:w1")}
        traces = [event["payload"] for event in store.read("agent_traces")]
    assert (steps["review_started"]["round"], steps["review_judged"]["verdict"]) == (1, "approved")
    assert steps["review_started"]["tree"] == steps["review_judged"]["tree"]
    last = traces[-1]
    assert (last["agent_id"], last["tokens"], last["verdict"]) == ("w1/a/review-1", 15, "approved")


@pytest.mark.more
@on_scene
def test_every_book_has_attempts_and_reviews_apart(scene: Scene) -> None:
    steps = [writes(a__txt="good but\n"), says("request_changes", "no but")]
    report = play(scene, *steps, writes(a__txt="good\n"), APPROVES)
    with StateAPI(scene.state / STATE_DB_FILENAME) as api:
        found = api.project("agent_traces")
    assert {trace["id"]: trace["phase"] for trace in found["agents"]} == {
        "w1/a/1": "build",
        "w1/a/2": "repair",
        "w1/a/review-1": "review",
        "w1/a/review-2": "review",
    }
    rows = fleet_ledger.parse_ledger_rows(scene.state, archived=True)
    assert [row["phase"] for row in rows] == ["build", "review", "repair", "review"]
    booked = sum(row["tokens_in"] + row["tokens_out"] for row in rows)
    assert booked == found["totals"]["tokens"] == report["tokens"]["total"]
    assert booked == report["budget"]["wave"]["tokens"]["spent"]


@pytest.mark.more
@beside
def test_work_without_room_for_its_review_waits_for_the_next_run(folder: Path) -> None:
    scene = Scene(folder, FILES, config="[limits]\nmax_wave_dispatches = 1\n")
    report = play(scene, writes(a__txt="good\n"), APPROVES)
    assert (report["shipped"], verdicts(report)) == ([], {"a": "over_budget"})
    assert (report["abort_reason"], report["exit_code"]) == ("cost_ceiling_exceeded_in_repair", 3)
    halt.clear_halt(scene.state)
    driver = ScriptedDriver({"a": APPROVES}, tier=3, environ=scene.environ)
    assert resumed(scene, driver)["shipped"] == ["a"]
    assert [request.role for request in driver.requests] == ["verify"]


@pytest.mark.more
@beside
def test_a_reviewer_of_its_own_is_below_the_same_ceiling(folder: Path) -> None:
    reviewer = Reviewer(folder, "say()")
    config = f"{reviewer.config()}[limits]\nmax_wave_dispatches = 1\n"
    scene = Scene(folder, FILES, config=config)
    report = play(scene, writes(a__txt="good\n"))
    assert (report["shipped"], verdicts(report)) == ([], {"a": "over_budget"})
    assert (report["exit_code"], reviewer.shown()) == (3, [])


@pytest.mark.more
def test_a_recorded_review_is_replayed_and_a_recorded_refusal_too(
    scene: Scene, tmp_path: Path
) -> None:
    recording = RecordingWriter(tmp_path / "wave.jsonl")
    steps = [
        writes(a__txt="good but\n"),
        says("request_changes", "no but"),
        writes(a__txt="good\n"),
        APPROVES,
    ]
    lived = play(scene, *steps, recording=recording)
    replay = ReplayDriver(recording.path, environ=scene.environ, tier=3)
    again = Scene(tmp_path / "again", FILES)
    told = again.run(replay, [item("a", "a.txt", A_GOOD)])
    assert told["shipped"] == lived["shipped"] == ["a"]
    assert built(told)["a"]["tree"] == built(lived)["a"]["tree"]
    assert built(lived)["a"]["reviews"][0]["findings"] == built(told)["a"]["reviews"][0]["findings"]


@pytest.mark.more
def test_a_wrong_nonce_is_recorded_as_a_wrong_one(scene: Scene, tmp_path: Path) -> None:
    recording = RecordingWriter(tmp_path / "wave.jsonl")
    play(scene, writes(a__txt="good\n"), says("approve", nonce="another"), recording=recording)
    replay = ReplayDriver(recording.path, environ=scene.environ, tier=3)
    told = Scene(tmp_path / "again", FILES).run(replay, [item("a", "a.txt", A_GOOD)])
    assert verdicts(told) == {"a": "undecided"}
