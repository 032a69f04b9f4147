"""Reports of waves made by hand, with items of all outcomes, and their outputs in a folder."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

EVIL = (
    "\x1b[31m\x1b]8;;http://x.example\x07</pre><script>alert(1)</script>"
    "<img src=http://x.example/a.png onerror=alert(1)>\"' onload='x'\u202e\u200b\ud800\x00\n"
    "::error::forged ##[error]x ![a](http://x.example) @everyone `code` | ]]> &amp; \uffff"
)
START = datetime(2026, 11, 30, 2, 0, tzinfo=UTC)
WORDS = ("round", "export", "cache", "parser", "retry", "login", "dates", "index", "colour", "rate")
OUTCOMES = (
    *[("verified", None, None)] * 7,
    ("failed", "test failed with exit 1", "read the output file of the test"),
    ("refused", "changed outside its files: src/other.py", "list the file in `ownsFiles`"),
    ("undecided", "the tests import a module that is not installed", "install the module"),
)


def receipt(purpose: str, kind: str, ran: int, failed: int, output: str) -> dict[str, Any]:
    """A receipt of a test run."""
    return {
        "purpose": purpose,
        "kind": kind,
        "command": "python -m pytest -q tests/test_value.py",
        "exit": int(kind != "green"),
        "durationS": 3.2,
        "tree": "5c0abb0f41e6bf56186d15458cea25e94f9c5281",
        "outputFile": output,
        "counts": {"runner": "pytest", "ran": ran, "failed": failed, "skipped": 0},
        "failing": ["tests/test_value.py::test_it"] if failed else [],
    }


def phase(name: str, role: str, start: datetime, seconds: float) -> dict[str, Any]:
    """A receipt of a phase."""
    return {
        "phase": name,
        "kind": "agent",
        "role": role,
        "status": "completed",
        "startedAt": start.isoformat(),
        "durationMs": int(seconds * 1_000),
        "engine": {"name": "claude", "model": "sonnet"} if role in {"agent", "repair"} else None,
        "recalled": False,
    }


def item(number: int, chance: random.Random, **more: Any) -> dict[str, Any]:
    """The whole record of an item; its outcome follows from its number."""
    verdict, error, remedy = OUTCOMES[(number * 7) % len(OUTCOMES)]
    slug = f"{'-'.join(chance.sample(WORDS, 2))}-{number}"
    good = verdict == "verified"
    repairs = chance.choice((0, 0, 0, 1, 2))
    start = START + timedelta(seconds=chance.randrange(1 + number * 20))
    phases = []
    for turn in range(repairs + 1):
        for name, role in (("implement", "repair" if turn else "agent"), ("gate", "gate")):
            seconds = chance.uniform(20, 240)
            phases.append(phase(name, role, start, seconds))
            start += timedelta(seconds=seconds)
    review = {
        "round": 1,
        "verdict": "approved" if good else "changes_requested",
        "summary": "Read all of the change; the edge cases are covered.",
        "findings": [
            {"severity": "minor", "file": "src/a.py", "line": 12, "why": "name says too little"}
        ],
    }
    phases.insert(2, phase("review", "verdict", start, 30))
    output = f"/elsewhere/{slug}/test-1.out"
    runs = [receipt("baseline", "red", 12, 3, output)]
    runs.append(receipt("proof", "green" if good else "red", 12, 0 if good else 2, output))
    known = chance.random() < 0.9
    attempt = {
        "number": 1,
        "phase": "build",
        "verdict": verdict,
        "test": {**runs[-1], "exit": runs[-1]["exit"]},
        "evidence": {"receipts": runs},
    }
    usage = {"totalTokens": chance.randrange(20_000, 900_000), "costUsd": chance.uniform(0.1, 4)}
    return {
        "slug": slug,
        "id": f"T-{number}",
        "title": f"{slug.replace('-', ' ').capitalize()} for values below zero",
        "dispatched": True,
        "verified": good,
        "verdict": verdict,
        "grade": chance.choice("AAAB") if good else None,
        "error": error,
        "remedy": remedy,
        "ship_error": None,
        "ship_warning": None,
        "testExit": runs[-1]["exit"],
        "repairs": repairs,
        "filesWritten": ["src/a.py", "tests/test_a.py"],
        "selfWrittenTests": ["tests/test_a.py"] if number % 6 == 0 else [],
        "afterApproval": [],
        "model": "sonnet",
        "adversarial_review": "approved" if good else "changes_requested",
        "reviews": [review] if number % 3 == 1 else [],
        "phases": phases,
        "attempts": [attempt],
        "together": [],
        "flaky": False,
        "usage": usage if known else {"totalTokens": None, "costUsd": None},
        "tree": runs[-1]["tree"],
        "commit": f"{number:040x}" if good else None,
        "savedWork": None if good else f"/elsewhere/{slug}/work.patch",
        "diff": {"files": 2, "added": chance.randrange(400), "removed": chance.randrange(60)},
        **more,
    }


def report(count: int, seed: int = 1, **more: Any) -> dict[str, Any]:
    """The report of a cycle with `count` items."""
    chance = random.Random(seed)
    built = [item(number, chance) for number in range(count)]
    costs = [one["usage"]["costUsd"] for one in built]
    known = [cost for cost in costs if cost is not None]
    wave = {
        "wave_id": "6f0c12ab-7612-4b71-ac38-2efcf7b51b85",
        "aborted": False,
        "error": None,
        "built": built,
        "shipped": [one["slug"] for one in built if one["verified"]],
        "shipped_repos": [
            {
                "repo": "/home/me/shop",
                "branch": "wave/2026-11-30-6f0c12ab",
                "sha": "81e9a90290e0" + "0" * 28,
                "onto": "e2a53c1e2bdd" + "0" * 28,
                "pushed": True,
                "integration": {"runs": 5, "receipts": []},
            }
        ],
        "branch": "wave/2026-11-30-6f0c12ab",
        "base": [{"repo": "/home/me/shop", "commit": "e2a53c1e2bdd", "branch": "main"}],
        "read_first": [],
        "repairsUsed": sum(one["repairs"] for one in built),
        "tokens": {
            "total": sum(one["usage"]["totalTokens"] or 0 for one in built),
            "costUsd": sum(known) if known else None,
            "unmetered": len(costs) - len(known),
            "unpriced": len(costs) - len(known),
        },
        **more,
    }
    left = {"id": "T-900", "reason": "missing_or_empty_testCmd", "detail": "testCmd is missing"}
    return {
        "phase": "dispatch",
        "wave_id": wave["wave_id"],
        "items_shipped": [],
        "items_skipped": [left],
        "timestamp": (START + timedelta(minutes=30)).isoformat(),
        "exit_code": 1,
        "wave": wave,
    }


def with_outputs(made: dict[str, Any], folder: Path, lines: int = 60) -> Path:
    """Writes an output of each item's tests into the wave's folder."""
    for record in made["wave"]["built"]:
        own = folder / record["slug"]
        own.mkdir(parents=True)
        text = "".join(f"tests/test_value.py::test_{n} PASSED [{n}%]\n" for n in range(lines))
        (own / "test-1.out").write_text(f"{text}== 12 passed ==\n", encoding="utf-8")
    return folder


def patch(lines: int) -> str:
    """The text of a change."""
    head = "diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1,9 +1,9 @@\n"
    body = "".join(
        f" def f{n}(x):\n-    return x / {n}\n+    return round(x / {n + 1}, 2)\n"
        for n in range(lines)
    )
    return head + body


def evil_report(count: int = 9) -> dict[str, Any]:
    """A wave in which everything that others write is hostile."""
    made = report(count)
    for number, record in enumerate(made["wave"]["built"]):
        shipped = record["slug"] in made["wave"]["shipped"]
        slug = f"{number}{EVIL}"
        made["wave"]["shipped"] += [slug] if shipped else []
        text = {"title": EVIL, "error": record["error"] and EVIL, "model": EVIL, "backend": EVIL}
        record.update(
            slug=slug, filesWritten=[EVIL], selfWrittenTests=[EVIL], savedWork=EVIL, **text
        )
        for review in record["reviews"]:
            review.update(summary=EVIL, verdict=EVIL)
            review["findings"] = [{"severity": EVIL, "file": EVIL, "line": 3, "why": EVIL}]
        for receipt in record["attempts"][0]["evidence"]["receipts"]:
            receipt.update(command=EVIL, purpose=EVIL)
        for phase in record["phases"]:
            phase.update(phase=EVIL, status=EVIL)
    made["wave"].update(error=EVIL, branch=EVIL, wave_id=EVIL)
    made["items_skipped"][0].update(id=EVIL, detail=EVIL)
    return made
