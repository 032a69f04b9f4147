"""The level `container`, with the image that TIDEGATE_TEST_IMAGE names.

The image needs a shell, Python 3 and git; nothing is fetched.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from driver.backends.registry import driver_from
from driver.domain.results import WITHOUT_WALLS
from driver.execution.command import Ending
from driver.execution.processes import Processes
from driver.execution.sandbox_probe import kernel_facts
from driver.walls.choice import Asked, candidates, engine_on
from driver.walls.escape import OF_LIMITS, attempted
from driver.walls.inside import remove_left_containers
from driver.walls.wall import Level, Means, Network
from state_store.values.lazy_dataclass import replace
from tests.support.processes import eventually
from tests.support.walls import place, run
from tests.support.waves import Agent, Scene, built, item, verdicts

IMAGE = "TIDEGATE_TEST_IMAGE"
CONFIG = '[sandbox]\nlevel = "container"\nimage = "{}"\n'
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="containers of Linux"),
    pytest.mark.skipif(not engine_on(os.environ.get("PATH", "")), reason="no podman, no docker"),
    pytest.mark.skipif(not os.environ.get(IMAGE), reason=f"{IMAGE} names no image"),
]


@pytest.fixture
def engine() -> Means:
    asked = Asked(Level.CONTAINER, image=os.environ[IMAGE])
    (means,) = candidates(asked, kernel_facts(), os.environ, ())
    return means


def running(means: Means) -> str:
    command = [means.program, "ps", "--all", "--format={{.Names}}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize("network", [Network.LOOPBACK, Network.HOST])
def test_nothing_escapes(engine: Means, network: Network) -> None:
    held = attempted(engine, network, Processes())
    assert held.problem == ""
    connections = {"connect_loopback", "connect_abroad", "connect_abstract"}
    by_design = connections if network is Network.HOST else set[str]()
    assert set(held.escaped) - OF_LIMITS == by_design


def test_a_command_has_its_exit_code_its_streams_and_its_variables(
    engine: Means, tmp_path: Path
) -> None:
    script = "echo $HOME; echo err >&2; touch here /tmp/x /var/tmp/x; exit 7"
    done = run(tmp_path, engine, script)
    work = tmp_path / "work"
    assert (done.exit_code, done.stdout, done.stderr) == (7, f"{work}\n", "err\n")
    assert (work / "here").stat().st_uid == os.getuid()
    assert done.survivors == 0


def test_what_the_engine_cannot_start_is_no_result(engine: Means, tmp_path: Path) -> None:
    done = run(tmp_path, engine, ("no-such-program",))
    assert (done.ending, "no-such-program" in done.reason) == (Ending.COULD_NOT_START, True)
    for broken in (replace(engine, image="localhost/no-such-image:0"), _failing(engine)):
        done = run(tmp_path, broken, "exit 0")
        assert done.ending is Ending.COULD_NOT_START
        assert "the wall container could not be made" in done.reason


def _failing(engine: Means) -> Means:
    return replace(engine, program="/bin/false")


def test_a_container_ends_with_its_time(engine: Means, tmp_path: Path) -> None:
    before = running(engine)
    done = run(tmp_path, engine, "trap '' TERM; setsid sleep 600 & sleep 600", timeout_s=3.0)
    assert done.ending is Ending.TIMED_OUT
    assert running(engine) == before


def receipts_of(report: Mapping[str, object]) -> set[str]:
    attempts = built(report)["a"]["attempts"]
    return {one["sandbox"] for each in attempts for one in each["evidence"]["receipts"]}


def test_a_wave_ships_from_a_container(engine: Means, tmp_path: Path) -> None:
    check = (
        "test ! -e $SECRET && grep -q good a.txt && git log -1 > $TMPDIR/log"
        " && test -f ~/.tool/x && echo mine > ~/.tool/x"
    )
    secret = tmp_path / "home" / "secret"
    files = {"a.txt": "base\n", "check.sh": check.replace("$SECRET", str(secret))}
    setup = '[workspace]\nsetup = ["mkdir -p ~/.tool && echo good > ~/.tool/x"]\n'
    scene = Scene(
        tmp_path,
        files,
        config=CONFIG.format(engine.image) + setup,
        environ={"TIDEGATE_SANDBOX_LEVEL": "container"},
    )
    secret.write_text("s", encoding="utf-8")

    def good(agent: Agent) -> None:
        agent.write({"a.txt": "good\n"})

    report, _ = scene.play({"a": good}, [item("a", "a.txt", ["sh", "check.sh"])])
    assert verdicts(report) == {"a": "verified"}, report
    assert report["shipped"] == ["a"]
    assert receipts_of(report) == {"container"}
    assert report["sandbox"]["test"] == {"level": "container", "network": "loopback"}
    assert "container" not in WITHOUT_WALLS


AGENT = "cat > /dev/null; test ! -e $SECRET && echo good > a.txt && git status --short > status"


def test_an_agent_works_in_a_container(engine: Means, tmp_path: Path) -> None:
    secret = str(tmp_path / "home" / "secret")
    command = json.dumps(["sh", "-c", AGENT.replace("$SECRET", secret)])
    config = f'[backend]\nname = "command"\ncommand = {command}\n[review]\nmode = "off"\n'
    scene = Scene(
        tmp_path,
        {"a.txt": "base\n", "check.sh": "grep -q good a.txt && grep -q a.txt status\n"},
        config=config + CONFIG.format(engine.image),
        environ={"TIDEGATE_SANDBOX_LEVEL": "container"},
    )
    Path(secret).write_text("s", encoding="utf-8")
    driver = driver_from(scene.settings.backend, scene.settings.environ)
    owned = item("a", ["a.txt", "status"], ["sh", "check.sh"])
    report = scene.run(driver, [owned])
    assert verdicts(report) == {"a": "verified"}, built(report)["a"]["error"]
    assert report["sandbox"]["agent"] == {"level": "container", "network": "host"}


KILLED = """
import sys
from pathlib import Path
from driver.execution.sandbox_probe import kernel_facts
from driver.walls.choice import Asked, candidates
from driver.walls.wall import Level
from tests.support.processes import eventually
from tests.support.walls import place, run
import os
(means,) = candidates(Asked(Level.CONTAINER, image=sys.argv[2]), kernel_facts(), os.environ, ())
run(Path(sys.argv[1]), means, "trap '' TERM; touch begun; setsid sleep 600 & sleep 600")
"""


def test_nothing_outlives_a_killed_orchestrator_of_podman(engine: Means, tmp_path: Path) -> None:
    """The daemon of docker is another's child, and keeps the container."""
    if Path(engine.program).name != "podman":
        pytest.skip("no podman")
    place(tmp_path, "work")
    argv = [sys.executable, "-c", KILLED, str(tmp_path), engine.image]
    with subprocess.Popen(argv, cwd=Path(__file__).parents[2]) as orchestrator:
        assert eventually((tmp_path / "work" / "begun").exists, within_s=30.0)
        orchestrator.kill()
    assert eventually(lambda: not processes_in(tmp_path / "work"), within_s=30.0)
    remove_left_containers(engine)  # as the next wave does
    assert "tidegate-" not in running(engine)


def processes_in(folder: Path) -> list[Path]:
    """The processes whose mounts have the folder: those of its container."""
    found = []
    for one in Path("/proc").glob("[0-9]*/mountinfo"):
        with suppress(OSError):
            if f" {folder} " in one.read_text(encoding="utf-8", errors="replace"):
                found.append(one)
    return found
