"""What people are told of money: how to go on after a ceiling, and what was not written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from driver.backend_api.driver import Usage, WorkerResult
from driver.limits.admission import GateClosedError, check_halt
from driver.reports.summary_lines import summary_lines
from tests.support.reviewers import Reviewer
from tests.support.waves import Agent, Scene, built, item, verdicts
from tools import halt
from tools.budget import budget
from tools.budget.ceilings import Limits

OFF = '[review]\nmode = "off"\n[limits]\nmax_workers = 1\n'


def used(usage: Usage) -> Any:
    def act(agent: Agent) -> WorkerResult:
        name = "a.txt" if "a.txt" in agent.prompt else "b.txt"
        agent.write({name: "good\n"})
        return WorkerResult("", ok=True, usage=usage)

    return act


def play(made: Scene, usage: Usage) -> dict[str, Any]:
    items = [item(slug, f"{slug}.txt", f"grep -qx good {slug}.txt") for slug in "ab"]
    report, _ = made.play({"a": used(usage), "b": used(usage)}, items)
    return report


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ("max_wave_tokens = 100", ", and the halt switch is set; to go on: python"),
        (
            "max_wave_dispatches = 1",
            "; to go on: run again as a new wave, or raise [limits] max_wave_dispatches",
        ),
        (
            "max_daily_dispatches = 1",
            "; to go on: run again on the next UTC day, or raise [limits] max_daily_dispatches",
        ),
    ],
)
def test_a_ceiling_says_how_to_go_on(tmp_path: Path, limits: str, told: str) -> None:
    made = Scene(tmp_path, {"README.md": "x\n"}, config=f"{OFF}{limits}\n")
    report = play(made, Usage(100, 1))
    assert told in report["error"]
    assert halt.is_halted(made.state) == ("tokens" in limits)
    assert sorted(record["verdict"] for record in report["built"]) == ["over_budget", "verified"]
    assert "to go on" not in " ".join(line for line in summary_lines(report))


def test_a_cost_that_nobody_can_have_had_breaks_no_later_run(tmp_path: Path) -> None:
    made = Scene(tmp_path, {"README.md": "x\n"}, config=OFF)
    first = play(made, Usage(1, 1, 999_999_999_999.0))
    assert first["budget"]["day"]["usd"]["spent"] == 0
    assert first["tokens"]["unpriced"] == 2
    total = budget.read_totals(made.state, "")[1]
    assert (total.dispatches, total.unpriced, total.usd) == (2, 2, 0)
    assert budget.reached_before(made.state, Limits()) is None


@pytest.mark.more
def test_a_ledger_that_cannot_be_written_is_told_at_the_end(tmp_path: Path) -> None:
    made = Scene(tmp_path, {"README.md": "x\n"}, config=OFF)
    ledger = made.state / "ledger" / "OUTCOMES-LEDGER.md"
    ledger.mkdir(parents=True)
    report = play(made, Usage(1, 1))
    assert {record["verdict"] for record in built(report).values()} == {"verified"}
    [line] = [
        line for line in summary_lines(report) if "a record of this run is incomplete" in line
    ]
    assert str(ledger) in line
    assert "move the file away" in line


def test_a_state_folder_that_leads_to_itself_halts_in_a_sentence(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.symlink_to(state)
    with pytest.raises(GateClosedError, match=r"^halted.*; to go on: python"):
        check_halt(state)


@pytest.mark.more
@pytest.mark.parametrize("begun", [0, 1])
def test_nothing_is_built_that_a_reviewer_without_a_price_would_have_to_read(
    tmp_path: Path, begun: int
) -> None:
    reviewer = Reviewer(tmp_path, "say()")
    config = f"{reviewer.config()}[prices]\ncoder = {{input = 1, output = 1}}\n"
    if begun:
        config += "critic = {input = 1, output = 1}\n"
    made = Scene(tmp_path, {"README.md": "x\n"}, config=f"{config}[limits]\nmax_wave_usd = 9\n")
    task = item("a", "a.txt", "grep -qx good a.txt", model="coder", requireAdversarialReview=True)
    report, driver = made.play({"a": used(Usage(1, 1))}, [task])
    assert (len(driver.requests), len(reviewer.shown())) == (begun, begun)
    assert verdicts(report) == {"a": "verified" if begun else "over_budget"}
    assert ("the price of critic is unknown" in str(report["error"])) is not bool(begun)
