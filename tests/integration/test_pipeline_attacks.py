"""Pipelines under attack: by their agents, by who confirms, by what prompt files hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from driver.backend_api.driver import FAILURE_AGENT, Usage, WorkerResult
from tests.support.forges import fake_gh
from tests.support.pipelines import (
    DOCS,
    GATE,
    GOOD,
    IMPLEMENT,
    PR,
    PUBLISH,
    QUIET,
    REVIEW,
    answers,
    one,
    phases_asked,
    played,
    says,
)
from tests.support.waves import BILLED, Agent, Scene, item, writes
from tools.halt import clear_halt, halt


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, {"base.txt": "x\n"}, config=QUIET)


def skips(*names: str) -> Callable[[str, str], str]:
    return lambda slug, phase: "skip" if phase in names else "run"


FREE = {"requireAdversarialReview": False}


def test_who_skips_a_gate_has_no_verified_work_until_it_lets_the_work_pass(scene: Scene) -> None:
    made = one(IMPLEMENT, {**GATE, "commands": ["test -e README.md"]}, PR, PUBLISH, **FREE)
    steps = [GOOD, answers("told")]
    report, _, record = played(scene, steps, made, ask=skips("gate"))
    assert (record["verdict"], report["shipped"]) == ("undecided", [])
    assert record["error"] == "gate gate was skipped, and has to let the work pass"
    document = writes(README__md="told\n")
    report, driver, record = played(scene, [document, answers("more")], made, resume=True)
    assert phases_asked(driver) == ["repair", "pr-description"]
    assert (record["verdict"], report["shipped"]) == ("verified", ["a"])


@pytest.mark.more
def test_a_review_that_was_skipped_is_asked_for_by_the_next_run_and_finished_agents_are_not(
    scene: Scene,
) -> None:
    made = one(IMPLEMENT, GATE, REVIEW, DOCS, PR, PUBLISH)
    steps = [GOOD, writes(README__md="told\n"), answers("What it does")]
    _, _, record = played(scene, steps, made, ask=skips("review"))
    assert record["verdict"] == "undecided"
    report, driver, record = played(scene, [says()], made, resume=True)
    assert phases_asked(driver) == ["review"]
    assert (record["verdict"], report["shipped"]) == ("verified", ["a"])


@pytest.mark.more
def test_who_kept_an_item_from_being_published_is_asked_again(scene: Scene) -> None:
    made = one(IMPLEMENT, GATE, PUBLISH, **FREE)
    report, _, _ = played(scene, [GOOD], made, ask=skips("publish"))
    assert report["shipped"] == []
    report, _, _ = played(scene, [], made, resume=True, ask=skips("publish"))
    assert report["shipped"] == []
    report, driver, _ = played(scene, [], made, resume=True)
    assert (report["shipped"], driver.requests) == (["a"], [])


@pytest.mark.more
def test_what_a_failed_try_has_written_is_not_the_answer_of_the_next(scene: Scene) -> None:
    def half(agent: Agent) -> WorkerResult:
        Path(agent.request.environment["TIDEGATE_ARTIFACT_FILE"]).write_text("half of it")
        return WorkerResult("", failure=FAILURE_AGENT, error="it fell over", usage=BILLED)

    made = one(IMPLEMENT, GATE, {**PR, "retries": 1}, PUBLISH, **FREE)
    played(scene, [GOOD, half, answers("whole")], made)
    assert (scene.state / "runs" / "w1" / "a" / "pr.md").read_text() == "whole\n"


@pytest.mark.more
def test_who_may_only_read_does_not_write_into_the_items_place_by_a_detour(scene: Scene) -> None:
    def reads(agent: Agent) -> WorkerResult:
        for place in (agent.folder.parent.parent / "items").iterdir():
            (place / "README.md").write_text("by the reader\n")
        return WorkerResult("", ok=True, text="told", usage=BILLED)

    made = one(IMPLEMENT, GATE, PR, DOCS, PUBLISH, **FREE)
    report, _, record = played(scene, [GOOD, reads], made)
    assert (record["verdict"], report["shipped"]) == ("refused", [])
    assert record["error"] == "phase pr-description may only read, and these changed: README.md"


@pytest.mark.more
def test_a_repair_of_findings_can_ask_for_a_clean_tree_too(scene: Scene) -> None:
    def behind_its_back(agent: Agent) -> WorkerResult | None:
        for place in (agent.folder.parent.parent / "items").iterdir():
            (place / "README.md").write_text("by the reader\n")
        return says("request_changes", "why")(agent)

    address = {"name": "address", "kind": "agent", "requires_clean_tree": True}
    made = one(IMPLEMENT, GATE, REVIEW, address, PUBLISH)
    _, _, record = played(scene, [GOOD, behind_its_back], made)
    assert record["verdict"] == "refused"
    assert "phase address wants a clean tree" in record["error"]


@pytest.mark.more
def test_a_shipped_items_approval_is_still_told_when_it_is_asked_about_again(scene: Scene) -> None:
    made = one(IMPLEMENT, GATE, REVIEW, DOCS, PUBLISH)
    _, _, record = played(scene, [GOOD, says(), writes(README__md="told\n")], made)
    told = record["adversarial_review"], record["afterApproval"]
    assert told == ("approved", ["README.md"])
    _, _, record = played(scene, [], made, resume=True)
    assert (record["adversarial_review"], record["afterApproval"]) == told


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xff\xfe do it", "is no text in UTF-8"),
        (b"do\0it", "is no text in UTF-8"),
        (b"x" * (2 << 20), "has 2097152 bytes, more than the 1048576 of a prompt"),
        (b" \n", "is empty"),
        (None, "is a link or another repository; a prompt is a file"),
    ],
)
def test_what_is_no_prompt_is_told_before_anything_is_spent(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    scene = Scene(tmp_path, {"base.txt": "x\n", "prompts/p.md": content or b"x"}, config=QUIET)
    if content is None:
        (scene.repo.path / "prompts/p.md").unlink()
        (scene.repo.path / "prompts/p.md").symlink_to("../base.txt")
        scene.repo.git("commit", "-qam", "a link")
    made = one({**IMPLEMENT, "prompt": "p.md"}, GATE, PUBLISH, **FREE)
    report, driver = scene.play({"a": [GOOD]}, [made])
    assert (report["exit_code"], driver.requests) == (2, [])
    assert report["error"] == f"item 'a': prompts/p.md {problem}"


@pytest.mark.more
@pytest.mark.parametrize("phase", [PR, DOCS])
def test_a_halt_between_two_tries_is_obeyed_and_the_first_is_on_the_items_bill(
    scene: Scene, phase: Mapping[str, Any]
) -> None:
    def halts(agent: Agent) -> WorkerResult:
        halt("enough", scene.state)
        return WorkerResult("", failure=FAILURE_AGENT, error="it fell over", usage=BILLED)

    made = one(IMPLEMENT, GATE, {**phase, "retries": 3}, PUBLISH, **FREE)
    report, driver, record = played(scene, [GOOD, halts, answers("told")], made)
    assert (record["verdict"], report["shipped"], len(driver.requests)) == ("halted", [], 2)
    assert record["usage"]["totalTokens"] == 200 == report["tokens"]["total"]
    clear_halt(scene.state)
    report, driver, _ = played(scene, [answers("told")], made, resume=True)
    assert (phases_asked(driver), report["shipped"]) == ([phase["name"]], ["a"])


@pytest.mark.more
def test_of_several_tries_all_that_is_known_is_on_the_bill(scene: Scene) -> None:
    def unmetered(agent: Agent) -> WorkerResult:
        return WorkerResult("", failure=FAILURE_AGENT, error="it fell over", usage=Usage())

    made = one(IMPLEMENT, GATE, {**PR, "retries": 1}, PUBLISH, **FREE)
    report, _, record = played(scene, [GOOD, unmetered, answers("told")], made)
    assert record["usage"]["totalTokens"] == 200 == report["tokens"]["total"]


@pytest.mark.more
def test_a_later_agent_that_takes_all_of_the_work_away_has_overstepped(scene: Scene) -> None:
    def removes(agent: Agent) -> None:
        (agent.folder / "a.txt").unlink()

    made = one(IMPLEMENT, GATE, DOCS, PUBLISH, **FREE)
    _, _, record = played(scene, [GOOD, removes], made)
    assert record["verdict"] == "refused"
    assert record["error"] == "phase docs: changed outside its writes: a.txt"


@pytest.mark.more
def test_a_pull_request_tells_the_approval_that_later_documents_came_after(tmp_path: Path) -> None:
    gh = fake_gh(tmp_path / "gh")
    environ = {"PATH": f"{gh.bin}{os.pathsep}{os.environ['PATH']}", "GH_TOKEN": "t-of-the-user"}
    config = f'{QUIET}[ship]\npr = "draft"\n'
    scene = Scene(tmp_path, {"base.txt": "x\n"}, remote=True, config=config, environ=environ)
    assert scene.remote
    scene.repo.git("remote", "set-url", "origin", "https://github.com/acme/widgets.git")
    scene.repo.git("remote", "set-url", "--push", "origin", str(scene.remote.path))
    made = one(IMPLEMENT, GATE, REVIEW, DOCS, PUBLISH)
    report, _, _ = played(scene, [GOOD, says(), writes(README__md="told\n")], made)
    assert report["pull_requests"], report
    assert "| approved |" in gh.created[0]["body"]


@pytest.mark.more
def test_the_gates_of_each_item_are_asked_of_what_ships_and_not_only_of_the_item(
    scene: Scene,
) -> None:
    two_at_most = ["test -e base.txt", "test $(ls | wc -l) -le 2 # files"]
    gated = one(IMPLEMENT, {**GATE, "commands": two_at_most}, PUBLISH, **FREE)
    other = item("b", "b.txt", "grep -q good b.txt", **FREE, spotCheckFrac=0)
    scripts = {"a": GOOD, "b": writes(b__txt="good\n")}
    report, _ = scene.play(scripts, [gated, other])
    assert report["shipped"] == ["a"]
    [_, left_out] = report["built"]
    assert "test -e base.txt" in left_out["error"]


@pytest.mark.more
@pytest.mark.parametrize("text", ["do {{ITEM}} so\n", "do {{NOBODY}}\n"])
def test_of_a_branch_that_only_the_remote_has_prompts_are_checked_when_the_wave_begins(
    tmp_path: Path, text: str
) -> None:
    scene = Scene(tmp_path, {"base.txt": "x\n"}, config=QUIET, remote=True)
    scene.repo.git("checkout", "-q", "-b", "release")
    scene.repo.write({"prompts/p.md": text})
    scene.repo.git("add", "-A")
    scene.repo.git("commit", "-qm", "prompts")
    scene.repo.git("push", "-q", "origin", "release")
    scene.repo.git("checkout", "-q", "main")
    scene.repo.git("branch", "-q", "-D", "release")
    made = one(IMPLEMENT, GATE, {**PR, "prompt": "p.md"}, PUBLISH, **FREE)
    git = {"expectTopLevel": str(scene.repo.path), "mode": "branch", "target": "release"}
    report, driver, record = played(scene, [GOOD, answers("told")], made, git=git)
    if "NOBODY" in text:
        assert (record["verdict"], driver.requests) == ("undecided", [])
        assert record["error"].endswith("has unknown variables: NOBODY")
    else:
        assert driver.requests[1].prompt == "do a so\n"
        assert report["shipped"] == ["a"]
