"""What may be run, what a child may see, and the sentences about it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from driver.execution.command import unusable, why_not
from driver.execution.processes import (
    Command,
    Ending,
    Finished,
    child_environment,
    could_not_run_reason,
    shell_argv,
)

PARENT = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "LC_ALL": "C",
    "SECRET": "s",
    "OPENAI_API_KEY": "k",
    "GIT_DIR": "/elsewhere",
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_AUTHOR_NAME": "me",
    "TIDEGATE_ITEM": "a",
}


@pytest.mark.parametrize(
    ("names", "extra", "more"),
    [
        ((), None, {}),
        (("OPENAI_API_KEY",), None, {"OPENAI_API_KEY": "k"}),
        (("MISSING",), None, {}),
        (("TIDEGATE_*",), None, {"TIDEGATE_ITEM": "a"}),
        (("GIT_DIR", "GIT_CONFIG_KEY_0"), None, {}),
        (("GIT_*",), None, {"GIT_AUTHOR_NAME": "me"}),
        ((), {"A": "b", "PATH": "/mine"}, {"A": "b", "PATH": "/mine"}),
        ((), {"GIT_CONFIG_GLOBAL": "/dev/null"}, {"GIT_CONFIG_GLOBAL": "/dev/null"}),
    ],
)
def test_a_child_sees_a_short_list_and_what_was_named(
    names: tuple[str, ...], extra: dict[str, str] | None, more: dict[str, str]
) -> None:
    always = {"PATH": "/bin", "HOME": "/home/me", "LC_ALL": "C"}
    assert child_environment(PARENT, names, extra) == always | more


def test_even_the_star_passes_no_variable_that_moves_a_git() -> None:
    assert not {"GIT_DIR", "GIT_CONFIG_KEY_0"} & child_environment(PARENT, ("*",)).keys()


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS", "ENV"),
        *("BASH_ENV", "PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS", "GOFLAGS", "RUSTC_WRAPPER"),
        *("GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "PYTEST_ADDOPTS", "npm_config_script_shell"),
        *("SSH_AUTH_SOCK", "DOCKER_HOST", "DBUS_SESSION_BUS_ADDRESS", "GPG_AGENT_INFO"),
        *("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "KUBECONFIG", "IS_SANDBOX", "CARGO_BUILD_RUSTC"),
    ],
)
def test_what_runs_other_code_or_leads_to_keys_passes_only_by_its_whole_name(name: str) -> None:
    parent = {name: "x", "PLAIN": "y"}
    assert child_environment(parent) == {}
    assert child_environment(parent, ("*", f"{name[:3]}*")) == {"PLAIN": "y"}
    assert child_environment(parent, (name,)) == {name: "x"}


def test_toolchains_are_found_by_their_variables() -> None:
    found = {
        "CARGO_HOME": "/t/cargo",
        "PYENV_ROOT": "/t/pyenv",
        "JAVA_HOME": "/t/java",
        "TZ": "UTC",
    }
    assert child_environment({**found, "CARGO_REGISTRY_TOKEN": "t", "GOAUTH": "x"}) == found


@pytest.mark.parametrize(
    ("argv", "env", "word"),
    [
        ((), {}, "empty"),
        ("", {}, "empty"),
        (("a", "b\0c"), {}, "NUL"),
        (("a",), {"B": "\0"}, "NUL"),
        (("a", "\ud800"), {}, "cannot pass on"),
        (("a",), {"": "x"}, "name"),
        (("a",), {"B=C": "x"}, "name"),
        (("a",), {"B": "x=y"}, ""),
        (("a", "\udcff"), {}, ""),
    ],
)
def test_what_no_system_can_run_is_refused_in_words(
    argv: tuple[str, ...] | str, env: dict[str, str], word: str
) -> None:
    said = unusable(Command(argv, Path(), env, None))
    assert word in said
    assert bool(said) is bool(word)


@pytest.mark.parametrize(
    ("problem", "word"),
    [
        (OSError(errno.ENOENT, ""), "not found"),
        (OSError(errno.EACCES, ""), "is not executable"),
        (OSError(errno.E2BIG, ""), "too long"),
        (OSError(errno.ENOENT, "No such file", "/a/b"), "No such file (/a/b)"),
        (OSError(errno.EIO, ""), "Input/output error"),
    ],
)
def test_a_program_that_did_not_start_is_explained(problem: OSError, word: str) -> None:
    assert why_not("prog", problem).startswith("cannot start prog: ")
    assert word in why_not("prog", problem)


@pytest.mark.parametrize(
    ("ending", "code", "words"),
    [
        (Ending.EXITED, 0, ""),
        (Ending.EXITED, 1, ""),
        (Ending.EXITED, -9, ""),
        (Ending.TIMED_OUT, None, ""),
        (Ending.CANCELLED, None, ""),
        (Ending.EXITED, 127, "not found (exit 127): sh: last"),
        (Ending.EXITED, 126, "not executable (exit 126): sh: last"),
        (Ending.COULD_NOT_START, None, "why"),
        (Ending.LOST, None, "why"),
    ],
)
def test_what_could_not_run_is_told_from_what_is_red(
    ending: Ending, code: int | None, words: str
) -> None:
    said = could_not_run_reason(Finished(ending, code, "", "sh: first\nsh: last\n", 1, 0, "why"))
    assert said.endswith(words)
    assert bool(said) is bool(words)


def test_a_string_is_one_argument_of_a_shell() -> None:
    assert shell_argv("a | b")[-1] == "a | b"


def test_a_child_knows_the_certificates_of_a_companys_network_but_no_key() -> None:
    files = {"SSL_CERT_FILE": "/c.crt", "REQUESTS_CA_BUNDLE": "/c.crt", "PIP_CERT": "/c.crt"}
    files |= {"NODE_EXTRA_CA_CERTS": "/c.crt", "SSL_CERT_DIR": "/c", "CURL_CA_BUNDLE": "/c.crt"}
    assert child_environment({**files, "UV_PUBLISH_TOKEN": "t", "PIP_INDEX_URL": "u"}) == files
