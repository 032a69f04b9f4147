"""One run: what goes in, what comes out, how it ends."""

from __future__ import annotations

import os
import resource
import signal
import stat
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from driver.execution.processes import (
    Command,
    Ending,
    Finished,
    Processes,
    capture,
    could_not_run_reason,
)
from tests.support.beside import beside_on
from tests.support.processes import Marked, eventually, marked_in, patient

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the commands are for a POSIX shell")
on_marked = beside_on(marked_in)
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


def run(command: Command) -> Finished:
    return Processes().run(command)


@on_marked
def test_a_run_tells_exit_code_and_both_streams(marked: Marked) -> None:
    done = run(marked.shell("echo out; echo err >&2; exit 3"))
    assert (done.ending, done.exit_code) == (Ending.EXITED, 3)
    assert (done.stdout, done.stderr, done.survivors) == ("out\n", "err\n", 0)


@on_marked
def test_a_pipe_is_red_when_its_head_fails(marked: Marked) -> None:
    assert run(marked.shell("false | tail -1")).exit_code == 1


@on_marked
def test_a_leader_killed_by_a_signal_is_reported_negative(marked: Marked) -> None:
    done = run(marked.shell("kill -KILL $$"))
    assert (done.ending, done.exit_code) == (Ending.EXITED, -signal.SIGKILL)


@on_marked
def test_a_megabyte_on_stdin_arrives_and_ends(marked: Marked) -> None:
    assert run(marked.shell("wc -c", stdin=b"x" * 1_000_000)).stdout.strip() == "1000000"


@on_marked
def test_a_megabyte_of_environment_arrives(marked: Marked) -> None:
    many = {f"N{n}": "x" * 10_000 for n in range(100)}
    assert int(run(marked.shell("env | wc -c", env=many)).stdout) > 1_000_000


def test_a_relative_folder_is_meant_where_the_run_is_asked_for(
    marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = Processes()
    for name in ("a", "b"):
        (marked.folder / name).mkdir()
        monkeypatch.chdir(marked.folder / name)
        done = processes.run(Command("pwd -P", Path(), marked.env, 20.0))
        assert Path(done.stdout.strip()) == (marked.folder / name).resolve()


@on_marked
def test_without_stdin_a_reader_sees_the_end_at_once(marked: Marked) -> None:
    assert run(marked.shell("cat")).exit_code == 0


@on_marked
def test_a_megabyte_of_stderr_before_stdout_blocks_nobody(marked: Marked) -> None:
    done = run(marked.shell("head -c 1000000 /dev/zero | tr '\\0' e >&2; echo out"))
    assert done.stdout == "out\n"
    assert "bytes left out" in done.stderr


@on_marked
def test_damaged_text_and_nul_are_shown(marked: Marked) -> None:
    assert run(marked.shell(r"printf 'a\377b\000c'")).stdout == "a\ufffdb\\x00c"


@needs_proc
@on_marked
def test_a_flood_is_kept_whole_on_disk_and_bounded_in_memory(marked: Marked) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    flood = "echo first; head -c 200000000 /dev/zero; echo; echo last"
    done = run(marked.shell(flood, output=marked.folder / "log" / "run", keep_bytes=1000))
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert done.stdout_file == marked.folder / "log" / "run.out"
    assert done.stdout_file.stat().st_size > 200_000_000
    assert done.stdout.startswith("first\n")
    assert done.stdout.endswith("\nlast\n")
    assert f"whole text in {done.stdout_file} ...]" in done.stdout
    assert len(done.stdout) < 6000
    assert grown_kib < 20_000
    done.stdout_file.unlink()


@on_marked
def test_output_never_goes_through_a_link_that_was_left_there(marked: Marked) -> None:
    victim = marked.folder / "victim"
    victim.write_text("precious")
    (marked.folder / "run.out").symlink_to(victim)
    done = run(marked.shell("echo hi", output=marked.folder / "run"))
    assert victim.read_text() == "precious"
    assert done.stdout_file is not None
    assert done.stdout_file.read_text() == "hi\n"
    assert stat.S_IMODE(done.stdout_file.stat().st_mode) == 0o600


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (("no-such-program",), "not found"),
        (("/etc/passwd",), "is not executable"),
        (("/",), "is not executable"),
        (("true", "x" * 200_000), "too long"),
        (("true", "\0"), "NUL"),
        ((), "empty"),
    ],
    ids=["missing", "not executable", "folder", "too long", "nul", "empty"],
)
@on_marked
def test_what_cannot_start_is_said_in_a_sentence(
    marked: Marked, argv: tuple[str, ...], word: str
) -> None:
    done = run(marked.command(argv))
    assert (done.ending, done.exit_code) == (Ending.COULD_NOT_START, None)
    assert word in done.reason
    assert could_not_run_reason(done) == done.reason


@on_marked
def test_a_missing_folder_is_named(marked: Marked) -> None:
    marked.folder /= "gone"
    done = run(marked.command(("true",)))
    assert done.ending is Ending.COULD_NOT_START
    assert str(marked.folder) in done.reason


@on_marked
def test_an_output_that_cannot_be_written_is_named(marked: Marked) -> None:
    (marked.folder / "file").write_text("")
    done = run(marked.command(("true",), output=marked.folder / "file" / "run"))
    assert done.ending is Ending.COULD_NOT_START
    assert "file" in done.reason


@on_marked
def test_a_script_is_found_from_its_own_folder(marked: Marked) -> None:
    script = marked.folder / "run.sh"
    script.write_text("#!/bin/sh\nexit 5\n")
    script.chmod(0o755)
    assert run(marked.command(("./run.sh",))).exit_code == 5


@on_marked
def test_a_shell_that_finds_no_command_could_not_run(marked: Marked) -> None:
    assert "not found" in could_not_run_reason(run(marked.shell("no-such-program")))


@needs_proc
def test_the_environment_is_exactly_the_one_given(
    marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_PARENT", "s3cr3t")
    seen = run(marked.shell("env; cat /proc/$PPID/environ", keep_bytes=1_000_000)).stdout
    assert marked.marker in seen
    assert "s3cr3t" not in seen


@needs_proc
@on_marked
def test_the_environment_of_the_child_does_not_reach_the_supervisor(marked: Marked) -> None:
    hostile = {"PYTHONHOME": "/nowhere", "LD_PRELOAD": "/nowhere.so", "PYTHONSTARTUP": "/x"}
    assert run(marked.shell("exit 4", env=hostile)).exit_code == 4


@needs_proc
@on_marked
def test_the_leader_holds_three_streams_and_default_signals(marked: Marked) -> None:
    text = """
import os, signal
held = sorted(int(n) for n in os.listdir('/proc/self/fd'))
print(held[:3], len(held), os.getsid(0) == os.getpid() != os.getppid())
"""
    assert run(marked.python(text)).stdout == "[0, 1, 2] 4 True\n"
    status = run(marked.command(("cat", "/proc/self/status"))).stdout
    masks = dict(line.split(":\t", 1) for line in status.splitlines() if line.startswith("Sig"))
    of_the_c_library = 0b11 << 31  # signals 32 and 33, which no program can set
    assert int(masks["SigIgn"], 16) & ~of_the_c_library == 0
    assert int(masks["SigBlk"], 16) == 0


@on_marked
def test_two_writers_of_one_stream_do_not_overwrite_each_other(marked: Marked) -> None:
    done = run(marked.shell("for i in 1 2 3 4; do (echo $i) & done; wait"))
    assert sorted(done.stdout.split()) == ["1", "2", "3", "4"]


@on_marked
def test_a_time_out_is_not_an_exit(marked: Marked) -> None:
    limit_s = patient(0.5)
    done = run(marked.shell("echo before; sleep 60", timeout_s=limit_s))
    assert (done.ending, done.exit_code, done.stdout) == (Ending.TIMED_OUT, None, "before\n")
    assert f"{limit_s:g} s" in done.reason
    assert done.duration_s < 20


@on_marked
def test_silence_beyond_its_limit_ends_a_command(marked: Marked) -> None:
    limit_s = patient(0.3)
    done = run(marked.shell("echo before; sleep 60", silence_s=limit_s))
    assert (done.ending, done.exit_code, done.stdout) == (Ending.SILENT, None, "before\n")
    assert f"{limit_s:g} s of silence" in done.reason
    assert done.duration_s < 20


@on_marked
def test_a_command_that_prints_now_and_then_is_not_silent(marked: Marked) -> None:
    text = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do echo $i >&2; sleep 0.2; done"
    done = run(marked.shell(text, silence_s=3))
    assert (done.ending, done.exit_code) == (Ending.EXITED, 0)
    assert done.duration_s > 3


@on_marked
def test_the_first_signal_is_the_one_asked_for_and_comes_once(marked: Marked) -> None:
    text = """
import signal, time
got = []
signal.signal(signal.SIGINT, lambda *_: got.append(1))
print('ready', flush=True)
end = time.monotonic() + 0.2
while not got or time.monotonic() < end:
    if not got: end = time.monotonic() + 0.2
    time.sleep(0.01)
print('signals', len(got), flush=True)
"""
    done = run(marked.python(text, first_signal=signal.SIGINT, timeout_s=patient(0.5)))
    assert done.stdout == "ready\nsignals 1\n"
    assert done.survivors == 0


@needs_proc
@on_marked
def test_running_shows_what_runs_and_how_long_it_has_been_silent(marked: Marked) -> None:
    processes = Processes()
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(processes.run, marked.shell("echo hi; sleep 60"), name="a")
        assert eventually(processes.running)
        (seen,) = processes.running()
        assert seen.name == "a"
        assert seen.pid in marked.alive()
        assert 0 <= seen.last_output_age_s < patient(5)
        assert seen.started_monotonic <= time.monotonic()
        processes.cancel()
        assert result.result().ending is Ending.CANCELLED
    assert processes.running() == ()


@on_marked
def test_after_cancel_nothing_starts(marked: Marked) -> None:
    processes = Processes()
    processes.cancel()
    done = processes.run(marked.shell("echo hi > ran"))
    assert done.ending is Ending.CANCELLED
    assert not (marked.folder / "ran").exists()


@needs_proc
@on_marked
def test_a_second_cancel_leaves_no_grace(marked: Marked) -> None:
    processes = Processes()
    stubborn = marked.shell("trap '' TERM; echo up; while :; do sleep 1; done", grace_s=60)
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(processes.run, stubborn)
        assert eventually(marked.alive)
        assert eventually(processes.running)
        processes.cancel()
        processes.cancel()
        assert result.result(timeout=60).ending is Ending.CANCELLED


def test_cancel_is_safe_in_a_signal_handler_of_the_waiting_thread(marked: Marked) -> None:
    processes = Processes()
    before = signal.signal(signal.SIGUSR1, lambda *_: processes.cancel())
    try:
        aim = threading.Thread(
            target=lambda: eventually(processes.running) and os.kill(os.getpid(), signal.SIGUSR1)
        )
        aim.start()
        assert processes.run(marked.shell("sleep 60")).ending is Ending.CANCELLED
        aim.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


@on_marked
def test_sixty_four_runs_at_once_keep_their_own_results(marked: Marked) -> None:
    processes = Processes()
    with ThreadPoolExecutor(64) as pool:
        commands = [marked.shell(f"echo {n}; exit {n}") for n in range(64)]
        done = list(pool.map(processes.run, commands))
    assert [run.exit_code for run in done] == list(range(64))
    assert [run.stdout.strip() for run in done] == [str(n) for n in range(64)]


@needs_proc
def test_nothing_stays_open_after_a_run(marked: Marked) -> None:
    run(marked.shell("true"))
    before = len(list(Path("/proc/self/fd").iterdir()))
    run(marked.shell("sleep 9", timeout_s=0.05))
    run(marked.command(("no-such-program",)))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@needs_proc
def test_without_a_supervisor_results_and_limits_are_the_same(marked: Marked) -> None:
    bare = Processes(supervised=False)
    assert bare.run(marked.shell("echo a; exit 3")).exit_code == 3
    assert bare.run(marked.shell("sleep 60 | sleep 60", timeout_s=0.2)).ending is Ending.TIMED_OUT
    assert bare.run(marked.command(("no-such-program",))).ending is Ending.COULD_NOT_START
    assert marked.alive() == []


@on_marked
def test_a_helper_past_its_limit_is_ended_even_if_its_pipe_is_held(marked: Marked) -> None:
    argv = ("sh", "-c", "setsid sleep 60 & sleep 60")
    done = capture(argv, cwd=marked.folder, env=marked.env, timeout_s=0.2)
    assert done.timed_out
    assert not done.ok
