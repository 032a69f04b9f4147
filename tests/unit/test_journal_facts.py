"""The facts of a journal are those of its entries, whatever an earlier process has kept of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from state_store.documents import journal_facts as facts_of
from state_store.documents.journal import load_entries, write_entry
from state_store.documents.journal_facts import FILE_NAME, JournalFacts, journal_facts, keep_facts

LONG_AGO = time.time() - 1000
LONG = {"evidence": {"big": "x" * 99}}


def a_journal(state: Path, count: int = 150) -> None:
    for number in range(count):
        facts = {"waveId": f"w{number}", "anchor": f"wave:w{number}@3:0123456789abcdef"}
        path = write_entry(
            state, f"s{number}", "verified", {**facts, "evidence": {"big": "x" * 99}}
        )
        os.utime(path, (LONG_AGO, LONG_AGO))


def in_a_fresh_process(state: Path, *, keep: bool = False) -> list[str]:
    """The number of entries, and the files that another process has read. To keep what it read, it
    looks at a time when all files are at rest."""
    code = (
        "import sys; from pathlib import Path\n"
        "from state_store.documents import journal_facts as f\n"
        "read = []\n"
        "sys.addaudithook(lambda what, args: what == 'open' and str(args[0]).endswith('.json')"
        " and read.append(Path(str(args[0])).stem))\n"
        f"state, later = Path(sys.argv[1]), {time.time_ns() + 10**12 if keep else None}\n"
        "found = f.journal_facts(state, now_ns=later)\n"
        "print(len(found.latest), *read)\n" + ("f.keep_facts(state)\n" if keep else "")
    )
    command = [sys.executable, "-c", code, str(state)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.split()


def whole(found: JournalFacts) -> dict[Any, Any]:
    return {key: (fact["slug"], fact.get("waveId")) for key, fact in found.latest.items()}


def test_a_later_process_reads_only_what_changed(tmp_path: Path) -> None:
    a_journal(tmp_path)
    assert len(in_a_fresh_process(tmp_path, keep=True)) > 150
    assert in_a_fresh_process(tmp_path) == ["150", "journal_facts"]
    write_entry(tmp_path, "s7", "verified", {"waveId": "new"})
    write_entry(tmp_path, "fresh", "verified", {"waveId": "new"})
    assert in_a_fresh_process(tmp_path) == ["151", "journal_facts", "fresh", "s7"]
    found = journal_facts(tmp_path)
    entries, _ = load_entries(tmp_path)
    assert whole(found) == {key: (e["slug"], e.get("waveId")) for key, e in entries.items()}
    assert found.about("s7", None, None) == [entries[None, "s7"]]
    assert found.about("s8", "/r", None)[0]["evidence"] == {"big": "x" * 99}


def test_a_change_within_the_process_is_seen(tmp_path: Path) -> None:
    a_journal(tmp_path, 3)
    assert len(journal_facts(tmp_path).latest) == 3
    write_entry(tmp_path, "s1", "verified", {"waveId": "other"})
    assert journal_facts(tmp_path).latest[None, "s1"]["waveId"] == "other"
    (tmp_path / "journal" / "s1.json").unlink()
    (tmp_path / "journal" / "bad.json").write_text("no entry")
    found = journal_facts(tmp_path)
    assert found.latest.keys() == {(None, "s0"), (None, "s2")}
    assert found.unreadable == (tmp_path / "journal" / "bad.json",)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("spoil", ["cut", "forged", "empty", "other"])
def test_a_damaged_file_is_not_believed(tmp_path: Path, spoil: str) -> None:
    a_journal(tmp_path)
    in_a_fresh_process(tmp_path, keep=True)
    kept = tmp_path / FILE_NAME
    data = kept.read_bytes()
    forged = data.replace(b'"w3"', b'"w4"')
    kept.write_bytes({"cut": data[:-9], "forged": forged, "empty": b"",
                      "other": b"0\n" + json.dumps({"layout": 9}).encode()}[spoil])  # fmt: skip
    assert forged != data
    assert len(in_a_fresh_process(tmp_path)) > 150
    assert journal_facts(tmp_path).latest[None, "s3"]["waveId"] == "w3"


def test_a_dry_look_writes_nothing_and_few_entries_are_not_kept(tmp_path: Path) -> None:
    a_journal(tmp_path, 5)
    journal_facts(tmp_path)
    keep_facts(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["journal"]


def test_a_file_put_in_place_of_another_is_read(tmp_path: Path) -> None:
    a_journal(tmp_path)
    in_a_fresh_process(tmp_path, keep=True)
    path = tmp_path / "journal" / "s3.json"
    text = path.read_text().replace('"w3"', '"w9"')
    before = path.stat()
    shutil.copy(path, tmp_path / "old")
    path.write_text(text)  # the same size, and the time set back
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert in_a_fresh_process(tmp_path) == ["150", "journal_facts", "s3"]
    assert facts_of.journal_facts(tmp_path).latest[None, "s3"]["waveId"] == "w9"


def test_a_file_edited_in_place_is_read_again_in_the_same_process(tmp_path: Path) -> None:
    a_journal(tmp_path, 3)
    later = time.time_ns() + 10**12  # all files are at rest
    first = journal_facts(tmp_path, now_ns=later)
    assert journal_facts(tmp_path, now_ns=later) is first
    path = tmp_path / "journal" / "s1.json"
    text, before = path.read_text().replace('"w1"', '"w9"'), path.stat()
    path.write_text(text)  # the same file of the same size, and the time set back
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert journal_facts(tmp_path, now_ns=later, only_replaced=True) is first
    assert journal_facts(tmp_path, now_ns=later).latest[None, "s1"]["waveId"] == "w9"
    write_entry(tmp_path, "s2", "verified", {"waveId": "w8"})
    found = journal_facts(tmp_path, now_ns=later, only_replaced=True)
    assert found.latest[None, "s2"]["waveId"] == "w8"


def test_what_this_process_replaces_is_seen_though_the_number_is_the_same(tmp_path: Path) -> None:
    """A file system gives a new file the number that an earlier one had."""
    a_journal(tmp_path, 3)
    later = time.time_ns() + 10**12
    path = tmp_path / "journal" / "s1.json"
    write_entry(tmp_path, "s1", "verified", {"waveId": "w1"})
    journal_facts(tmp_path, now_ns=later)
    path.write_text(path.read_text().replace('"w1"', '"w9"'))  # in place, so it has the same number
    write_entry(tmp_path, "s2", "verified", {"waveId": "w2"})  # so the folder is another one
    found = journal_facts(tmp_path, now_ns=later, only_replaced=True)
    assert found.latest[None, "s1"]["waveId"] == "w9"
