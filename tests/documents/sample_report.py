"""The report of a wave that never was, for the picture of the README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from driver.domain.refusals import remedy_of

BEGIN = datetime(2026, 11, 29, 2, 21, 48, tzinfo=UTC)
WALLS = {
    **{role: {"level": "bwrap", "network": "host"} for role in ("agent", "setup", "hook")},
    **{"test": {"level": "bwrap", "network": "loopback"}, "home": "private", "passedOver": []},
}
Phase = tuple[str, str, float, float]  # name, role, begin and end in minutes of the wave


def sample_report() -> dict[str, Any]:
    """Eight items: six shipped, one refused, one failed."""
    built = list(_records())
    used = [record["usage"] for record in built]
    return {
        "timestamp": _at(27.4),
        "wave": {
            "wave_id": "6f0c12ab",
            "built": built,
            "shipped": [record["slug"] for record in built if record["verified"]],
            "branch": "wave/2026-11-29-6f0c12ab",
            "repairsUsed": sum(record["repairs"] for record in built),
            "tokens": {
                "total": sum(use["totalTokens"] for use in used),
                "costUsd": round(sum(use["costUsd"] for use in used), 2),
            },
            "sandbox": WALLS,
            "budget": {"day": {"usd": {"spent": 5.94, "ceiling": 40.0}}},
        },
    }


def two_items() -> dict[str, Any]:
    """The report whose last lines the README shows: one item shipped, one failed."""
    folder = "/home/me/shop/state/runs/6f0c12ab"
    cart = _record(
        "cart",
        "Totals of the cart",
        [("build", "agent", 0.1, 1.9), ("gate", "gate", 1.9, 2.1), ("repair", "repair", 2.1, 4.2)],
        tests=((1, 1), (1, 1)),
        use=(240_000, 0.84),
        diff=(1, 20, 4),
        repairs=1,
        verdict="failed",
        error="test failed with exit 1",
        details=f"{folder}/cart/report.json",
        savedWork=f"{folder}/cart/work.patch",
        attempts=[{"test": {"kind": "red", "outputFile": f"{folder}/cart/test-2.out"}}],
    )
    prices = _record(
        "round-prices",
        "Round prices to cents",
        [("build", "agent", 0.1, 1.8), ("gate", "gate", 1.8, 2.1)],
        tests=((1, 1), (1, 0)),
        use=(120_000, 0.42),
        diff=(1, 6, 3),
    )
    shipment = {
        **{"repo": "/home/me/shop", "branch": "wave/2026-11-29-6f0c12ab", "pushed": True},
        **{"sha": "5454c6e570f6", "onto": "81e9a90290e0"},
    }
    return {
        "timestamp": _at(4.5),
        "wave": {
            **{"wave_id": "6f0c12ab", "built": [cart, prices], "shipped": ["round-prices"]},
            **{"shipped_repos": [shipment], "tokens": {"total": 360_000, "costUsd": 1.26}},
            "sandbox": WALLS,
        },
    }


def _records() -> Sequence[dict[str, Any]]:
    build, repair, gate, review = "agent", "repair", "gate", "verdict"
    return (
        _record(
            "csv-export",
            "Quote fields of the CSV export that have line breaks",
            [
                *(("build", build, 0.2, 9.4), ("gate", gate, 9.4, 11.2)),
                *(("repair", repair, 11.2, 17.9), ("gate", gate, 17.9, 19.1)),
                ("review", review, 19.1, 21.0),
            ],
            tests=((14, 2), (16, 0)),
            use=(388_000, 1.61),
            diff=(4, 231, 58),
            repairs=1,
            grade="B",
            selfWrittenTests=["tests/test_export.py"],
        ),
        _record(
            "round-prices",
            "Round prices to cents",
            [("build", build, 0.1, 5.6), ("gate", gate, 5.6, 6.9)],
            tests=((9, 1), (9, 0)),
            use=(96_000, 0.31),
            diff=(1, 6, 3),
        ),
        _record(
            "login-limit",
            "Block an address after ten wrong passwords",
            [("build", build, 0.2, 8.8), ("gate", gate, 8.8, 10.1), ("review", review, 10.1, 12.0)],
            tests=((22, 3), (25, 0)),
            use=(171_000, 0.66),
            diff=(3, 88, 12),
        ),
        _record(
            "search-index",
            "Update the index instead of writing it anew",
            [("build", build, 0.3, 14.2), ("gate", gate, 14.2, 17.8)],
            tests=((31, 2), (31, 0)),
            use=(263_000, 1.02),
            diff=(2, 140, 77),
        ),
        _record(
            "mail-retries",
            "Wait longer before each retry of a mail",
            [("build", build, 5.7, 12.6), ("gate", gate, 12.6, 13.4)],
            tests=((7, 1), (8, 0)),
            use=(109_000, 0.40),
            diff=(2, 41, 9),
        ),
        _record(
            "slow-report",
            "Keep the totals in one pass over the rows",
            [("build", build, 10.2, 19.9), ("gate", gate, 19.9, 22.3)],
            tests=((12, 1), (12, 0)),
            use=(204_000, 0.79),
            diff=(1, 52, 60),
        ),
        _record(
            "dark-theme",
            "Add a dark theme to the settings page",
            [("build", build, 12.7, 24.6)],
            use=(188_000, 0.70),
            diff=(6, 310, 44),
            verdict="refused",
            error="changed outside its files: app/main.css",
            remedy=remedy_of("changed outside its files"),
        ),
        _record(
            "old-urls",
            "Redirect the addresses of the old shop",
            [
                *(("build", build, 14.0, 20.3), ("gate", gate, 20.3, 21.1)),
                *(("repair", repair, 21.1, 26.2), ("gate", gate, 26.2, 27.1)),
            ],
            tests=((18, 4), (18, 1)),
            use=(121_000, 0.45),
            diff=(2, 64, 8),
            repairs=1,
            verdict="failed",
            error="test failed with exit 1",
            remedy=remedy_of("test failed with exit 1"),
        ),
    )


def _record(
    slug: str,
    title: str,
    phases: Sequence[Phase],
    *,
    use: tuple[int, float],
    diff: tuple[int, int, int],
    tests: tuple[tuple[int, int], tuple[int, int]] | None = None,
    repairs: int = 0,
    verdict: str = "verified",
    **more: Any,
) -> dict[str, Any]:
    before, after = tests or (None, None)
    return {
        **{"slug": slug, "title": title, "dispatched": True, "repairs": repairs},
        **{"verdict": verdict, "verified": verdict == "verified", "error": None, "remedy": None},
        **{"grade": "A" if verdict == "verified" else None, "backend": "claude"},
        "usage": {"totalTokens": use[0], "costUsd": use[1]},
        "diff": dict(zip(("files", "added", "removed"), diff, strict=True)),
        "tests": {"before": _counts(before), "after": _counts(after)},
        "startedAt": _at(phases[0][2]),
        "durationS": round((phases[-1][3] - phases[0][2]) * 60, 1),
        "phases": [_phase(*phase) for phase in phases],
        "attempts": [],
        **more,
    }


def _counts(counted: tuple[int, int] | None) -> Mapping[str, Any] | None:
    if counted is None:
        return None
    ran, failed = counted
    return {"kind": "red" if failed else "green", "ran": ran, "failed": failed, "skipped": 0}


def _phase(name: str, role: str, begin: float, end: float) -> dict[str, Any]:
    return {
        **{"phase": name, "role": role, "status": "completed"},
        **{"startedAt": _at(begin), "durationMs": round((end - begin) * 60_000)},
    }


def _at(minutes: float) -> str:
    return (BEGIN + timedelta(minutes=minutes)).isoformat()
