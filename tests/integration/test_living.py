"""Who holds a lease is known to be gone, or is waited for: never the other way round."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from driver.living import holder_name, identity, is_gone

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="numbers do not tell there")


def renumbered(name: str, pid: int) -> str:
    return name.replace(f":{os.getpid()}:", f":{pid}:")


def test_this_process_is_there() -> None:
    assert not is_gone(holder_name())


def test_an_ended_process_is_gone_and_a_stopped_one_is_not() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        there = identity(child.pid)
        assert there is not None
        name = holder_name().partition("@")[0] + f"@{there.started or ''}-{there.boot[:8]}"
        child.send_signal(signal.SIGSTOP)
        try:
            assert not is_gone(renumbered(name, child.pid))
        finally:
            child.kill()
            child.wait()
    assert is_gone(renumbered(name, child.pid))


@pytest.mark.skipif(sys.platform != "linux", reason="start times are read from /proc")
def test_a_number_that_was_given_to_another_process_is_gone() -> None:
    name, _, mark = holder_name().partition("@")
    started, _, boot = mark.partition("-")
    assert is_gone(f"{name}@{int(started) - 1}-{boot}")


@pytest.mark.parametrize(
    "holder",
    [
        "another-host:4194305:abcdef@1-{boot}",
        "{host}:4194305:abcdef@1-00000000",
        "{host}:4194305:abcdef",
        "{host}:x:abcdef@1-{boot}",
        "somebody",
        "",
    ],
)
def test_what_cannot_be_known_is_not_gone(holder: str) -> None:
    here, _, mark = holder_name().partition("@")
    assert not is_gone(holder.format(host=here.split(":")[0], boot=mark.rpartition("-")[2]))
