"""Things that look like secrets, put together when they are asked for: no file holds one."""

from __future__ import annotations

import random

_LETTERS = "abcdefghijkmnpqrstuvwyzABCDEFGHJKLMNPQRSTUVWYZ"
_DIGITS = "123456789"


def noise(length: int, seed: int = 1, chars: str = _LETTERS + _DIGITS) -> str:
    """Characters that follow no rule, the same ones each time, a digit among them."""
    rng = random.Random(seed)
    return "".join(rng.choice(chars) for _ in range(length - 1)) + rng.choice(_DIGITS)


def github() -> str:
    return "gh" + "p_" + noise(36)


def aws_key() -> str:
    return "AK" + "IA" + noise(16, chars="ABCDEFGHJKLMNPQRSTUVWYZ" + _DIGITS)


def pem(kind: str = "RSA ", body: int = 64) -> str:
    dashes = "-" * 5
    label = kind + "PRIVATE " + "KEY"
    lines = "\n".join(noise(body, seed) for seed in (1, 2))
    return f"{dashes}BEGIN {label}{dashes}\n{lines}\n{dashes}END {label}{dashes}\n"
