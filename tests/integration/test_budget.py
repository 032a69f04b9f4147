"""Waves below ceilings: what is begun, what is left and why, and that every book says the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from driver.backend_api.driver import Usage, WorkerResult
from driver.backends.openai_compatible import OpenAICompatibleDriver
from driver.scheduler.context import CycleRequest
from driver.scheduler.cycle import run
from driver.wave_loop import result_to_report, run_wave
from state_store.api import StateAPI
from state_store.database.spend import Purpose, Reserved, Total
from state_store.database.store import EventStore
from state_store.write_api import STATE_DB_FILENAME
from tests.support.beside import beside
from tests.support.raw_server import Act, Call, RawServer, completion, error, patch, response, says
from tests.support.waves import Agent, Scene, ScriptedDriver, Step, built, item, verdicts
from tools import cost_ceiling, fleet_ledger, halt, wave_ledger_hook
from tools.budget.budget import Budget, OverBudgetError
from tools.budget.ceilings import Ceilings, Limits
from tools.budget.charges import Used

SLUGS = [f"i{number}" for number in range(8)]


def scene(folder: Path, **limits: Any) -> Scene:
    config = "".join(f"{name} = {json.dumps(value)}\n" for name, value in limits.items())
    review = '[review]\nmode = "off"\n'
    return Scene(folder, {"README.md": "x\n"}, config=f"{review}[limits]\n{config}")


def spends(usage: Usage | None, slug: str, text: str = "good\n") -> Step:
    """An agent that writes its file and was billed so; None bills nothing that anybody knows."""

    def act(agent: Agent) -> WorkerResult:
        agent.write({f"{slug}.txt": text})
        return WorkerResult("", ok=True, usage=usage or Usage())

    return act


def items(slugs: list[str]) -> list[dict[str, Any]]:
    return [item(slug, f"{slug}.txt", f"grep -qx good {slug}.txt") for slug in slugs]


def play(made: Scene, use: Any, slugs: list[str], **more: Any) -> tuple[dict[str, Any], int]:
    scripts = {slug: spends(use, slug) for slug in slugs}
    report, driver = made.play(scripts, items(slugs), **more)
    return report, len(driver.requests)


def in_ledger(state: Path) -> int:
    rows = fleet_ledger.parse_ledger_rows(state, archived=True)
    return sum(row["tokens_in"] + row["tokens_out"] for row in rows)


def in_events(state: Path) -> dict[str, Any]:
    with StateAPI(state / STATE_DB_FILENAME) as api:
        totals: dict[str, Any] = api.project("agent_traces")["totals"]
        return totals


@beside
def test_of_eight_items_of_500_below_600_one_is_begun_and_nothing_is_lost(folder: Path) -> None:
    made = scene(folder, max_wave_tokens=600)
    tracker = folder / "tracker.json"
    todo = [{"id": i["slug"].upper(), "status": "todo", **i} for i in items(SLUGS)]
    tracker.write_text(json.dumps({"items": todo}), encoding="utf-8")
    driver = ScriptedDriver({s: spends(Usage(450, 50), s) for s in SLUGS}, environ=made.environ)
    asked = CycleRequest(tracker, 8, driver=driver, state_dir=made.state, options=made.options())
    report = run(asked, run_wave)
    assert (len(driver.requests), report["exit_code"], report["phase"]) == (1, 3, "ceiling")
    (shipped,) = report["items_shipped"]
    wave = report["wave"]
    assert wave["abort_reason"] == "cost_ceiling_exceeded"
    kept = {k: wave["ceiling"][k] for k in ("period", "ceiling", "spent", "exceeded", "tripped")}
    wanted = {"period": "wave", "ceiling": 600, "spent": 500, "exceeded": True, "tripped": False}
    assert kept == wanted
    assert sorted(verdicts(wave).values()) == ["over_budget"] * 7 + ["verified"]
    now = {i["slug"]: i for i in json.loads(tracker.read_text())["items"]}
    assert now.pop(shipped["slug"])["status"] == "in_progress"
    assert {i["status"] for i in now.values()} == {"todo"}
    assert {i["attempts"] for i in now.values()} == {0}
    assert all("500 of 600 tokens" in i["lastError"] for i in now.values())
    assert not halt.is_halted(made.state), "a budget that is used up is no emergency"
    assert run(asked, run_wave)["wave"]["ceiling"]["spent"] == 500  # a wave of its own
    assert len(driver.requests) == 2


@pytest.mark.more
@beside
def test_the_next_wave_of_the_day_starts_from_what_was_spent(folder: Path) -> None:
    made = scene(folder, max_daily_tokens=1100)
    first, begun = play(made, Usage(450, 50), SLUGS[:1], wave_id="one")
    assert (begun, first["exit_code"]) == (1, 0)
    assert first["budget"]["day"]["tokens"] == {"spent": 500, "reserved": 0, "ceiling": 1100}
    second, begun = play(made, Usage(450, 50), SLUGS[1:], wave_id="two")
    assert (begun, second["exit_code"]) == (1, 3)
    assert second["ceiling"]["period"] == "daily"
    assert "1000 of 1100 tokens" in second["error"]
    answer = cost_ceiling.check(
        period="daily", config={"limits": {"max_daily_tokens": 1000}}, state_dir=made.state
    )
    assert (answer["spent"], answer["exceeded"]) == (1000, True)
    halt.clear_halt(made.state)
    named = cost_ceiling.check(wave="two", config={}, state_dir=made.state)
    assert named["spent"] == 500


@pytest.mark.more
@beside
def test_a_ledger_that_outlived_its_store_still_counts(folder: Path) -> None:
    made = scene(folder, max_daily_tokens=1000)
    play(made, Usage(900, 0), SLUGS[:1], wave_id="one")
    for path in made.state.glob("tracker_events.db*"):
        path.unlink()
    for path in made.state.glob("journal/*"):
        path.unlink()
    (made.state / "journal").rmdir()
    report, begun = play(made, Usage(900, 0), SLUGS[1:2], wave_id="two")
    assert (begun, report["exit_code"]) == (0, 3)
    assert report["budget"]["day"]["tokens"]["spent"] == 900


@pytest.mark.more
@beside
def test_a_wave_waits_for_room_that_others_free(folder: Path) -> None:
    made = scene(folder, max_wave_tokens=1000, default_dispatch_tokens=600)
    report, begun = play(made, Usage(50, 50), SLUGS)
    assert (begun, report["exit_code"], report["tokens"]["total"]) == (8, 0, 800)


# All of them are in tests/faults/test_budget_simulation.py and in the tables of what is known.
@pytest.mark.more
@pytest.mark.parametrize(
    "use",
    [
        pytest.param(None, id="missing"),
        pytest.param(Usage(float("nan"), 3), id="NaN", marks=pytest.mark.sweep),  # type: ignore[arg-type]
        pytest.param(Usage(-5, 3), id="negative", marks=pytest.mark.sweep),
        pytest.param(Usage(None, 3), id="half", marks=pytest.mark.sweep),
        pytest.param(Usage(10**30, 0), id="absurd"),
    ],
)
@beside
def test_a_use_that_nobody_knows_counts_as_it_was_reserved(folder: Path, use: Any) -> None:
    made = scene(folder, max_wave_tokens=1000, default_dispatch_tokens=400)
    report, begun = play(made, use, SLUGS)
    assert (begun, report["exit_code"], report["ceiling"]["spent"]) == (2, 3, 800)
    assert (report["tokens"]["unmetered"], report["budget"]["wave"]["unmetered"]) == (2, 2)
    assert in_ledger(made.state) == 800
    assert (in_events(made.state)["unmetered"], in_events(made.state)["tokens"]) == (2, None)


@pytest.mark.more
@beside
def test_a_model_without_a_price_is_refused_before_it_spends(folder: Path) -> None:
    report, begun = play(scene(folder / "a", max_wave_usd=5), Usage(1, 1), ["i0"])
    assert (begun, report["exit_code"], verdicts(report)) == (0, 3, {"i0": "over_budget"})
    assert "price of scripted-worker is unknown" in report["error"]
    allowed = scene(folder / "b", max_wave_usd=5, allow_unpriced=True)
    report, begun = play(allowed, Usage(1, 1), ["i0"])
    assert (begun, report["exit_code"]) == (1, 0)
    assert (report["tokens"]["unpriced"], report["tokens"]["costUsd"]) == (1, None)


@pytest.mark.more
@beside
def test_money_is_reserved_by_price_and_booked_by_use(folder: Path) -> None:
    made = scene(folder, max_wave_usd=1.0, default_dispatch_tokens=100_000)
    with (folder / "tidegate.toml").open("a") as config:
        config.write("[prices]\nscripted-worker = { input = 5, output = 10 }\n")
    report, begun = play(made, Usage(70_000, 5_000), SLUGS)
    # Each costs 0.40; a third would end at 1.20.
    assert (begun, report["exit_code"]) == (2, 3), report["error"]
    assert report["budget"]["wave"]["usd"] == {"spent": 0.8, "reserved": 0.0, "ceiling": 1.0}
    assert report["tokens"]["costUsd"] == pytest.approx(0.8)
    assert (report["ceiling"]["unit"], report["tokens"]["unpriced"]) == ("USD", 0)


@pytest.mark.more
@pytest.mark.parametrize("period", ["wave", "daily"])
@beside
def test_dispatches_are_counted_repairs_too(folder: Path, period: str) -> None:
    made = scene(folder, **{f"max_{period}_dispatches": 2, "max_workers": 1})
    bad = [spends(Usage(1, 1), "i0", "bad\n"), spends(Usage(1, 1), "i0")]
    scripts = {"i0": bad, "i1": spends(Usage(1, 1), "i1")}
    report, driver = made.play(scripts, items(["i0", "i1"]))
    assert (len(driver.requests), verdicts(report)) == (2, {"i0": "verified", "i1": "over_budget"})
    assert f"{period} ceiling reached: 2 of 2 dispatches" in report["error"]


@pytest.mark.more
@beside
def test_past_its_minutes_a_wave_starts_nothing_more(folder: Path) -> None:
    made = scene(folder, max_wave_minutes=0.0005, max_workers=1)
    report, begun = play(made, Usage(1, 1), SLUGS[:3])
    assert (begun, report["exit_code"], report["abort_reason"]) == (
        begun,
        3,
        "cost_ceiling_exceeded",
    )
    assert begun < 3
    assert "minutes" in report["error"]


@pytest.mark.more
@beside
def test_what_was_billed_is_the_same_in_every_book(folder: Path) -> None:
    made = scene(folder, max_daily_tokens=10**9)
    uses = [(n * 7 % 23 + 100, n % 5 + 11) for n in range(40)]
    acts: list[Act] = []

    def answer(number: int, text: str | None) -> Act:
        entered, left = uses[number]
        used = {"prompt_tokens": entered, "completion_tokens": left, "total_tokens": entered + left}

        def play_it(call: Call) -> None:
            assert call.request is not None
            system = call.request.document["messages"][0]["content"]
            owned = json.loads(system.partition("owned set:")[2])
            again = "Test failed" in json.dumps(call.request.document)
            good = "good" if again or owned[0] != "i1.txt" else "bad"
            body = completion(text or patch({owned[0]: f"{good}\n"}), used)
            call.send(response(json.dumps(body).encode()))

        return Act(play_it, entered + left)

    acts = [answer(0, "no JSON"), error("429 Too Many Requests", headers={"Retry_After": "0"})]
    acts += [answer(n, "{}" if n == 3 else None) for n in range(1, 40)]
    with RawServer(acts) as server:
        driver = OpenAICompatibleDriver(server.url, "m", environ=made.environ)
        report = made.run(driver, items(["i0", "i1", "i2", "i3"]))
        billed = server.billed
    assert report["shipped"] == ["i0", "i1", "i2", "i3"]
    assert built(report)["i1"]["repairs"] == 1
    assert report["tokens"]["total"] == driver.get_tokens_spent() == billed > 0
    assert report["tokens"]["totalIn"] + report["tokens"]["totalOut"] == billed
    assert report["budget"]["wave"]["tokens"]["spent"] == billed
    assert in_ledger(made.state) == in_events(made.state)["tokens"] == billed
    phases = {row["phase"] for row in fleet_ledger.parse_ledger_rows(made.state)}
    assert phases == {"build", "repair"}
    assert (report["tokens"]["unmetered"], report["tokens"]["ledgered"]) == (0, True)
    _hook_adds_nothing(folder, made, report)


def _hook_adds_nothing(folder: Path, made: Scene, report: Mapping[str, Any]) -> None:
    path = folder / "short.json"
    path.write_text(json.dumps(result_to_report(report)))
    cycle = folder / "cycle.json"
    cycle.write_text(json.dumps({"phase": "dispatch", "wave": report}))
    before = in_ledger(made.state)
    flags = ["--wave", "7", "--timestamp", "2026-01-02T03:04:05Z", "--state-dir", str(made.state)]
    for file in (path, cycle):
        assert wave_ledger_hook.main(["--report-file", str(file), *flags]) == 0
    assert in_ledger(made.state) == before


@pytest.mark.more
@beside
def test_an_answer_without_a_use_leaves_no_book_at_zero(folder: Path) -> None:
    made = scene(folder, max_wave_tokens=1000, default_dispatch_tokens=300)
    with RawServer([says(patch({"i0.txt": "good\n"}), usage=None)]) as server:
        driver = OpenAICompatibleDriver(server.url, "m", environ=made.environ)
        report = made.run(driver, items(["i0"]))
    assert report["tokens"]["unmetered"] == 1
    assert report["ceiling"]["spent"] == in_ledger(made.state) == 300


@pytest.mark.more
@beside
def test_who_names_no_model_is_told_which_setting_names_one(folder: Path) -> None:
    dear = Limits(wave=Ceilings(usd=5_000_000))
    with EventStore(folder / STATE_DB_FILENAME) as store:
        books = Budget(store, dear, "me", state_dir=folder)
        with pytest.raises(OverBudgetError, match=r"set \[backend\] model"):
            books.reserve(Purpose("w", "i", 1, "build", "command", ""))


@pytest.mark.more
@beside
def test_a_use_is_charged_once(folder: Path) -> None:
    with EventStore(folder / STATE_DB_FILENAME) as store:
        books = Budget(store, Limits(default_tokens=100), "me", state_dir=folder)
        held = books.reserve(Purpose("w", "i", 1, "build", "b", "m"))
        assert isinstance(held, Reserved)
        for tokens in (30, 90):
            books.settle(held, Used(tokens=tokens))
        books.cancel(held)
        assert books.totals("w")[0] == Total(tokens=30, dispatches=1, unpriced=1)
        assert in_ledger(folder) == in_events(folder)["tokens"] == 30
        again = books.reserve(Purpose("w", "i", 1, "build", "b", "m"))
        assert isinstance(again, Reserved)
        books.settle(again, Used(tokens=12))  # an item that is built anew under its old number
        assert in_ledger(folder) == in_events(folder)["tokens"] == 42


@pytest.mark.more
@beside
def test_a_dispatch_that_was_not_begun_costs_nothing(folder: Path) -> None:
    made = scene(folder, max_wave_dispatches=3)
    (made.state / "journal").mkdir(parents=True)
    (made.state / "journal" / "i0.json").mkdir()  # where its start is to be noted
    report, begun = play(made, Usage(1, 1), SLUGS[:1])
    assert (begun, verdicts(report)) == (0, {"i0": "undecided"})
    wave = report["budget"]["wave"]
    assert (wave["dispatches"]["spent"], wave["tokens"]["reserved"]) == (0, 0)


@pytest.mark.more
@beside
def test_a_daily_ceiling_that_is_reached_lets_no_cycle_begin(folder: Path) -> None:
    made = scene(folder, max_daily_usd=0.01)
    with (folder / "tidegate.toml").open("a") as config:
        config.write("[prices]\nscripted-worker = { input = 5, output = 10 }\n")
    play(made, Usage(2_000, 0), ["i0"])
    report, begun = play(made, Usage(2_000, 0), ["i1"], wave_id="two")
    assert (begun, report["exit_code"], report["ceiling"]["period"]) == (0, 3, "daily")
