"""The redactor finds each spelling, keeps honest words, cuts nothing and takes linear time."""

from __future__ import annotations

import base64
import html
import json
import os
import shlex
import time
from pathlib import Path
from urllib.parse import quote_plus

import pytest

from driver.filesystem.redacted_files import redact_folder
from driver.filesystem.safe_file_access import read_growing, read_plain_end
from state_store.redaction.installed import hide, hiding, redacted, scope
from state_store.redaction.redactor import Redactor
from tests.support.secrets import noise, pem
from tools.secret_rules.hidden_values import hidden_values, is_worth_hiding
from tools.settings.load import load
from tools.settings.secret_values import secret_values

SECRET = 'Tr0ub4dor &"<3>/+=\\n\u00e9' + noise(20)
NAME = {"API_KEY": SECRET}
HIDDEN = "[API_KEY]"


def spread(text: str, width: int, between: str) -> str:
    return between.join(text[at : at + width] for at in range(0, len(text), width))


SPELLINGS = {
    "plain": SECRET,
    "base64": base64.b64encode(f"user:{SECRET}".encode()).decode(),
    "base64 wrapped": base64.encodebytes(f"{SECRET}{SECRET}".encode()).decode(),
    "base64 in a JSON text": json.dumps(base64.encodebytes(f"{SECRET}{SECRET}".encode()).decode()),
    "base64 in a URL": quote_plus(base64.b64encode(SECRET.encode()).decode()),
    "hex by colons": SECRET.encode().hex(":").upper(),
    "hex escapes": "".join(f"\\x{byte:02x}" for byte in SECRET.encode()),
    "percent escapes": "".join(f"%{byte:02X}" for byte in SECRET.encode()),
    "byte list": ", ".join(f"0x{byte:02x}" for byte in SECRET.encode()),
    "JSON": json.dumps(SECRET),
    "JSON in JSON": json.dumps(json.dumps(SECRET)),
    "JSON for HTML": json.dumps(SECRET)
    .replace("&", "\\u0026")
    .replace("<", "\\u003c")
    .replace(">", "\\u003e"),
    "HTML": html.escape(SECRET),
    "form": quote_plus(SECRET),
    "shell": shlex.quote(SECRET + "'"),
    "repr": repr(SECRET),
    "reversed": SECRET[::-1],
    "split over lines": spread(SECRET, 7, "\n"),
    "split over lines of code": spread(SECRET.replace('"', "'"), 9, '" +\n    "'),
    "UTF-16": SECRET.encode("utf-16-le").decode("latin-1").replace("\u00e9", "\u00e9"),
}


@pytest.mark.parametrize("how", [one for one in SPELLINGS if one != "UTF-16"])
def test_each_spelling_is_replaced(how: str) -> None:
    redactor = Redactor(NAME)
    shown = redactor.text(f"before {SPELLINGS[how]} after")
    assert HIDDEN in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    assert SECRET[4:12] not in shown


@pytest.mark.parametrize("how", SPELLINGS)
def test_a_document_of_json_stays_one(how: str) -> None:
    document = json.dumps({"text": SPELLINGS[how], SPELLINGS[how]: [1, SPELLINGS[how] * 2]})
    json.loads(Redactor(NAME).data(document.encode()))
    assert json.dumps(Redactor(NAME).value(json.loads(document)))


def test_a_text_without_secrets_is_the_same_object() -> None:
    text = "nothing to see \ud800 here\n" * 100
    assert Redactor(NAME).text(text) is text
    assert Redactor({}).text(SECRET) is SECRET


@pytest.mark.parametrize("size", [1, 7, 64, 5000])
def test_blocks_hide_what_goes_over_their_borders(size: int) -> None:
    data = b"".join(b"x" * (997 * n % 3001) + SECRET.encode() for n in range(40))
    blocks = (data[at : at + size] for at in range(0, len(data), size))
    assert b"".join(Redactor(NAME).stream(blocks)) == Redactor(NAME).data(data)
    assert SECRET.encode() not in Redactor(NAME).data(data)


def test_a_reader_of_a_growing_file_sees_no_part_of_a_secret(tmp_path: Path) -> None:
    file = tmp_path / "agent.out"
    with hiding(NAME):
        for cut in range(8, len(SECRET.encode()), 3):
            file.write_bytes(b"a line\n" + SECRET.encode()[:cut])
            assert read_plain_end(tmp_path, file.name, 100)[0] == b"a line\n[API_KEY]"
        file.write_bytes(b"a line\n" + SECRET.encode() + b" end")
        for start in range(8, 20):
            with file.open("rb") as stream:
                assert read_growing(stream, start, 1000) == b"[API_KEY] end"


def test_files_are_cleaned_in_place_but_saved_changes_stay(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "answer.md").write_text(f"it is {SECRET}\n", encoding="utf-8")
    (tmp_path / "work.patch").write_text(f"+{SECRET}\n", encoding="utf-8")
    outside = tmp_path / "outside"
    outside.write_text(SECRET, encoding="utf-8")
    (tmp_path / "inner" / "link").symlink_to(outside)
    os.mkfifo(tmp_path / "inner" / "pipe")
    with hiding(NAME):
        redact_folder(tmp_path / "inner")
    assert (tmp_path / "inner" / "answer.md").read_text(encoding="utf-8") == "it is [API_KEY]\n"
    assert SECRET in (tmp_path / "work.patch").read_text(encoding="utf-8")
    assert outside.read_text(encoding="utf-8") == SECRET


def test_secrets_are_hidden_until_their_block_or_scope_ends() -> None:
    with scope(), hiding(NAME):
        hide({"OTHER_KEY": "another-one-4711"})
        assert redacted(f"{SECRET} another-one-4711") == "[API_KEY] [OTHER_KEY]"
    assert redacted(SECRET) is SECRET


@pytest.mark.parametrize(
    "value",
    ["true", "production", "postgres", "1234567890", "aaaaaaaaaaaa", "changeme", "your-key-here",
     "/usr/bin", "~", "development-database", "https://auth.example.com/oauth/token"],
)  # fmt: skip
def test_an_honest_word_is_no_secret(value: str) -> None:
    assert hidden_values({"APP_KEY": value}) == {}


@pytest.mark.parametrize(
    "value", ["hunter2hunter2", "S0mmer!Regen", "correct-horse-battery-staple"]
)
def test_a_password_is_a_secret(value: str) -> None:
    assert is_worth_hiding(value)
    assert hidden_values({"DB_PASSWORD": value}) == {"DB_PASSWORD": value}


def test_an_address_hides_its_password_and_its_random_parts() -> None:
    token = noise(24)
    found = hidden_values(
        {
            "DATABASE_URL": "postgres://app:hunter2hunter2@db.example.com/main",
            "CHAT_WEBHOOK": f"https://hooks.example.org/services/T0/{token}",
        }
    )
    assert set(found.values()) == {"hunter2hunter2", token}


def test_the_login_that_a_job_hands_to_git_is_a_secret() -> None:
    login = base64.b64encode(f"x-access-token:{noise(20)}".encode()).decode()
    environ = {
        "GIT_CONFIG_KEY_0": "http.extraheader",
        "GIT_CONFIG_VALUE_0": f"Authorization: Basic {login}",
    }
    assert hidden_values(environ) == {"GIT_CONFIG_VALUE_0": login}


def test_the_values_of_files_are_secrets(tmp_path: Path) -> None:
    token, other = noise(24), noise(24, 2)
    env = tmp_path / ".env"
    env.write_text(f"# a note\nexport API_KEY='{token}'\nDEBUG=true\nNAME=my-app\n", "utf-8")
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"a": {"b": [other]}, "name": "my-application"}), "utf-8")
    key = tmp_path / "id"
    key.write_text(pem(), "utf-8")
    settings = load(
        environ={},
        cwd=tmp_path,
        project=tmp_path,
        flags={"secrets.files": [env, keys, key, "none"]},
    )
    found = secret_values(settings)
    assert {token, other} <= set(found.values())
    assert not {"true", "my-app", "my-application"} & set(found.values())
    line = pem().splitlines()[1]
    assert line not in Redactor(found).text(f"a line of it: {line}")


@pytest.mark.more
def test_ten_times_the_text_takes_about_ten_times_the_time() -> None:
    redactor = Redactor({f"KEY_{n}": noise(32, n) for n in range(50)})
    redactor.text(noise(100))

    def took(data: bytes) -> float:
        began = time.process_time()
        redactor.data(data)
        return time.process_time() - began

    for text in (noise(1000).encode(), b"a", b"\\", noise(32, 3)[:20].encode(), b"\n"):
        small, large = ((text * 1_000_000)[:size] for size in (100_000, 1_000_000))
        assert min(took(large) for _ in range(3)) < 40 * min(took(small) for _ in range(3)) + 0.05
