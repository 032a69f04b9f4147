"""What tests share in every folder, and the disk that they are spared."""

from __future__ import annotations

import compileall
import os
import shlex
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.support import forked, own_temporary
from tests.support import postgres as postgres_server
from tests.support import stores as stores_of_kinds
from tests.support.beside import Played, play_marked
from tests.support.processes import Marked, marked_in
from tests.support.repos import SANDBOX
from tests.support.sampled import leave_to_more

PROGRAMS = [Path(__file__).parents[1] / name for name in ("driver", "tools", "state_store")]
MODULES_SO_FAR = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--processes",
        type=int,
        default=2 * _processors(),
        help="how many run the tests, each a module at a time (twice as many as there are"
        " processors, as many tests wait)",
    )


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Several processes where that changes nothing but the time; else what pytest does itself."""
    processes = session.config.getoption("processes")
    if processes < 2 or not forked.is_possible(session):
        return None
    forked.run(session, processes)
    return True


def pytest_configure(config: pytest.Config) -> None:
    own_temporary.begin(config)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    own_temporary.end(session.config, failed=exitstatus != pytest.ExitCode.OK)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the programs once. Where Python may write no compiled files, as in most environments
    of tests, each of the hundreds of programs that they start would compile itself, which takes
    half of its time."""
    if not session.config.option.collectonly:
        for folder in PROGRAMS:
            compileall.compile_dir(folder, quiet=2)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, None, None]:
    """Keep the compiled tests too, whose assertions pytest has rewritten: to do that again for each
    run takes two thirds of the time that it takes to find the tests."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "dont_write_bytecode", False)
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_to_more(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed says how it is repeated, alone and after what this process ran before."""
    report = yield
    before = item.config.stash.setdefault(MODULES_SO_FAR, [])
    module = item.nodeid.partition("::")[0]
    if before[-1:] != [module]:
        before.append(module)
    if report.failed:
        again = ["python", "-m", "pytest", "--processes", "1", "-m", ""]
        alone, in_order = shlex.join([*again, item.nodeid]), shlex.join([*again[:-2], *before])
        report.sections.append(("to repeat it", f"{alone}\nin its order: {in_order}"))
    return report


@pytest.fixture(autouse=True, scope="module")
def level_of_walls(request: pytest.FixtureRequest) -> Iterator[None]:
    """Waves run at `auto` in the modules that are marked `in_walls`, and in all others without
    walls: their agents, tests or hooks leave marks outside of their own places, or their many waves
    prove other rules. A module may also name the level of each wave itself."""
    with pytest.MonkeyPatch.context() as patched:
        if request.node.get_closest_marker("in_walls"):
            patched.delenv(SANDBOX, raising=False)
        else:
            patched.setenv(SANDBOX, "none")
        yield


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The module's tests that are marked `beside`, all of them played."""
    return play_marked(request, tmp_path_factory.mktemp("played"))


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[Marked]:
    """Commands that are ended with the test, whatever becomes of it."""
    with marked_in(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def postgres() -> Iterator[postgres_server.Server]:
    """A server of PostgreSQL for the tests of a module."""
    if why := postgres_server.missing():
        pytest.skip(why)
    with postgres_server.running() as server:
        yield server


@pytest.fixture(params=stores_of_kinds.KINDS)
def stores(request: pytest.FixtureRequest) -> stores_of_kinds.Stores:
    """Stores of one kind after the other."""
    if request.param == "sqlite":
        return stores_of_kinds.Stores()
    return stores_of_kinds.Stores(request.getfixturevalue("postgres"))
