"""Durations, tokens and money in few characters. Pure."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """`7 s`, `2:05`, `1:02:03`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d}"
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def tokens(number: float) -> str:
    """`950`, `12k`, `1.2M`."""
    if number < 1000:
        return str(int(number))
    if number < 999_500:
        return f"{number / 1000:.0f}k"
    return f"{number / 1e6:.1f}M" if number < 99.95e6 else f"{number / 1e6:.0f}M"


def usd(amount: float) -> str:
    """`$0`, `$0.04`, `$12.30`, `$1234`."""
    if amount <= 0:
        return "$0"
    if amount < 0.005:
        return "<$0.01"
    return f"${amount:.2f}" if amount < 1000 else f"${amount:.0f}"


def known_cost(amount: float, *, is_least: bool) -> str:
    """`$0.04`, or `at least $0.04` and `cost unknown` if a part of it is unknown, which is never
    zero."""
    if is_least and not amount:
        return "cost unknown"
    return f"at least {usd(amount)}" if is_least else usd(amount)
