"""How long the branch is not there yet after the last verdict, against the longest single test run.

`python -m pytest -m bench -s tests/bench/bench_tail.py`

16 items add a module each to a copy of networkx, whose own tests of centrality are the command of
`[verify] integration` and the longest run. The agents end one after the other, as agents do.
TIDEGATE_BENCH_STEP_S sets the seconds between two of them, and TIDEGATE_BENCH_ROUNDS the rounds.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from driver.backends.command import CommandDriver
from driver.run_state.plan import WaveOptions
from driver.terminal.progress import Progress
from driver.wave_loop import run_wave
from tests.bench.arena import IDENTITY, Clock, load
from tools.settings import load as settings

pytestmark = [pytest.mark.bench, pytest.mark.skipif(os.name == "nt", reason="needs sh")]
ITEMS, ROUNDS = 16, int(os.environ.get("TIDEGATE_BENCH_ROUNDS", "3"))
STEP_S = float(os.environ.get("TIDEGATE_BENCH_STEP_S", "6"))
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
TEST = """import networkx as nx
from networkx.extra_{n} import centre


def test_centre():
    assert centre(nx.star_graph(60)) == 0
"""
AGENT = """
file="networkx/extra_${TIDEGATE_ITEM#x}.py"
sleep "$(expr "${TIDEGATE_ITEM#x}" + 0 | awk -v step="$1" '{ print $1 * step }')"
printf 'import networkx as nx\\n\\n\\ndef centre(graph):\\n' > "$file"
printf '    found = nx.betweenness_centrality(graph)\\n    return max(found, key=found.get)\\n' \\
    >> "$file"
"""


def _repository(folder: Path) -> Path:
    found = importlib.util.find_spec("networkx")
    if found is None or found.origin is None:
        pytest.skip("networkx is not installed")
    repo = folder / "repo"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(found.origin).parent, repo / "networkx", ignore=ignored)
    shutil.copy(Path(found.origin).parent / "conftest.py", repo / "networkx")
    for number in range(ITEMS):
        (repo / f"networkx/tests/test_extra_{number:02}.py").write_text(
            TEST.format(n=f"{number:02}")
        )
    (folder / "agent.sh").write_text(AGENT)
    for command in (
        ("init", "-q", "-b", "main", "."),
        ("add", "-A"),
        (*IDENTITY, "commit", "-q", "-m", "base"),
    ):
        subprocess.run(["git", *command], cwd=repo, check=True)
    return repo


def _tail(folder: Path, repo: Path, name: str) -> tuple[float, float, float, int]:
    """The seconds from the last verdict to the branch, those of the longest run, those of all runs
    on the last tree divided by the slots for tests, and the number of all runs."""
    config = folder / "tidegate.toml"
    integration = [*PYTEST, "networkx/algorithms/centrality"]
    config.write_text(f"[review]\nmode = 'off'\n[verify]\nintegration = [{integration!r}]\n")
    flags = {"limits.max_workers": ITEMS, "state_dir": str(folder / "state")}
    chosen = settings.load(project=repo, config=config, flags=flags)
    clock, branch_at, over = Clock(), list[float](), threading.Event()
    before = {*(repo / ".git/refs/heads/wave").rglob("*")}

    def watch() -> None:
        while not over.wait(0.01) and not branch_at:
            if any(p.is_file() for p in {*(repo / ".git/refs/heads/wave").rglob("*")} - before):
                branch_at.append(time.monotonic() - clock.began)

    watcher = threading.Thread(target=watch)
    watcher.start()
    report = run_wave(
        CommandDriver(
            ["sh", str(folder / "agent.sh"), str(STEP_S)], tier=1, environ=chosen.environ
        ),
        {"items": [_item(number, name) for number in range(ITEMS)]},
        state_dir=folder / "state",
        git={"expectTopLevel": str(repo), "mode": "branch"},
        options=WaveOptions(settings=chosen, repo=repo, progress=Progress(clock)),
    )
    over.set()
    watcher.join()
    assert report["exit_code"] == 0, (report["error"], report["abort_reason"])
    last = max(at for at, line in clock.lines if line.endswith(": verified"))
    runs = _runs(report)
    together = [one for s in report["shipped_repos"] for one in s["integration"]["receipts"]]
    tip = next(one["tree"] for one in together if "centrality" in one["command"])
    on_tip = sum(one["durationS"] for one in together if one["tree"] == tip)
    slots = os.cpu_count() or 1
    return branch_at[0] - last, max(one["durationS"] for one in runs), on_tip / slots, len(runs)


def _item(number: int, name: str) -> dict[str, Any]:
    slug = f"x{number:02}"
    return {
        "slug": slug,
        "prompt": f"Add extra_{number:02} ({name}).",
        "ownsFiles": [f"networkx/extra_{number:02}.py"],
        "testCmd": [*PYTEST, f"networkx/tests/test_extra_{number:02}.py"],
    }


def _runs(report: dict[str, Any]) -> list[dict[str, Any]]:
    attempts = [attempt for item in report["built"] for attempt in item["attempts"]]
    runs = [one for a in attempts for one in a["evidence"]["receipts"] if not one["cached"]]
    return runs + [one for s in report["shipped_repos"] for one in s["integration"]["receipts"]]


def test_the_tail_after_the_last_verdict(tmp_path: Path) -> None:
    repo = _repository(tmp_path)
    found = [_tail(tmp_path, repo, f"round {number}") for number in range(ROUNDS)]
    ratios = [tail / longest for tail, longest, *_ in found]
    least = [on_tip / longest for _, longest, on_tip, _ in found]
    print(
        f"\n{ITEMS} items on networkx, an agent every {STEP_S:g} s, {found[-1][-1]} test runs:"
        f" {median(ratios):.2f} x the longest run after the last verdict (goal 1.3), rounds"
        f" {' '.join(f'{tail:.1f}/{longest:.1f}' for tail, longest, *_ in found)};"
        f" the runs on the last tree alone keep every slot at work for {median(least):.2f} x;"
        f" {load()}"
    )
