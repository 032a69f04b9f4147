"""Limits and loopbacks of commands in whole waves: who is blamed, and who meets whom."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest

from driver.backend_api.driver import FAILURE_AGENT
from driver.backends.cli.endings import broken_off
from driver.execution.command import Ending, Finished
from tests.support.beside import beside
from tests.support.interpreter import PYTHON
from tests.support.repos import hook
from tests.support.walls import NAMES, means_of
from tests.support.waves import Scene, built, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no walls")

# Green for `good`, red for everything else; `hog` needs a lot of memory first.
HOGS = """
import pathlib, sys, time
held = pathlib.Path(sys.argv[1]).read_text().strip()
if held == "hog":
    hog = bytearray(400 << 20)
    time.sleep(60)
sys.exit(held != "good")
"""
USED = "the test used more than 100 MiB of memory (sandbox.test.memory)"
LEVEL = "TIDEGATE_SANDBOX_LEVEL"
LIMITED = {LEVEL: "limits"}


@beside
def test_work_over_a_limit_is_told_of_it_and_repaired(folder: Path) -> None:
    config = '[sandbox.test]\nmemory = "100 MiB"\n'
    scene = Scene(folder, {"hogs.py": HOGS, "a.txt": "bad\n"}, config=config, environ=LIMITED)
    rounds = [writes(a__txt="hog\n"), writes(a__txt="good\n")]
    items = [item("a", "a.txt", [*PYTHON, "hogs.py", "a.txt"], repairCap=1)]
    report, driver = scene.play({"a": rounds}, items)
    assert verdicts(report) == {"a": "verified"}
    first = built(report)["a"]["attempts"][0]
    assert (first["verdict"], first["reason"]) == ("failed", USED)
    assert (first["test"]["kind"], first["test"]["exit"]) == ("killed", None)
    assert f"The test was ended: {USED}." in driver.rounds_of("a")[1].prompt


@pytest.mark.more
@beside
def test_nobody_is_blamed_for_a_limit_that_the_base_does_not_keep(folder: Path) -> None:
    config = '[sandbox.test]\nmemory = "100 MiB"\n'
    files = {"hogs.py": HOGS, "a.txt": "hog\n", "b.txt": "x\n"}
    scene = Scene(folder, files, config=config, environ=LIMITED)
    items = [item("a", "b.txt", [*PYTHON, "hogs.py", "a.txt"], repairCap=2)]
    report, driver = scene.play({"a": writes(b__txt="y\n")}, items)
    assert verdicts(report) == {"a": "undecided"}
    assert built(report)["a"]["error"] == f"{USED}; so it does on the base: raise the limit"
    assert "raise the limit that the sentence names" in built(report)["a"]["remedy"]
    assert built(report)["a"]["waitsForPerson"]
    assert len(driver.requests) == 1


@pytest.mark.more
@beside
def test_a_set_up_and_a_hook_over_their_limits_say_so(folder: Path) -> None:
    large = "head -c 100000 /dev/zero > large"
    config = '[sandbox.hook]\nfile_size = "10 KiB"\n'
    scene = Scene(folder, {"a.txt": "bad\n"}, config=config, environ=LIMITED)
    hook(scene.repo.path / ".git" / "hooks", "pre-commit", large)
    items = [item("a", "a.txt", "grep -q good a.txt")]
    report, _ = scene.play({"a": writes(a__txt="good\n")}, items)
    told = "hook was ended: the hook wrote a file of more than 10 KiB (sandbox.hook.file_size)"
    assert told in json.dumps(report)
    config = f'[workspace]\nsetup = ["{large}"]\n[sandbox.setup]\nfile_size = "10 KiB"\n'
    (folder / "other").mkdir()
    scene = Scene(folder / "other", {"a.txt": "bad\n"}, config=config, environ=LIMITED)
    report, _ = scene.play({"a": writes(a__txt="good\n")}, items)
    told = "the set-up wrote a file of more than 10 KiB (sandbox.setup.file_size)"
    assert told in json.dumps(report)


@pytest.mark.more
def test_an_agent_over_its_limit_has_failed() -> None:
    reason = "the agent printed more than 1 GiB (sandbox.agent.output)"
    done = Finished(Ending.OVER_LIMIT, None, "", "", 1.0, reason=reason)
    assert broken_off(done) == (FAILURE_AGENT, reason)


# A server on one port, until the servers of all items are there.
SERVES = """
import pathlib, socket, sys, time
met, name, port = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with socket.create_server(("127.0.0.1", port)) as server:
    (met / name).touch()
    end = time.monotonic() + 40
    while len(list(met.iterdir())) < 4 and time.monotonic() < end:
        time.sleep(0.01)
    client = socket.create_connection(("127.0.0.1", port))
    server.accept()[0].sendall(name.encode())
    told = client.recv(100).decode()
sys.exit(pathlib.Path(f"{name}.txt").read_text().strip() != "good" or told != name)
"""


@pytest.mark.more
@pytest.mark.parametrize("name", NAMES[:2])
def test_four_tests_bind_one_port_at_the_same_time(name: str, tmp_path: Path) -> None:
    means = means_of(name)
    met = tmp_path / "met"
    met.mkdir()
    config = (
        f'[sandbox.test]\nwritable = ["{met}"]\n'
        '[verify]\ncanary = false\nred_first = "off"\n'
        "[limits]\nmax_workers = 4\nmax_parallel_tests = 4\n"
    )
    scene = Scene(tmp_path, {"serve.py": SERVES}, config=config, environ={LEVEL: means.level})
    with socket.create_server(("127.0.0.1", 0)) as taken:  # and the machine has it as well
        port = str(taken.getsockname()[1])
        slugs = ("a", "b", "c", "d")
        items = [
            item(s, f"{s}.txt", [*PYTHON, "serve.py", str(met), s, port], repairCap=0)
            for s in slugs
        ]
        scripts = {s: writes(**{f"{s}__txt": "good\n"}) for s in slugs}
        report, driver = scene.play(scripts, items)
    assert verdicts(report) == dict.fromkeys(slugs, "verified")
    assert len(driver.requests) == 4
    assert sorted(path.name for path in met.iterdir()) == [*slugs]
