"""The reports that the programs print and keep fit the schema of a report."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from driver.reports.documents import join
from tests.documents.schemas import FOLDER
from tests.documents.shop import DEMO, Shop
from tests.support.json_schema import Problems, checkers

SCHEMA = json.loads((FOLDER / "report.json").read_text("utf-8"))
problems = checkers()
WAVE = "tidegate wave --manifest beside/wave.json --git --json"


def record_schema() -> dict[str, Any]:
    return {**SCHEMA["$defs"]["record"], "$defs": SCHEMA["$defs"]}


@pytest.mark.more
def test_the_report_of_a_cycle_fits(shop: Shop, problems: Problems) -> None:
    assert shop.report["schema"]
    assert problems(shop.report, SCHEMA) == []
    folder = shop.repo.path / "state" / "runs" / shop.wave
    kept = json.loads((folder / "report.json").read_text("utf-8"))
    assert kept["$schema"] == SCHEMA["$id"]
    assert problems(kept, SCHEMA) == []
    assert problems(join(kept), SCHEMA) == []
    for record in kept["wave"]["built"]:
        details = json.loads((folder / record["slug"] / "report.json").read_text("utf-8"))
        assert problems(details, record_schema()) == []
        assert details["attempts"][0]["evidence"]["receipts"]


@pytest.mark.more
@pytest.mark.parametrize(
    "command",
    [
        WAVE,
        "tidegate wave --manifest beside/wave.json --dry-run --json",
        "tidegate wave --manifest beside/gone.json --json",
        "tidegate run --json",
        "tidegate run --execute --json",
        DEMO,
    ],
)
def test_a_report_fits(shop: Shop, problems: Problems, command: str) -> None:
    report = shop.once(command).report
    assert problems(report, SCHEMA) == []
    assert problems({"$schema": "urn:tidegate:schema:report:1", **report}, SCHEMA) == []


def wave(report: Any) -> Any:
    return report["wave"]


def record(report: Any) -> Any:
    return report["wave"]["built"][0]


def attempt(report: Any) -> Any:
    return record(report)["attempts"][-1]


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("place", "key", "value"),
    [
        (wave, "wave_id", 5),
        (wave, "tokens", "many"),
        (wave, "shipped", [5]),
        (record, "verdict", "superb"),
        (record, "verified", "yes"),
        (record, "filesWritten", "shop/price.py"),
        (attempt, "test", {"kind": "grey"}),
    ],
)
def test_a_wrong_report_does_not_fit(
    shop: Shop, problems: Problems, place: Callable[[Any], Any], key: str, value: Any
) -> None:
    wrong = copy.deepcopy(dict(shop.report))
    assert key in place(wrong)
    place(wrong)[key] = value
    assert problems(wrong, SCHEMA)
    del place(wrong)[key]
    if key in ("wave_id", "verdict"):
        assert problems(wrong, SCHEMA)


def test_a_report_lacks_no_key(shop: Shop, problems: Problems) -> None:
    for key in ("success", "exit_code", "items_selected"):
        wrong = {name: value for name, value in shop.report.items() if name not in (key, "wave")}
        assert problems(wrong, SCHEMA)
