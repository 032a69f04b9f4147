"""A manifest on disk: whatever the file is, the answer is one sentence or a manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driver.domain.work_item import Manifest, parse_manifest
from state_store.documents.errors import InputError
from state_store.documents.json_document import read_json

ITEM = {"slug": "x", "prompt": "do it", "ownsFiles": ["a.py"], "testCmd": "true"}


def load(path: Path) -> Manifest:
    return parse_manifest(read_json(path, "manifest").value, new_wave_id=lambda: "w")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting property name"),
        (b"\xff\xfe", "codec can't decode"),
        (b'{"items": [], "items": []}', "'items' stands twice"),
        (b'{"items": NaN}', "NaN is not a JSON number"),
        (b'{"items": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"items": 1e999}', "too large"),
        (b'{"items": ' + b"1" * 5000 + b"}", "limit"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"items": [1 2]}', "Expecting"),
        (b'{"items": []} x', "Extra data"),
    ],
)
def test_a_file_that_is_no_strict_json_is_one_sentence(
    tmp_path: Path, content: bytes, said: str
) -> None:
    file = tmp_path / "m.json"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"the manifest .*m\.json is not usable JSON: ") as refusal:
        load(file)
    assert said in str(refusal.value)


def test_a_missing_manifest_or_a_folder_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist; name an existing file"):
        load(tmp_path / "m.json")
    with pytest.raises(InputError, match="is not a regular file"):
        load(tmp_path)


def test_a_huge_manifest_is_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    with file.open("wb") as sparse:
        sparse.truncate(100_000_001)
    with pytest.raises(InputError, match="is larger than"):
        load(file)


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps({"items": [ITEM]}).encode())
    assert load(file).items[0].slug == "x"
