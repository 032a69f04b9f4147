"""What the engine costs, as ratios to bare programs measured beside it in the same run.

python -m pytest -m bench -s tests/bench/bench_wave.py
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median

import pytest

from tests.bench.arena import Ran, an_arena, bare, cpu_s, engine, interleaved, jobs

pytestmark = pytest.mark.bench

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 3
SLEEP_S = 2.0


@pytest.mark.parametrize(("count", "goal"), [(8, 1.25), (64, 1.5)])
def test_a_wave_against_a_bare_pool(tmp_path: Path, count: int, goal: float) -> None:
    arena, work = an_arena(tmp_path, SLEEP_S), jobs(count)
    ran: list[Ran] = []

    def with_engine(number: int) -> float:
        ran.append(engine(arena, work, count, tmp_path / f"engine-{number}"))
        return ran[-1].seconds

    engine_run, engine_cpu = cpu_s(with_engine)
    bare_seconds: list[float] = []

    def with_none(number: int) -> float:
        bare_seconds.append(bare(arena, work, count, tmp_path / f"bare-{number}"))
        return bare_seconds[-1]

    bare_run, bare_cpu = cpu_s(with_none)
    ours, base = interleaved(ROUNDS, engine_run, bare_run)
    last = max(max(one.verified.values()) for one in ran)
    print(
        f"\n{count} items, {count} workers, agents sleep {SLEEP_S:.0f} s:"
        f" engine {ours:.2f} s, bare {base:.2f} s, ratio {ours / base:.2f} (goal {goal});"
        f" slowest item verified after {last:.2f} s;"
        f" processor time an item {1000 * median(engine_cpu) / count:.0f} ms,"
        f" bare {1000 * median(bare_cpu) / count:.0f} ms;"
        f" each round's ratio {_shares(ran, bare_seconds)}"
    )


def _shares(ran: list[Ran], bare_seconds: list[float]) -> str:
    pairs = zip(ran, bare_seconds, strict=True)
    return " ".join(f"{one.seconds / base:.2f}" for one, base in pairs)


def test_repair_costs_one_more_round_and_delays_no_other_item(tmp_path: Path) -> None:
    arena = an_arena(tmp_path, SLEEP_S)
    calm, rough = jobs(8), jobs(8, failing=4)
    ran: dict[str, list[Ran]] = {"calm": [], "rough": []}

    def with_engine(name: str) -> Callable[[int], float]:
        def run(number: int) -> float:
            work = calm if name == "calm" else rough
            ran[name].append(engine(arena, work, 8, tmp_path / f"{name}-{number}"))
            return ran[name][-1].seconds

        return run

    without, with_repair, base = interleaved(
        ROUNDS,
        with_engine("calm"),
        with_engine("rough"),
        lambda number: bare(arena, rough, 8, tmp_path / f"bare-{number}"),
    )
    all_calm = mean(at for one in ran["calm"] for at in one.verified.values())
    steady = mean(at for one in ran["rough"] for slug, at in _items(one, failing=False))
    failing = mean(at for one in ran["rough"] for slug, at in _items(one, failing=True))
    print(
        f"\n8 items, 4 red once: engine {with_repair:.2f} s, bare {base:.2f} s,"
        f" ratio {with_repair / base:.2f}; without red items {without:.2f} s"
        f"\n  verified after (mean): {all_calm:.2f} s where none is red;"
        f" {steady:.2f} s beside red ones ({steady / all_calm:.2f} x);"
        f" {failing:.2f} s for the red ones (one more round: {failing - steady:.2f} s)"
    )


def _items(ran: Ran, *, failing: bool) -> list[tuple[str, float]]:
    return [(slug, at) for slug, at in ran.verified.items() if slug.endswith("-fails") == failing]


@pytest.mark.parametrize("program", ["wave_loop.py", "wave_scheduler.py"])
def test_help_against_importing_argparse(program: str) -> None:
    ours = [sys.executable, str(ROOT / "driver" / program), "--help"]
    base = [sys.executable, "-c", "import argparse"]
    took, bare_took = interleaved(15, lambda _: _seconds(ours), lambda _: _seconds(base))
    print(
        f"\n{program} --help: {1000 * took:.0f} ms, import argparse {1000 * bare_took:.0f} ms,"
        f" ratio {took / bare_took:.2f} (goal 1.6); modules {_modules(ours)} and {_modules(base)}"
    )


def _seconds(argv: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def _modules(argv: list[str]) -> int:
    timed = [argv[0], "-X", "importtime", *argv[1:]]
    done = subprocess.run(timed, check=True, capture_output=True, text=True)
    return done.stderr.count("import time:") - 1
