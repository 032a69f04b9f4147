"""Pure parts of running git: environments, redaction, quoting, the fast-import stream."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from driver.domain.results import Change
from driver.git.command import (
    GitError,
    c_quoted,
    private_environment,
    redacted,
    user_environment,
    with_config,
)
from driver.git.commit_spec import CommitSpec, import_stream

HOME = Path("/nowhere")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://user:canary@host/x.git", "https://***@host/x.git"),
        ("two https://a@h/x ssh://git:canary@h/y", "two https://***@h/x ssh://***@h/y"),
        ("git@host:x.git", "git@host:x.git"),
        ("https://host/a@b", "https://host/a@b"),
    ],
)
def test_credentials_in_urls_are_redacted(text: str, expected: str) -> None:
    assert redacted(text) == expected


def test_a_git_error_carries_no_credentials_anywhere() -> None:
    url = "https://u:canary@host/x"
    error = GitError(("git", "push", url), 128, f"fatal: no access to {url}".encode())
    assert "canary" not in f"{error} {error.argv} {error.stderr}"
    assert str(error) == "git push ended with 128: fatal: no access to https://***@host/x"


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_NAMESPACE"])
def test_variables_set_inside_a_hook_never_lead_git_elsewhere(name: str) -> None:
    environ = {name: "/elsewhere", "PATH": "/bin"}
    assert name not in user_environment(environ)
    assert name not in private_environment(environ, HOME)


def test_the_private_environment_has_no_setting_and_no_secret_of_the_user() -> None:
    environ = {
        "PATH": "/bin",
        "HOME": "/home/u",
        "XDG_CONFIG_HOME": "/home/u/.c",
        "GIT_CONFIG_GLOBAL": "/home/u/g",
        "GIT_CONFIG_COUNT": "1",
        "GIT_SSH_COMMAND": "evil",
        "API_KEY": "canary",
    }
    env = private_environment(environ, HOME)
    assert not {"API_KEY", "GIT_SSH_COMMAND"} & env.keys()
    assert env["HOME"] == env["XDG_CONFIG_HOME"] == str(HOME)
    assert env["GIT_CONFIG_GLOBAL"] == os.devnull
    assert env["GIT_CONFIG_KEY_0"] == "core.hooksPath"


def test_the_users_own_configuration_by_environment_is_kept_and_ours_wins() -> None:
    environ = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
    env = with_config(user_environment(environ), (("a.b", "c"),))
    last = int(env["GIT_CONFIG_COUNT"]) - 1
    assert env["GIT_CONFIG_KEY_0"] == "safe.directory"
    assert env["GIT_CONFIG_KEY_1"] == "core.hooksPath"
    assert (env[f"GIT_CONFIG_KEY_{last}"], env[f"GIT_CONFIG_VALUE_{last}"]) == ("a.b", "c")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a b", b'"a b"'),
        ('q"\\', rb'"q\042\134"'),
        ("l\nb", rb'"l\012b"'),
        ("\u00fc", rb'"\303\274"'),
        ("\udcff", rb'"\377"'),
    ],
)
def test_odd_paths_are_quoted_the_way_git_reads_them(path: str, expected: bytes) -> None:
    assert c_quoted(path) == expected


def test_a_name_cannot_end_the_author_line_early() -> None:
    change = Change("f", None, None, "100644")
    spec = CommitSpec("m", (change,), "Eve <x>\ncommitter", "e>@x", "1 +0000")
    assert b"author Eve xcommitter <e@x> 1 +0000\n" in import_stream("refs/r", "p", [spec])
