"""The recording format: what goes in comes out, and a bad line is named."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from driver.backend_api.driver import FAILURE_AGENT, Usage
from driver.backends.recorded import Recorded, RecordedFile, path_problem, prompt_sha256
from driver.backends.recording import RecordingWriter, load_recording
from state_store.documents.errors import CannotRunError, InputError

FULL = Recorded(
    item="item-1",
    phase="repair",
    number=2,
    prompt="Gr\u00fc\u00dfe \ud800 \r\n",
    ok=False,
    error="no",
    text="h\u00e9",
    model="m",
    usage=Usage(1, 2, 0.5),
    duration_s=1.5,
    files=(
        RecordedFile("a/b.txt", "100644", "h\u00e9\r\n".encode()),
        RecordedFile("run", "100755", b"\xff\x00"),
        RecordedFile("link", "120000", b"a/b.txt"),
        RecordedFile("gone", None),
    ),
    failure="timed_out",
    structured={"verdict": "pass"},
)
PLAIN = Recorded(item="x", phase="build", number=1, prompt="p", ok=True)


@pytest.mark.parametrize("entry", [FULL, PLAIN])
def test_what_goes_in_comes_out(entry: Recorded) -> None:
    assert Recorded.from_json(json.loads(json.dumps(entry.to_json()))) == entry


def test_a_hand_written_line_needs_only_the_essentials() -> None:
    record = {"item": "x", "phase": "build", "number": 1, "prompt": "p", "ok": False}
    assert Recorded.from_json(record) == Recorded(
        "x", "build", 1, "p", ok=False, failure=FAILURE_AGENT
    )


def test_unknown_use_stays_unknown() -> None:
    assert PLAIN.to_json()["usage"] == {
        "input_tokens": None,
        "output_tokens": None,
        "cost_usd": None,
    }


def test_content_that_is_text_is_readable_and_other_content_is_base64() -> None:
    text, other, _, gone = FULL.to_json()["files"]
    assert text == {"path": "a/b.txt", "mode": "100644", "text": "h\u00e9\r\n"}
    assert other == {"path": "run", "mode": "100755", "base64": "/wA="}
    assert gone == {"path": "gone", "mode": None}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"item": ""}, "item must not be empty"),
        ({"item": 7}, "item must be a text"),
        ({"phase": None}, "phase must be a text"),
        ({"number": 0}, "number must"),
        ({"number": True}, "number must"),
        ({"prompt": "other"}, "promptSha256 is not the digest"),
        ({"ok": "yes"}, "ok must be true or false"),
        ({"error": 1}, "error must be a text"),
        ({"model": []}, "model must be a text"),
        ({"structured": []}, "structured must be an object"),
        ({"usage": []}, "usage must be an object"),
        ({"usage": {"input_tokens": -1}}, "usage: input_tokens"),
        ({"durationS": "long"}, "durationS must"),
        ({"files": {}}, "files must be a list"),
        ({"files": ["a"]}, "files, entry 1: must be an object"),
        ({"files": [{"path": 1}]}, "files, entry 1: path must be a text"),
        ({"files": [{"path": "../a", "mode": None}]}, "files, entry 1: path '../a'"),
        ({"files": [{"path": "a", "mode": "160000"}]}, "files, entry 1: mode must be one of"),
        ({"files": [{"path": "a", "mode": []}]}, "files, entry 1: mode must be one of"),
        ({"files": [{"path": "a", "mode": "100644"}]}, "files, entry 1: needs its content"),
        ({"files": [{"path": "a", "mode": "100644", "base64": "?"}]}, "cannot be decoded"),
        (
            {"files": [{"path": "a", "mode": "100644", "base64": "", "text": ""}]},
            "needs its content",
        ),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        Recorded.from_json({**PLAIN.to_json(), **change})
    (found,) = caught.value.problems
    assert problem in found


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "..",
        "../a",
        "a/../../b",
        "a/./b",
        "a//b",
        "a/",
        ".",
        "C:/x",
        "C:x",
        "//host/share",
        "a\\..\\b",
        "a\0b",
        ".git/config",
        "sub/.GIT/hooks/x",
    ],
)
def test_a_path_that_leaves_the_repository_or_enters_git_is_refused(path: str) -> None:
    assert path_problem(path)


@pytest.mark.parametrize("path", ["a", "a/b.c", ".github/x", ".gitignore", "...", "-x", "a b"])
def test_ordinary_paths_are_fine(path: str) -> None:
    assert path_problem(path) == ""


def test_many_threads_write_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "new/wave.jsonl"
    writer = RecordingWriter(path)
    entries = [Recorded("x", "build", n, "p" * 20_000, ok=True, text=str(n)) for n in range(1, 41)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(writer.write, entries))
    assert load_recording(path) == {entry.key: entry for entry in entries}


def test_a_later_writer_goes_on_and_a_later_entry_counts(tmp_path: Path) -> None:
    path = tmp_path / "wave.jsonl"
    RecordingWriter(path).write(PLAIN)
    later = Recorded("x", "build", 1, "p", ok=True, text="later")
    RecordingWriter(path).write(later)
    assert load_recording(path) == {later.key: later}
    assert path.read_text(encoding="ascii").count("tidegate-recording") == 1


def test_a_writer_leaves_a_file_alone_that_is_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"notes\.txt:1"):
        RecordingWriter(path)
    assert path.read_text(encoding="utf-8") == "dear diary\n"


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CannotRunError, match="recording"):
        RecordingWriter(tmp_path / "file/wave.jsonl")


HEADER = '{"format":"tidegate-recording","version":1}\n'


@pytest.mark.parametrize(
    ("content", "problems"),
    [
        ("", ["wave.jsonl:1: this is not a recording"]),
        ("[]\n", ["wave.jsonl:1: this is not a recording"]),
        (HEADER.replace("1}", "2}"), ["wave.jsonl:1: version 2 is not 1"]),
        (HEADER + "{}", ["wave.jsonl:2: the line is cut short"]),
        (HEADER + "{\n", ["wave.jsonl:2: it is not JSON"]),
        (HEADER + "[" * 100_000 + "\n", ["wave.jsonl:2: it is not JSON"]),
        (HEADER + "\n7\n", ["wave.jsonl:2: it is not JSON", "wave.jsonl:3: a dispatch must be"]),
    ],
)
def test_every_bad_line_is_named_with_its_number(
    tmp_path: Path, content: str, problems: list[str]
) -> None:
    path = tmp_path / "wave.jsonl"
    path.write_bytes(content.encode())
    with pytest.raises(InputError) as caught:
        load_recording(path)
    assert len(caught.value.problems) == len(problems)
    for found, expected in zip(caught.value.problems, problems, strict=True):
        assert expected in found


def test_the_digest_is_of_the_utf_8_text() -> None:
    assert prompt_sha256("abc").startswith("ba7816bf8f01cfea")
