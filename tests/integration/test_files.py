"""Files are whole or absent, reads never wait, and one process at a time holds a lock."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from state_store.documents.errors import CannotRunError
from state_store.documents.files import (
    BadFileError,
    MissingFileError,
    read_json,
    read_text,
    remove_file,
    remove_whatever,
    write_json_atomic,
    write_text_atomic,
)
from state_store.documents.locks import LockHeld, LockQueue
from tests.support.interpreter import PYTHON

ROOT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX files")


def child(code: str, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PYTHON, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_what_was_written_is_read_back_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a.json"
    document = {"a": [1, 2.5, None], "text": "\u00e9 \U0001f600"}
    write_json_atomic(path, document)
    assert read_json(path) == document
    assert path.read_bytes().endswith(b"}\n")
    assert list(path.parent.iterdir()) == [path]


def test_text_that_is_not_unicode_is_still_a_readable_file(tmp_path: Path) -> None:
    write_json_atomic(tmp_path / "a", {"name": "caf\udce9"})
    assert read_json(tmp_path / "a") == {"name": "caf\udce9"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_what_is_no_json_is_not_written(tmp_path: Path, value: object) -> None:
    path = tmp_path / "a.json"
    write_json_atomic(path, "old")
    with pytest.raises((ValueError, TypeError)):
        write_json_atomic(path, value)
    assert read_json(path) == "old"


@posix
def test_a_full_disk_keeps_the_old_file_and_leaves_no_half_one(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_text_atomic(path, "old")
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from state_store.documents.files import write_text_atomic\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n write_text_atomic(Path(sys.argv[1]), 'x' * 5000)\n"
        "except Exception as error:\n print(type(error).__name__, error)\n"
    )
    with child(code, path) as run:
        said, _ = run.communicate(timeout=60)
    assert said.startswith("CannotRunError")
    assert str(path) in said
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


@posix
def test_a_killed_writer_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json_atomic(path, ["x"])
    code = (
        "import sys; from pathlib import Path\n"
        "from state_store.documents.files import write_json_atomic\n"
        "print('go', flush=True)\n"
        "n = 0\n"
        "while True:\n n += 1; write_json_atomic(Path(sys.argv[1]), [str(n % 10)] * 20000)\n"
    )
    for _ in range(5):
        with child(code, path) as run:
            assert run.stdout is not None
            run.stdout.readline()
            run.send_signal(signal.SIGKILL)
            run.wait(timeout=60)
        assert len(set(read_json(path))) == 1


@posix
def test_permissions_survive_a_rewrite_and_follow_the_umask_at_first(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_text_atomic(path, "1")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    path.chmod(0o600)
    write_text_atomic(path, "2")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@posix
def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_text("mine", encoding="utf-8")
    link.symlink_to(victim)
    write_text_atomic(link, "new")
    assert victim.read_text(encoding="utf-8") == "mine"
    assert not link.is_symlink()


def test_a_file_in_the_place_of_the_folder_is_told_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CannotRunError, match="file"):
        write_text_atomic(tmp_path / "file" / "a", "x")


def test_a_name_at_the_limit_of_the_file_system_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 255)
    write_text_atomic(path, "x")
    assert read_text(path) == "x"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"NaN",
        b"[Infinity]",
        b"1e999",
        b'{"a": 1, "a": 1}',
        b'{"x": {"a": 1, "b": 2, "a": 3}}',
        b"\xff\xfe\x00",
        b"[" * 200_000,
        b"1" * 5000,
        b"[1] trailing",
    ],
    ids=lambda content: content[:12].decode("latin-1") or "empty",
)
def test_what_is_not_one_json_document_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(BadFileError, match=r"bad\.json") as caught:
        read_json(path)
    assert caught.value.path == path


def test_a_file_torn_at_any_byte_is_never_read_as_something_else(tmp_path: Path) -> None:
    whole = json.dumps({"slug": "a", "verified": True, "n": [1, 2]}).encode()
    path = tmp_path / "torn.json"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(BadFileError):
            read_json(path)


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf[1]")
    assert read_json(tmp_path / "a") == [1]


def test_a_file_over_the_cap_is_not_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"[1,2]")
    assert read_json(tmp_path / "a", max_bytes=5) == [1, 2]
    with pytest.raises(BadFileError, match="larger than 4 bytes"):
        read_json(tmp_path / "a", max_bytes=4)


def test_a_missing_file_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        read_json(tmp_path / "gone")
    with pytest.raises(BadFileError):
        read_json(tmp_path)


@posix
def test_a_fifo_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(BadFileError, match="regular"):
        read_json(tmp_path / "fifo")


@contextmanager
def queued(path: Path, patience_s: float = 20.0) -> Iterator[None]:
    with closing(LockQueue(path, patience_s)) as queue, queue:
        yield


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who holds a lock")
def test_a_held_lock_names_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    with queued(path):
        with pytest.raises(LockHeld) as caught, queued(path, 0.05):
            pytest.fail("two holders")
        assert caught.value.pid == os.getpid()
        assert str(os.getpid()) in str(caught.value)
    with queued(path, 0.05):
        pass


HOLD = (
    "import sys; from pathlib import Path; from state_store.documents.locks import LockQueue\n"
    "with LockQueue(Path(sys.argv[1])):\n print('held', flush=True); sys.stdin.read()\n"
)


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    with child(HOLD, path) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockHeld) as caught, queued(path, 0.05):
            pytest.fail("two holders")
        assert caught.value.pid in (holder.pid, None)
        holder.kill()
        holder.wait(timeout=60)
    with queued(path, 0.05):
        pass


def test_a_waiter_gets_the_lock_when_it_is_released(tmp_path: Path) -> None:
    path, order = tmp_path / "run.lock", []
    started = threading.Event()

    def wait() -> None:
        started.set()
        with queued(path):
            order.append("waiter")

    waiter = threading.Thread(target=wait)
    with queued(path):
        waiter.start()
        assert started.wait(60)
        order.append("holder")
    waiter.join(60)
    assert order == ["holder", "waiter"]


def test_an_error_inside_releases_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    with pytest.raises(OSError, match="inside"), queued(path):
        raise OSError(errno.EIO, "inside")
    with queued(path, 0.05):
        pass


def test_a_lock_that_cannot_be_made_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(CannotRunError, match=tmp_path.name), queued(tmp_path):
        pytest.fail("locked a folder")


@pytest.mark.skipif(sys.platform != "linux", reason="counts open files in /proc")
def test_a_refused_read_leaves_no_file_open(tmp_path: Path) -> None:
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    for _ in range(20):
        with pytest.raises(BadFileError, match="is not a regular file"):
            read_text(tmp_path)
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before


def test_a_name_that_no_file_can_have_is_a_bad_file(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="cannot be read"):
        read_text(tmp_path / "a\0b")


def test_what_is_removed_is_the_place_itself_and_never_what_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    for name in ("file", "link", "folder"):
        assert remove_whatever(tmp_path / name)
        assert not remove_whatever(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_place_of_a_file_stays_and_is_named(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with pytest.raises(CannotRunError, match="place cannot be removed"):
        remove_file(place)
    (place / "kept").touch()
    with pytest.raises(CannotRunError, match="place cannot be removed"):
        remove_whatever(place)
    assert (place / "kept").exists()
