"""A backend that takes no work for now ends the starting of items, and nothing is lost by it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from driver.backend_api.driver import FAILURE_COULD_NOT_RUN, AgentDriver, Usage, WorkerResult
from driver.backend_api.provider_fault import FaultKind, ProviderFault
from driver.backends.command import CommandDriver
from driver.wave_loop import run_wave
from state_store.documents.journal import load_entries
from tests.support.beside import beside, beside_on
from tests.support.interpreter import PYTHON
from tests.support.waves import Agent, Scene, ScriptedDriver, Step, built, item, verdicts, writes

RESETS = 1796000000.0
RESETS_ISO = "2026-11-30T00:53:20+00:00"
USED_UP = ProviderFault(FaultKind.USAGE_LIMIT, "usage limit reached", resets_at=RESETS)
SLUGS = ("one", "two", "three")
ITEMS = [item(slug, f"{slug}.txt", f"test -s {slug}.txt") for slug in SLUGS]


def meets(fault: ProviderFault) -> Step:
    def step(_agent: Agent) -> WorkerResult:
        said, free = fault.message, Usage(0, 0, 0.0)
        return WorkerResult("", error=said, failure=FAILURE_COULD_NOT_RUN, fault=fault, usage=free)

    return step


def scripts(**more: Step | Sequence[Step]) -> dict[str, Any]:
    """Agents that do their work, but for those given."""
    good = {slug: writes(**{f"{slug}__txt": "x"}) for slug in SLUGS}
    return {**good, **more}


def run(
    scene: Scene, driver: AgentDriver, items: Sequence[Mapping[str, Any]], **changes: Any
) -> dict[str, Any]:
    """A wave that goes on from what an earlier one has left."""
    git = {"expectTopLevel": str(scene.repo.path), "mode": "branch"}
    manifest = {"wave_id": "w2", "items": list(items)}
    given = {"git": git, "state_dir": scene.state, "options": scene.options(), **changes}
    return run_wave(driver, manifest, resume_journal=True, **given)


on_scene = beside_on(
    lambda folder: nullcontext(Scene(folder, {"README": "x"}, config="[limits]\nmax_workers = 1\n"))
)


def journaled(scene: Scene) -> dict[str, Mapping[str, Any]]:
    entries, _ = load_entries(scene.state)
    return {slug: entry for (_, slug), entry in entries.items()}


@on_scene
def test_a_used_up_plan_parks_the_wave_and_what_is_verified_ships(scene: Scene) -> None:
    report, driver = scene.play(scripts(two=meets(USED_UP)), ITEMS)
    assert verdicts(report) == {"one": "verified", "two": "undecided", "three": "halted"}
    assert report["shipped"] == ["one"]
    assert (report["abort_reason"], report["exit_code"]) == ("parked", 3)
    assert report["parked_until"] == RESETS_ISO
    assert RESETS_ISO in report["error"]
    assert driver.rounds_of("three") == []
    assert "used up" in built(report)["three"]["error"]


@pytest.mark.more
@beside
def test_no_place_is_prepared_for_an_item_that_is_not_begun(folder: Path) -> None:
    log = folder / "set-up.log"
    setup = f"pwd >> {shlex.quote(str(log))}"
    config = f"[limits]\nmax_workers = 1\n[workspace]\nsetup = [{json.dumps(setup)}]\n"
    scene = Scene(folder, {"README": "x"}, config=config)
    scene.play(scripts(one=meets(USED_UP)), ITEMS)
    # Beside the agent of the first, its test on the base has a place as well.
    made = [Path(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [place.name for place in made if place.parent.name == "items"] == ["one"]
    assert len(made) <= 2
    assert [path.name for path in (scene.state / "runs" / "w1").iterdir() if path.is_dir()] == [
        "one"
    ]


@pytest.mark.more
@on_scene
def test_a_parked_wave_has_cost_no_attempt_and_goes_on_when_run_again(scene: Scene) -> None:
    scene.play(scripts(two=meets(USED_UP)), ITEMS)
    assert "three" not in journaled(scene)
    assert journaled(scene)["two"]["settled"] is True  # a line at its end, counted from anew
    driver = ScriptedDriver(scripts(), environ=scene.environ)
    report = run(scene, driver, ITEMS)
    assert [len(driver.rounds_of(slug)) for slug in ("two", "three")] == [1, 1]
    assert driver.rounds_of("two")[0].environment["TIDEGATE_ATTEMPT"] == "1"
    assert driver.rounds_of("one") == []
    assert report["shipped"] == [*SLUGS]
    assert (report["abort_reason"], report["parked_until"]) == (None, None)


@pytest.mark.more
@on_scene
def test_no_repair_round_is_begun_on_a_closed_backend(scene: Scene) -> None:
    wrong = writes(one__txt="")
    report, driver = scene.play(scripts(one=[wrong, meets(USED_UP)]), ITEMS)
    assert verdicts(report) == {"one": "undecided", "two": "halted", "three": "halted"}
    assert len(driver.requests) == 2
    assert report["exit_code"] == 3


@pytest.mark.more
@pytest.mark.parametrize("kind", [FaultKind.BAD_KEY, FaultKind.UNKNOWN_MODEL, FaultKind.NO_CREDIT])
@on_scene
def test_a_backend_that_refuses_everybody_is_asked_once(scene: Scene, kind: FaultKind) -> None:
    report, driver = scene.play(scripts(one=meets(ProviderFault(kind, "no"))), ITEMS)
    assert verdicts(report) == {"one": "undecided", "two": "halted", "three": "halted"}
    assert (report["abort_reason"], report["exit_code"]) == ("backend_refused", 4)
    assert (report["shipped"], report["parked_until"]) == ([], None)
    assert len(driver.requests) == 1


@pytest.mark.more
@on_scene
def test_a_model_that_only_one_item_asks_for_ends_no_other(scene: Scene) -> None:
    fault = ProviderFault(FaultKind.UNKNOWN_MODEL, "no such model")
    items = [{**ITEMS[0], "model": "mine"}, *ITEMS[1:]]
    report, _ = scene.play(scripts(one=meets(fault)), items)
    assert verdicts(report) == {"one": "undecided", "two": "verified", "three": "verified"}
    assert (report["abort_reason"], report["exit_code"]) == (None, 1)
    assert built(report)["one"]["repairs"] == 0


@pytest.mark.more
@on_scene
def test_a_backend_that_refuses_later_leaves_a_wave_not_all_of_which_shipped(scene: Scene) -> None:
    fault = ProviderFault(FaultKind.NO_CREDIT, "no credit")
    report, _ = scene.play(scripts(two=meets(fault)), ITEMS)
    assert (report["shipped"], report["exit_code"]) == (["one"], 1)
    assert report["abort_reason"] == "backend_refused"


@pytest.mark.more
@on_scene
def test_a_fault_of_one_request_parks_nothing(scene: Scene) -> None:
    fault = ProviderFault(FaultKind.BAD_REQUEST, "malformed")
    report, _ = scene.play(scripts(one=meets(fault)), ITEMS)
    assert verdicts(report) == {"one": "undecided", "two": "verified", "three": "verified"}
    assert (report["abort_reason"], report["exit_code"]) == (None, 1)


@pytest.mark.more
@on_scene
def test_work_of_an_earlier_run_ships_on_a_parked_backend_too(scene: Scene) -> None:
    run(scene, ScriptedDriver(scripts(), environ=scene.environ), ITEMS[1:2], git=None)
    driver = ScriptedDriver(scripts(one=meets(USED_UP)), environ=scene.environ)
    report = run(scene, driver, ITEMS[:2])
    assert verdicts(report) == {"one": "undecided", "two": "verified"}
    assert (report["shipped"], report["exit_code"]) == (["two"], 3)
    assert driver.rounds_of("two") == []


AGENT = """
import os, sys
slug = os.environ["TIDEGATE_ITEM"]
if slug == "two":
    sys.stderr.write("some warning\\nClaude AI usage limit reached|" + sys.argv[1] + "\\n")
    sys.exit(1)
open(slug + ".txt", "w").write("x")
"""


@pytest.mark.more
@on_scene
def test_an_agent_program_that_prints_a_used_up_plan_parks_the_wave(scene: Scene) -> None:
    agent = scene.folder / "agent.py"
    agent.write_text(AGENT, encoding="utf-8")
    tomorrow = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    command = (*PYTHON, str(agent), str(int(tomorrow.timestamp())))
    driver = CommandDriver(command, tier=1, environ=scene.environ)
    report = scene.run(driver, ITEMS)
    assert verdicts(report) == {"one": "verified", "two": "undecided", "three": "halted"}
    assert (report["abort_reason"], report["exit_code"]) == ("parked", 3)
    assert report["parked_until"] == tomorrow.isoformat()
    assert report["repairsUsed"] == 0
    json.dumps(report)


AWAY = ProviderFault(FaultKind.OVERLOADED, "overloaded")


@pytest.mark.more
@beside
def test_a_provider_that_answers_nobody_for_long_parks_the_wave_and_says_so(
    folder: Path,
) -> None:
    config = "[limits]\nmax_workers = 1\ngive_up_s = 0.2\n"
    scene = Scene(folder, {"README": "x"}, config=config)
    report, driver = scene.play(scripts(two=meets(AWAY)), ITEMS)
    assert verdicts(report) == {"one": "verified", "two": "undecided", "three": "halted"}
    assert (report["abort_reason"], report["exit_code"]) == ("parked", 3)
    assert (report["shipped"], report["parked_until"]) == (["one"], None)
    assert "does not answer" in report["error"]
    assert driver.rounds_of("three") == []
    assert report["provider"]["closings"] == 1
    assert report["provider"]["closedS"] >= 0.2
    assert "overloaded, so no call to the provider for" in scene.said.getvalue()


@pytest.mark.more
@on_scene
def test_a_provider_without_a_fault_was_never_closed(scene: Scene) -> None:
    report, _ = scene.play(scripts(), ITEMS)
    assert report["provider"] == {"closings": 0, "closedS": 0.0, "leastAtOnce": None}
