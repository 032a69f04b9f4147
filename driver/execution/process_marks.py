"""Marks the processes of a run, so that a later run finds those that a killed run left behind.

A mark is a variable in the environment. Its name is random, and its value follows from the name and
the secret key of the run. So code under test cannot tell it from any other variable: no two
processes that Tidegate starts have the same mark, and only the key tells what a mark is.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from pathlib import Path

from driver.execution.process_identity import end_all

_CONSONANTS, _VOWELS = "BDFGKLMNPRSTVZ", "AEIOU"
_DIGITS = 16
_SHAPE = re.compile(rb"([A-Z]{6,12})=([0-9]{%d})" % _DIGITS)
_PROC = Path("/proc")


def new_key() -> str:
    """A new secret key for a run."""
    return secrets.token_hex(16)


def new_mark(key: str) -> dict[str, str]:
    """A new variable that marks the processes which get it, for the holder of `key`."""
    while True:
        syllables = 3 + secrets.randbelow(4)
        letters = (_CONSONANTS, _VOWELS) * syllables
        name = "".join(secrets.choice(some) for some in letters)
        if name not in os.environ:
            return {name: _value(key, name.encode())}


def carrying_mark(key: str) -> tuple[int, ...]:
    """The other processes that have a mark of `key`; none for the key "", or without `/proc`."""
    folders = _PROC.glob("[0-9]*") if key else ()
    pids = (int(folder.name) for folder in folders)
    return tuple(pid for pid in pids if pid != os.getpid() and _is_marked(pid, key))


def end_carrying_mark(key: str) -> tuple[int, ...]:
    """Kill the processes that have a mark of `key`; returns their PIDs."""
    return end_all(carrying_mark(key))


def _is_marked(pid: int, key: str) -> bool:
    """False also for a process of another user, whose environment cannot be read."""
    try:
        variables = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    marks = filter(None, map(_SHAPE.fullmatch, variables))
    return any(_value(key, mark[1]) == mark[2].decode() for mark in marks)


def _value(key: str, name: bytes) -> str:
    digest = hashlib.blake2b(name, key=key.encode(), digest_size=8).digest()
    return f"{int.from_bytes(digest) % 10**_DIGITS:0{_DIGITS}d}"
