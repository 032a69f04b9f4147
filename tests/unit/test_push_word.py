"""What remotes say to a push, in the words of git and of hosts, and which refusal it is."""

from __future__ import annotations

import pytest

from driver.git.push_result import push_word

ANSWERED = {
    "[rejected] (stale info): error: failed to push some refs to '/x/protected.git'": "advanced",
    "[rejected] (fetch first)": "advanced",
    "[rejected] (non-fast-forward)": "advanced",
    "[remote rejected] (cannot lock ref 'refs/heads/main': is at 1 but expected 2)": "advanced",
    "[remote rejected] (pre-receive hook declined): remote: no Mondays": "hook",
    "[remote rejected] (hook declined)": "hook",
    "[remote rejected] (protected branch hook declined): remote: error: GH006: Protected branch"
    " update failed for refs/heads/main.": "protected",
    "[remote rejected] (push declined due to repository rule violations): remote: error: GH013:"
    " Repository rule violations found": "protected",
    "[remote rejected] (pre-receive hook declined): remote: GitLab: You are not allowed to push"
    " code to protected branches on this project.": "protected",
    "[remote rejected] (pre-receive hook declined): remote: Branch refs/heads/main can only be"
    " modified through pull requests.": "protected",
    "[remote rejected] (branch is currently checked out)": "protected",
    "[remote rejected] (unpacker error): remote: error: insufficient permission for adding an"
    " object to repository database ./objects": "no_rights",
    "[remote rejected] (unpacker error): error: remote unpack failed: unable to create temporary"
    " object directory": "no_rights",
    "[remote rejected] (unpacker error): remote: fatal: no space left on device": "failed",
    "[remote rejected] (shallow update not allowed)": "failed",
}
SILENT = {
    "fatal: unable to access 'http://127.0.0.1/hook.git/': The requested URL returned error: 403":
    "no_rights",
    "remote: Permission to a/b.git denied to c.": "no_rights",
    "git@host: Permission denied (publickey).": "no_rights",
    "fatal: Authentication failed for 'https://host/'": "no_rights",
    "remote: GitLab: You are not allowed to push code to this project.": "no_rights",
    "remote: Repository not found.; fatal: repository 'https://host/a' not found": "gone",
    "fatal: '/x/moved.git' does not appear to be a git repository": "gone",
    "fatal: unable to access 'https://no/': Could not resolve host: no": "unreachable",
    "ssh: connect to host host port 22: Connection timed out": "unreachable",
    "fatal: unable to access 'http://127.0.0.1:1/protected/': Failed to connect": "unreachable",
    "": "unreachable",
}  # fmt: skip


@pytest.mark.parametrize(("told", "word"), ANSWERED.items())
def test_a_refusal_of_the_branch_is_told_apart(told: str, word: str) -> None:
    assert push_word(told, answered=True) == word


@pytest.mark.parametrize(("told", "word"), SILENT.items())
def test_a_remote_that_never_came_to_the_branch_is_told_apart(told: str, word: str) -> None:
    assert push_word(told, answered=False) == word
