"""Who holds a lease is known to be gone, or is waited for: never the other way round."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from driver.execution.process_identity import holder_name, identity, is_gone

pytestmark = [
    pytest.mark.in_walls,
    pytest.mark.skipif(sys.platform == "win32", reason="numbers do not tell there"),
]


def renumbered(name: str, pid: int) -> str:
    return name.replace(f":{os.getpid()}:", f":{pid}:")


def test_this_process_is_there() -> None:
    assert not is_gone(holder_name())


def test_an_ended_process_is_gone_and_a_stopped_one_is_not() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        there = identity(child.pid)
        assert there is not None
        instance, _, mark = holder_name().partition("@")
        name = f"{instance}@{there.started or ''}-{mark.partition('-')[2]}"
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
        "{host}:4194305:abcdef@1-{boot}-1",
        "{host}:4194305:abcdef",
        "{host}:x:abcdef@1-{boot}",
        "somebody",
        "",
    ],
)
def test_what_cannot_be_known_is_not_gone(holder: str) -> None:
    here, _, mark = holder_name().partition("@")
    assert not is_gone(holder.format(host=here.split(":")[0], boot=mark.split("-")[1]))


_TELL = "from driver.execution.process_identity import holder_name, is_gone; import sys; "


@pytest.mark.skipif(sys.platform != "linux", reason="containers number their processes there")
def test_who_is_numbered_by_another_container_is_never_judged_by_the_number() -> None:
    contained = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c"]
    try:
        said = subprocess.run(
            [*contained, _TELL + "print(holder_name())"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no container can be made here: {error}")
    there = said.stdout.strip()
    assert there.rpartition(":")[0].rpartition(":")[0] == holder_name().split(":")[0]
    assert not is_gone(there)
    tell = f"{_TELL}print(is_gone({holder_name()!r}))"
    asked = subprocess.run([*contained, tell], capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == "False"
