"""tracker.json on a real disk: people's edits survive, and a broken item costs only itself."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from driver.backlog.tracker import (
    Edit,
    load_tracker_items,
    rewrite_items,
    tracker_problems,
    validate_item,
)
from state_store.documents.errors import CannotRunError, InputError
from state_store.documents.files import replace_unchanged
from state_store.documents.item_id import id_of
from state_store.documents.locks import locked
from state_store.tracker.file import read_tracker_file
from state_store.tracker.merge import Item
from tests.support.interpreter import PYTHON
from tests.support.trackers import HAND_WRITTEN

ROOT = Path(__file__).resolve().parents[2]
POSIX_ONLY = pytest.mark.skipif(sys.platform == "win32", reason="users, links and modes are POSIX")


def fixed(fields: Mapping[str, Mapping[str, Any]]) -> Edit:
    """An edit that sets the same fields by id, whatever the item is by now."""
    return partial(_answer, fields)


def _answer(fields: Mapping[str, Mapping[str, Any]], item: Item) -> Mapping[str, Any]:
    return fields.get(str(id_of(item)), {})


# A program for an update in a process of its own; prints how it ended, if not well.
UPDATE = """\
import sys
from pathlib import Path
from state_store.documents.errors import TidegateError
from driver.backlog.tracker import rewrite_items
try:
    done = lambda item: {"status": "done"} if item["id"] in sys.argv[2:] else {}
    rewrite_items(Path(sys.argv[1]), done)
except TidegateError as fault:
    print(type(fault).__name__, int(fault.exit_code), fault)
"""


@pytest.fixture
def tracker(tmp_path: Path) -> Path:
    path = tmp_path / "tracker.json"
    path.write_bytes(HAND_WRITTEN.encode())
    return path


@pytest.fixture
def _nothing_left_behind(tmp_path: Path) -> Iterator[None]:
    yield
    assert [p.name for p in tmp_path.iterdir() if p.suffix in (".tmp", ".lock")] == []


def an_item(**changes: Any) -> dict[str, Any]:
    item = {"id": "1", "slug": "x", "prompt": "p", "ownsFiles": ["a.py"], "testCmd": "true"}
    return {k: v for k, v in {**item, **changes}.items() if v != "absent"}


def write(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path


def update_in_a_process(before: str, path: Path, *ids: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PYTHON, "-B", "-c", before + UPDATE, str(path), *ids],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_both_shapes_are_read_with_the_digest_of_the_bytes(tracker: Path, tmp_path: Path) -> None:
    read = read_tracker_file(tracker)
    assert [item["id"] for item in read.entries] == ["T-1", "T-2", 7]
    assert read.digest == hashlib.sha256(tracker.read_bytes()).hexdigest()
    bare = write(tmp_path / "bare.json", [an_item(), "stray"])
    assert read_tracker_file(bare).entries == (an_item(),)
    (stray,) = read_tracker_file(bare).non_objects
    assert stray == f"entry 2 of {bare} is not an object; correct or remove it"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not usable JSON"),
        (b"{]", "not usable JSON"),
        (b"\xff", "not usable JSON"),
        (b'[{"id": 1, "id": 2}]', "'id' stands twice"),
        (b"5", "no list of items"),
        (b"{}", "no list of items"),
        (b'{"items": {}}', "no list of items"),
        (b'{"version": 2, "items": []}', "has version 2; this program reads version 1 only"),
    ],
)
def test_a_broken_tracker_is_bad_input_not_an_empty_backlog(
    tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_tracker_file(path)
    with pytest.raises(InputError, match=said):
        rewrite_items(path, fixed({"1": {"status": "done"}}))
    assert load_tracker_items(path) == []
    assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]


def test_a_missing_tracker_is_bad_input(tmp_path: Path) -> None:
    for path in (tmp_path / "no.json", tmp_path / "no" / "no.json", tmp_path):
        with pytest.raises(InputError, match="the tracker"):
            read_tracker_file(path)
        with pytest.raises(InputError, match="the tracker"):
            rewrite_items(path, fixed({}))
        assert load_tracker_items(path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_instead_of_a_tracker_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.json")
    with pytest.raises(InputError, match="not a regular file"):
        read_tracker_file(tmp_path / "t.json")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ownsFiles": "absent"}, "no_file_ownership"),
        ({"ownsFiles": []}, "no_file_ownership"),
        ({"ownsFiles": "a.py"}, "no_file_ownership"),
        ({"ownsFiles": ["a", ""]}, "invalid_ownsFiles_entries"),
        ({"ownsFiles": [1]}, "invalid_ownsFiles_entries"),
        ({"ownsFiles": ["../a"]}, "invalid_path"),
        ({"ownsFiles": ["~/x"]}, "invalid_path"),
        ({"ownsFiles": [".git/hooks/pre-commit"]}, "invalid_path"),
        ({"workDir": "../x"}, "invalid_path"),
        ({"slug": ""}, "missing_or_empty_slug"),
        ({"slug": "absent"}, "missing_or_empty_slug"),
        ({"prompt": " "}, "missing_or_empty_prompt"),
        ({"testCmd": None}, "missing_or_empty_testCmd"),
        ({"testCmd": []}, "missing_or_empty_testCmd"),
        ({"id": "absent"}, "missing_id"),
        ({"id": ""}, "invalid_id"),
        ({"effort": "max"}, "invalid_effort"),
    ],
)
def test_a_broken_item_has_a_reason_for_programs_and_people(
    changes: dict[str, Any], reason: str
) -> None:
    (said,) = validate_item(an_item(**changes))
    word, detail = said.split(": ", 1)
    assert word == reason
    assert len(detail) > 10


def test_a_whole_item_has_no_reasons() -> None:
    assert validate_item(an_item(workDir="sub", ownsFiles=["v1..v2/notes.md", "docs/"])) == ()


def test_ids_and_slugs_that_name_two_items_are_told() -> None:
    todo = {"status": "todo"}
    done = {"status": "done"}
    assert tracker_problems([an_item(**todo), an_item(id="2", slug="y", **todo)]) == ()
    assert tracker_problems([an_item(**done), an_item(id="2", **todo)]) == ()
    assert tracker_problems([an_item(**done), an_item(slug="y", **done)]) == ()
    assert tracker_problems([{**todo}, {**todo}]) == ()
    (same_id,) = tracker_problems([an_item(**done), an_item(slug="y", **todo)])
    assert same_id.startswith("duplicate_id: two items have the id '1'")
    (same_slug,) = tracker_problems([an_item(**todo), an_item(id=2, slug="X", **todo)])
    assert same_slug.startswith("duplicate_slug: ")
    assert tracker_problems([an_item(id=1, **todo), an_item(slug="y", **todo)]) == (same_id,)


@pytest.mark.usefixtures("_nothing_left_behind")
def test_an_update_changes_only_the_values_it_sets(tracker: Path) -> None:
    done = rewrite_items(
        tracker,
        fixed(
            {
                "T-2": {"status": "done", "attempts": 2, "reason": "\u00fc"},
                "7": {"status": "failed"},
                "nobody": {"status": "done"},
            }
        ),
    )
    assert done
    expected = HAND_WRITTEN.replace('"status" : "todo"', '"status" : "done"')
    expected = expected.replace(
        'keep \\/ this"',
        'keep \\/ this",\n         "attempts": 2,\n         "reason": "\\u00fc"',
    ).replace('{"id":7}', '{"id":7,"status": "failed"}')
    assert tracker.read_text() == expected


@pytest.mark.parametrize(
    "text",
    [
        '[{"id": "1", "status": "todo"}]',
        '\ufeff[\r\n\t{\r\n\t\t"id": "1",\r\n\t\t"status": "todo"\r\n\t}\r\n]\r\n',
        ' { "items" : [ "stray", { "status" : "todo" , "id" : "1" } ] , "version" : 1 } ',
        '[{"id": "1", "status": "todo", "s": "\u00fc \\ud800 \U0001f600"}]\n\n',
    ],
)
def test_any_layout_survives(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(text.encode())
    assert rewrite_items(path, fixed({"1": {"status": "done"}}))
    assert path.read_bytes() == text.replace('"todo"', '"done"').encode()


def test_a_reason_that_is_no_utf8_can_still_be_written(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('[{"id": "1", "s": "\u00fc"}]', encoding="utf-8")
    rewrite_items(path, fixed({"1": {"reason": "bad name a\udcff"}}))
    assert read_tracker_file(path).entries[0]["reason"] == "bad name a\udcff"


def test_nothing_to_change_writes_nothing(tracker: Path) -> None:
    before = tracker.stat()
    same = fixed({"T-1": {"status": "todo"}, "T-2": {"notes": "keep / this"}})
    assert rewrite_items(tracker, same)
    after = tracker.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_persons_edit_since_intake_is_merged_by_item(tracker: Path) -> None:
    read_tracker_file(tracker)
    edited = HAND_WRITTEN.replace('"slug": "one"', '"slug": "renamed"').replace(
        '{"id":7}', '{"id":7},\n      {"id": "T-9", "status": "todo"}'
    )
    tracker.write_text(edited)
    rewrite_items(tracker, fixed({"T-1": {"status": "done"}}))
    items = {item["id"]: item for item in read_tracker_file(tracker).entries}
    assert items["T-1"]["slug"] == "renamed"
    assert items["T-1"]["status"] == "done"
    assert "T-9" in items


def test_an_edit_in_the_last_moment_is_not_overwritten(tracker: Path) -> None:
    digest = read_tracker_file(tracker).digest
    tracker.write_text("[]")
    assert not replace_unchanged(tracker, b"ours", digest)
    assert tracker.read_text() == "[]"
    assert [p.name for p in tracker.parent.iterdir()] == ["tracker.json"]


@pytest.mark.usefixtures("_nothing_left_behind")
def test_updates_of_many_threads_and_processes_all_arrive(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", [{"id": str(n)} for n in range(60)])
    updates = [
        threading.Thread(target=update_in_a_process, args=("", path, *map(str, range(n, n + 5))))
        for n in range(0, 20, 5)
    ]
    updates += [
        threading.Thread(target=rewrite_items, args=(path, fixed({str(n): {"status": "done"}})))
        for n in range(20, 60)
    ]
    for update in updates:
        update.start()
    for update in updates:
        update.join()
    assert {item.get("status") for item in read_tracker_file(path).entries} == {"done"}


def test_a_lock_left_by_a_dead_process_holds_nobody_up(tracker: Path) -> None:
    lock = tracker.with_name("tracker.json.lock")
    lock.write_bytes(b"left over")
    assert rewrite_items(tracker, fixed({"T-1": {"status": "done"}}))
    assert not lock.exists()


def test_two_holders_of_the_lock_never_overlap(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def enter(number: int) -> None:
        for _ in range(20):
            with locked(tmp_path / "t.json"):
                inside.append(number)
                most.append(len(inside))
                tmp_path.stat()  # lets another thread run
                inside.remove(number)

    threads = [threading.Thread(target=enter, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 160
    assert max(most) == 1
    assert list(tmp_path.iterdir()) == []


def test_who_cannot_get_the_lock_in_time_is_told_who_has_it(tracker: Path) -> None:
    with locked(tracker):
        taken = r"another process has held .*tracker\.json\.lock"
        with pytest.raises(CannotRunError, match=taken), locked(tracker, patience_s=0.05):
            pass
        assert tracker.with_name("tracker.json.lock").exists()
    with locked(tracker, patience_s=0.05):
        pass


@POSIX_ONLY
def test_a_link_to_the_tracker_and_its_mode_stay(tracker: Path, tmp_path: Path) -> None:
    tracker.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(tracker.name)
    rewrite_items(link, fixed({"T-1": {"status": "done"}}))
    assert link.is_symlink()
    assert tracker.stat().st_mode & 0o777 == 0o640
    assert read_tracker_file(tracker).entries[0]["status"] == "done"


@POSIX_ONLY
def test_a_tracker_that_cannot_be_written_is_told_in_one_sentence() -> None:
    """Not in tmp_path: root's is closed to the ordinary user that this needs."""
    drop_root = (
        "import os\nimport driver.backlog.tracker\n"
        "if os.geteuid() == 0:\n    os.setgid(65534)\n    os.setuid(65534)\n"
    )
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "tracker.json"
        path.write_text(HAND_WRITTEN)
        path.parent.chmod(0o555)
        try:
            ran = update_in_a_process(drop_root, path, "T-1")
            assert path.read_text() == HAND_WRITTEN
        finally:
            path.parent.chmod(0o755)
    assert ran.stdout.startswith("CannotRunError 4 "), ran.stdout + ran.stderr
    assert "tracker.json.lock cannot be locked: Permission denied" in ran.stdout


@pytest.mark.more
@POSIX_ONLY
def test_a_full_disk_keeps_the_old_tracker_whole(tmp_path: Path) -> None:
    """A process whose files may not grow stands for a disk without room."""
    path = write(tmp_path / "t.json", [{"id": str(n), "pad": "x" * 100} for n in range(500)])
    before = path.read_bytes()
    no_room = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    )
    ran = update_in_a_process(no_room, path, "1")
    assert ran.stdout.startswith("CannotRunError 4 "), ran.stdout + ran.stderr
    assert os.strerror(errno.EFBIG) in ran.stdout
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]
