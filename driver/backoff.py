"""How long to stay away from a provider after a fault. Pure arithmetic; who waits is elsewhere."""

from __future__ import annotations

FIRST_S = 1.0
DEFAULT_CAP_S = 120.0
_SPREAD = 0.1  # of what a provider asked for, so that runs it turned away do not return together


def backoff_s(strikes: int, chance: float, cap_s: float = DEFAULT_CAP_S) -> float:
    """Seconds after the `strikes`-th fault in a row (from 1): doubled each time, half of it chance.

    `chance` is a random number in 0..1.
    """
    doublings = min(max(strikes, 1) - 1, 32)
    return float(min(cap_s, FIRST_S * 2**doublings) * (0.5 + 0.5 * chance))


def stay_away_s(
    strikes: int, retry_after_s: float | None, chance: float, cap_s: float = DEFAULT_CAP_S
) -> float:
    """What the provider asked for, however often, else the back-off; never over `cap_s`."""
    if retry_after_s is None or retry_after_s <= 0:
        return backoff_s(strikes, chance, cap_s)
    return min(cap_s, retry_after_s * (1 + _SPREAD * chance))
