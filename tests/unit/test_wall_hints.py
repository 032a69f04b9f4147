"""Hints about walls in the output of a red test."""

from __future__ import annotations

import pytest

from driver.domain.wall_hints import about_walls, hint_in


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("URLError: <urlopen error [Errno -3] Temporary failure in name resolution>", "network"),
        ("curl: (6) Could not resolve host: example.org", "network"),
        ("Error: connect ECONNREFUSED 127.0.0.1:5432", "network"),
        ("sh: cannot create /srv/log: Read-only file system", "writable"),
        ("touch: cannot touch '/tmp/log': Permission denied", '`writable = ["/tmp"]`'),
        ("sh: 1: cannot create /tmp/log: Permission denied", '`writable = ["/tmp"]`'),
        ("PermissionError: [Errno 13] Permission denied: '/tmp/x/y'", '`writable = ["/tmp"]`'),
        ("Error: EACCES: permission denied, mkdir '/tmp/x'", '`writable = ["/tmp"]`'),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/home/me/data/x'", "readable"),
        ("Error: ENOENT: no such file or directory, open '/srv/fixtures/x'", "readable"),
        ("PermissionError: [Errno 13] Permission denied: '/data/x'", "readable"),
    ],
)
def test_a_line_that_looks_like_walls_is_quoted_with_the_setting(output: str, words: str) -> None:
    told = about_walls("bwrap", output)
    quoted = told.rpartition(': "')[2].removesuffix('"')
    assert quoted in output
    assert words in told
    assert "[sandbox.test]" in told
    assert hint_in(f"{told}; correct the work") == told


TRACEBACK = 'File "x.py", line 3\n    {}\nPermissionError: [Errno 13] Permission denied'


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (TRACEBACK.format("_socket.socket.__init__(self, family, type)"), "unix_sockets = true"),
        ("Error: listen EACCES: permission denied /tmp/x/a.sock", "unix_sockets = true"),
        ("listen unix /x/a: socket: permission denied", "unix_sockets = true"),
        (TRACEBACK.format("sl = _multiprocessing.SemLock(\n"), "/dev/shm"),
        ("PermissionError: [Errno 13] Permission denied: '/psm_1f'", "/dev/shm"),
        ("PermissionError: [Errno 13] Permission denied: '/data/x'", "`readable` or `writable`"),
    ],
)
def test_sockets_and_shared_memory_want_settings_of_their_own_at_landlock(
    output: str, words: str
) -> None:
    told = about_walls("landlock-7", output)
    assert words in told
    assert told.endswith('"')
    assert "\n" not in told
    assert hint_in(told) == told
    assert "unix_sockets" not in about_walls("bwrap", output)


@pytest.mark.parametrize(
    "output",
    [
        "rm: cannot remove 'node_modules': Device or resource busy",
        "OSError: [Errno 18] Invalid cross-device link: 'a' -> 'node_modules/a'",
        "Error: EBUSY: resource busy or locked, rmdir '/x/node_modules'",
    ],
)
def test_a_copied_folder_that_cannot_be_moved_names_the_setting_for_copies(output: str) -> None:
    told = about_walls("bwrap", output)
    assert 'and `setup = ["true"]` in [workspace] would allow' in told
    assert "[sandbox." not in told
    assert hint_in(told) == told


def test_a_hint_names_the_role_whose_command_failed() -> None:
    told = about_walls("landlock-7", "touch: cannot touch '/x': Read-only file system", "setup")
    assert told.startswith("the set-up ran inside of walls (landlock-7), and ")
    assert "in [sandbox.setup] would allow" in told


@pytest.mark.parametrize(
    "output",
    [
        "AssertionError: 1 != 2",
        "FileNotFoundError: [Errno 2] No such file or directory: 'data/x'",
        "No such file or directory: '/home/me/.cache/tidegate/1/proving/3/data/x'",
    ],
)
def test_an_output_without_such_a_line_gives_no_hint(output: str) -> None:
    told = about_walls("bwrap", output)
    assert told.startswith("the test ran inside of walls (bwrap); if it needs more")
    assert hint_in(told) is None
    assert "unix_sockets" not in told
    assert "unix_sockets" in about_walls("landlock-7", output)
    assert hint_in(None) is None
