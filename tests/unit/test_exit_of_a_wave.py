"""What a program ends with, by what became of a wave's items."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.backend_api.driver import DriverCapabilities
from driver.domain.results import ItemOutcome, Verdict
from driver.domain.shipment import Shipment
from driver.domain.tiers import policy_for
from driver.domain.work_item import check_item
from driver.run_state.plan import Home, Planned
from driver.wave.report import ItemReport, WaveReport
from state_store.documents.errors import ExitCode

DONE, STOPPED, LEFT = ExitCode.DONE, ExitCode.STOPPED_BY_POLICY, ExitCode.NOT_ALL_SHIPPED


def _ended(verdict: Verdict, commit: str | None = None, *, publish: bool = True) -> ItemReport:
    item, problems = check_item(
        {"id": "a", "slug": "a", "prompt": "p", "testCmd": "pytest", "ownsFiles": ["a.py"]}
    )
    assert item is not None, problems
    planned = Planned(item, policy_for(DriverCapabilities("x"), item), Home(None, Path(), "."), ())
    return ItemReport(planned, ItemOutcome("a", verdict, publish=publish), commit)


SHIPPED = _ended(Verdict.VERIFIED, "c1")
PROVEN = _ended(Verdict.VERIFIED)
NOT_TO_SHIP = _ended(Verdict.VERIFIED, publish=False)
RED = _ended(Verdict.FAILED)
LEASED = _ended(Verdict.LEASED_ELSEWHERE)
WITHDRAWN = _ended(Verdict.WITHDRAWN)


@pytest.mark.parametrize(
    ("items", "ships", "code"),
    [
        ((SHIPPED, NOT_TO_SHIP), True, DONE),
        ((SHIPPED, PROVEN), True, LEFT),
        ((PROVEN,), False, DONE),
        ((SHIPPED, LEASED, WITHDRAWN), True, STOPPED),
        ((SHIPPED, WITHDRAWN, RED), True, LEFT),
        ((PROVEN, WITHDRAWN), True, LEFT),
        ((NOT_TO_SHIP, LEASED), True, STOPPED),
        ((PROVEN, LEASED), False, STOPPED),
    ],
)
def test_a_wave_ends_by_what_is_left_of_what_was_asked(
    items: tuple[ItemReport, ...], ships: bool, code: ExitCode
) -> None:
    shipments = (Shipment("r"),) if ships else None
    assert WaveReport("w", items, shipments).exit_code is code
