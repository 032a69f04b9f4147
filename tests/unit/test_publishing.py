"""An item is stopped by secrets that it adds, and by no others."""

from __future__ import annotations

import base64

from tests.support.secrets import aws_key, github, noise
from tools.secret_rules.publishing import objections

KNOWN = {"API_KEY": noise(24, 9)}
VALUE = KNOWN["API_KEY"].encode()


def test_what_holds_no_secret_may_be_published() -> None:
    assert objections("a.py", b"value = 1\n", KNOWN) == []
    assert objections("a.bin", bytes(range(256)), KNOWN, b"old") == []


def test_a_secret_that_is_new_is_told_by_place_and_kind_and_never_by_value() -> None:
    data = f"x = 1\nkey = '{github()}'\n".encode() + base64.b64encode(VALUE)
    told = objections("a.py", data, KNOWN, b"x = 1\n")
    assert told == [
        f"a.py:2 github_token ({github()[:4]}*** 40 characters)",
        "a.py holds the value of API_KEY (base64)",
    ]
    assert github() not in str(told)


def test_a_secret_that_was_there_before_does_not_stop_who_changes_another_line() -> None:
    base = github().encode() + b"\n" + VALUE
    assert objections("a.py", b"# moved\n" + base, KNOWN, base) == []
    added = base + b"\n" + aws_key().encode()
    assert [line.split()[1] for line in objections("a.py", added, KNOWN, base)] == [
        "aws_access_key"
    ]


def test_a_pragma_softens_what_it_may_and_its_removal_counts() -> None:
    text = f'password = "{noise(14, 5)}"\n'.encode()
    documented = b"# secretscan: allow-pattern-docs\n" + text
    assert objections("a.py", documented, KNOWN) == []
    assert len(objections("a.py", text, KNOWN, documented)) == 1
    assert objections("a.py", documented + b"x = 1\n", KNOWN, text) == []


def test_a_new_file_of_keys_is_told_by_its_name() -> None:
    (told,) = objections("d/k.p12", b"\0", KNOWN)
    assert told.startswith("d/k.p12:0 credential_filename")
    assert objections("d/k.p12", b"\0\1", KNOWN, b"\0") == []


def test_a_name_is_published_too() -> None:
    assert objections(f"{github()}.txt", b"", KNOWN) == ["the name of a file is a github_token"]
    named = objections(f"d/{KNOWN['API_KEY']}", b"", KNOWN)
    assert named == ["the name of a file holds the value of API_KEY"]
