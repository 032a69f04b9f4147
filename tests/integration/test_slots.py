"""Slots: tests and agents that work at the same time have numbers and ports of their own."""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from driver.run_state.slots import FIRST_PORT, PORT_BASE, PORTS, SLOT, SLOTS, slot
from tests.support.beside import beside
from tests.support.interpreter import PYTHON
from tests.support.waves import PATIENCE_S, Agent, Scene, item, verdicts

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
SLUGS = ("a", "b", "c", "d")

# A server on a port of the slot, which stays until all items' tests have one.
SERVES = """
import os, pathlib, socket, sys, time
met, name = pathlib.Path(sys.argv[1]), sys.argv[2]
if pathlib.Path(f"{name}.txt").read_text() != "good":
    sys.exit("bad")
with socket.create_server(("127.0.0.1", int(os.environ["TIDEGATE_PORT_BASE"]))):
    if not (met / name).exists():  # later proofs need not meet the others
        (met / name).write_text(os.environ["TIDEGATE_SLOT"])
    end = time.monotonic() + 30
    while len(list(met.iterdir())) < int(sys.argv[3]) and time.monotonic() < end:
        time.sleep(0.01)
"""


def test_slots_at_the_same_time_differ_and_are_below_the_ports_of_the_system() -> None:
    with ExitStack() as stack:
        taken = [stack.enter_context(slot()) for _ in range(20)]
    assert len({one[SLOT] for one in taken}) == len({one[PORT_BASE] for one in taken}) == 20
    for one in taken:
        assert int(one[PORT_BASE]) == FIRST_PORT + PORTS * int(one[SLOT])
    assert FIRST_PORT + PORTS * SLOTS <= 32_768
    with slot() as first, slot():
        pass
    with slot() as again:
        assert again == first  # a free slot is used again, the lowest first


def test_no_slot_is_given_twice_if_all_are_in_use() -> None:
    with ExitStack() as stack:
        taken = [stack.enter_context(slot()) for _ in range(SLOTS)]
        with slot() as one:
            assert one == {}
    assert len({one[SLOT] for one in taken if one}) == len([one for one in taken if one])


@pytest.mark.more
@pytest.mark.parametrize("how", ["setting", "command"])
@beside
def test_tests_and_agents_at_the_same_time_have_ports_of_their_own(folder: Path, how: str) -> None:
    wanted = f'[verify]\nenv = ["{SLOT}"]\n' if how == "setting" else ""
    many = "[limits]\nmax_workers = 4\nmax_parallel_tests = 4\n"
    scene = Scene(folder, {"serve.py": SERVES}, config=wanted + many)
    met = folder / "met"
    met.mkdir()
    agents, at_work = dict[str, str](), threading.Barrier(len(SLUGS))

    def works(agent: Agent) -> None:
        at_work.wait(PATIENCE_S)
        name = agent.request.environment["TIDEGATE_ITEM"]
        agents[name] = agent.request.environment[PORT_BASE]
        agent.write({f"{name}.txt": "good"})

    def item_of(name: str) -> dict[str, object]:
        words = [*PYTHON, "serve.py", str(met), name, str(len(SLUGS))]
        command: object = f"PORT=${PORT_BASE} {' '.join(words)}" if how == "command" else words
        return item(name, f"{name}.txt", command, repairCap=0)

    report, _ = scene.play(dict.fromkeys(SLUGS, works), [item_of(name) for name in SLUGS])
    assert verdicts(report) == dict.fromkeys(SLUGS, "verified")
    assert len(set(agents.values())) == len(SLUGS)
    assert len({int((met / name).read_text()) for name in SLUGS}) == len(SLUGS)
