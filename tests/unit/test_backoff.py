"""How long to stay away after a fault, as a table."""

from __future__ import annotations

import pytest

from driver.backend_api.throttle import backoff_s, stay_away_s


@pytest.mark.parametrize(
    ("strikes", "chance", "seconds"),
    [(1, 0.0, 0.5), (1, 1.0, 1.0), (2, 1.0, 2.0), (5, 1.0, 16.0), (5, 0.0, 8.0), (0, 1.0, 1.0)],
)
def test_a_back_off_doubles_and_half_of_it_is_chance(
    strikes: int, chance: float, seconds: float
) -> None:
    assert backoff_s(strikes, chance) == seconds


@pytest.mark.parametrize("strikes", [8, 40, 10_000])
def test_a_back_off_never_passes_its_cap(strikes: int) -> None:
    assert backoff_s(strikes, 1.0, 120.0) == 120.0


@pytest.mark.parametrize(
    ("strikes", "asked", "chance", "seconds"),
    [
        (1, None, 1.0, 1.0),
        (1, 2.0, 0.0, 2.0),
        (1, 2.0, 1.0, 2.2),
        (3, 2.0, 1.0, 2.2),
        (3, 0.0, 1.0, 4.0),
        (1, 0.0, 1.0, 1.0),
        (1, -5.0, 1.0, 1.0),
        (1, 3600.0, 0.5, 120.0),
    ],
)
def test_what_a_provider_asks_for_is_what_it_gets_up_to_the_cap(
    strikes: int, asked: float | None, chance: float, seconds: float
) -> None:
    assert stay_away_s(strikes, asked, chance, 120.0) == pytest.approx(seconds)
