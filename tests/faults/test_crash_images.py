"""What a power loss may leave of files that are written whole: the old text or the new, never less.

A real run of the writer is recorded at the level of the system's calls; then images are drawn of
what a disk may hold after a crash at some moment. Flushed data and the entries of flushed folders
are there; of everything else any part is: entries in any selection, data in any beginning.
`python -m pytest -m sweep -s tests/faults/test_crash_images.py` draws a thousand of each.
"""

from __future__ import annotations

import io
import os
import random
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from state_store.documents.files import write_text_atomic

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be flushed there")
SAMPLE, WHOLE = 50, 1000
FILES = ("a.json", "new/b.json")
TEXTS = [f"text {number} " + "x" * 50 * number for number in range(4)]


@dataclass(frozen=True)
class Step:
    """One call: "make" and "folder" name a new entry, "move" gives one another name, "drop" takes
    it away, "flush" makes a file's data or a folder's entries durable, "told" ends one write."""

    kind: str
    path: str
    target: str = ""
    data: bytes = b""


class Tape:
    """The calls of this process on files below `top`, as they happen."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.steps: list[Step] = []

    def name(self, path: Any) -> str | None:
        found = Path(os.fsdecode(path)) if not isinstance(path, int) else _path_of(path)
        return found.relative_to(self.top).as_posix() if found.is_relative_to(self.top) else None

    def note(self, kind: str, path: Any, target: Any = None, data: bytes = b"") -> None:
        name = self.name(path)
        if name is not None:
            moved = self.name(target) if target is not None else None
            self.steps.append(Step(kind, name, moved or "", data))

    def flush(self, descriptor: int) -> None:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self.note("flush", descriptor, data=_path_of(descriptor).read_bytes() if is_file else b"")


def _path_of(descriptor: int) -> Path:
    return Path(f"/proc/self/fd/{descriptor}").readlink()


@pytest.fixture
def tape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tape:
    """All that goes on below the test's folder from now on."""
    made = Tape(tmp_path)
    real = {name: getattr(os, name) for name in ("replace", "unlink", "mkdir", "fsync")}
    opened = io.open

    def open_(file: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
        stream = opened(file, mode, *rest, **more)
        if "x" in mode:
            made.note("make", file)
        return stream

    def replace(source: Any, target: Any, **more: Any) -> None:
        with opened(source, "rb") as stream:
            data = stream.read()
        real["replace"](source, target, **more)
        made.note("move", source, target, data)

    def simple(kind: str, call: Callable[..., None]) -> Callable[..., None]:
        def noted(path: Any, *rest: Any, **more: Any) -> None:
            call(path, *rest, **more)
            made.note(kind, path)

        return noted

    monkeypatch.setattr(io, "open", open_)
    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(os, "unlink", simple("drop", real["unlink"]))
    monkeypatch.setattr(os, "mkdir", simple("folder", real["mkdir"]))
    monkeypatch.setattr(os, "fsync", lambda fd: (made.flush(fd), real["fsync"](fd)))
    return made


def written(tape: Tape) -> None:
    for text in TEXTS:
        for name in FILES:
            write_text_atomic(tape.top / name, text)
            tape.steps.append(Step("told", name, data=text.encode()))


def image(steps: list[Step], draw: random.Random) -> dict[str, bytes]:
    """What a disk may hold when the power goes after `steps`."""
    flushed_at = {step.path: at for at, step in enumerate(steps) if step.kind == "flush"}
    contents: dict[str, bytes | None] = {}  # None is a folder
    for at, step in enumerate(steps):
        if step.kind in ("flush", "told"):
            continue
        durable = flushed_at.get(_folder_of(step.path), -1) > at
        if durable or draw.random() < 0.5:
            _apply(step, contents, steps, draw)
    folders = {"."} | {path for path, data in contents.items() if data is None}
    return {p: d for p, d in contents.items() if d is not None and _folder_of(p) in folders}


def _apply(
    step: Step, contents: dict[str, bytes | None], steps: list[Step], draw: random.Random
) -> None:
    if step.kind == "folder":
        contents[step.path] = None
    elif step.kind == "make":
        contents[step.path] = _data(step.path, steps, draw)
    elif step.kind == "drop":
        contents.pop(step.path, None)
    else:
        contents.pop(step.path, None)
        contents[step.target] = _data(step.path, steps, draw, step.data)


def _data(path: str, steps: list[Step], draw: random.Random, whole: bytes = b"") -> bytes:
    """The data of a fresh file: whole once flushed, else some beginning of it, or as much of
    nothing as its length says."""
    for step in steps:
        if (step.kind, step.path) == ("flush", path):
            return step.data
    kept = draw.randint(0, len(whole))
    return draw.choice([whole[:kept], b"\0" * len(whole), b""])


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0] or "."


def violations(steps: list[Step], images: int, seed: int = 0) -> Iterator[str]:
    """What is wrong in images drawn of crashes at every moment of the recording."""
    for number in range(images):
        draw = random.Random(f"{seed}/{number}")
        crash = draw.randint(0, len(steps))
        before, found = steps[:crash], image(steps[:crash], draw)
        for name in FILES:
            told = [step.data for step in before if (step.kind, step.path) == ("told", name)]
            texts = [text.encode() for text in TEXTS]
            may_be = [*told[-1:], *texts[len(told) : len(told) + 1]]
            if name in found and found[name] not in may_be:
                yield f"image {number}: {name} is {found[name][:40]!r} after {len(told)} writes"
            if name not in found and told:
                yield f"image {number}: {name} is gone after {len(told)} writes"


linux = pytest.mark.skipif(sys.platform != "linux", reason="names descriptors by /proc")


@linux
def test_a_file_is_the_old_or_the_new_one_after_a_power_loss(tape: Tape) -> None:
    written(tape)
    assert list(violations(tape.steps, SAMPLE)) == []


@linux
@pytest.mark.parametrize("what", ["data", "folders"])
def test_the_images_would_show_a_flush_that_is_missing(tape: Tape, what: str) -> None:
    written(tape)
    is_data = [step.kind == "flush" and bool(step.data) for step in tape.steps]
    is_folder = [step.kind == "flush" and not step.data for step in tape.steps]
    gone = is_data if what == "data" else is_folder
    left = [step for step, out in zip(tape.steps, gone, strict=True) if not out]
    assert list(violations(left, SAMPLE)) != []


@linux
@pytest.mark.sweep
def test_a_thousand_power_losses(tape: Tape) -> None:
    written(tape)
    wrong = [one for seed in range(3) for one in violations(tape.steps, WHOLE, seed)]
    moments = len(tape.steps)
    sys.stdout.write(f"\ncrash-images images={3 * WHOLE} moments={moments} ")
    sys.stdout.write(f"violations={len(wrong)} target=0\n")
    assert wrong == []
