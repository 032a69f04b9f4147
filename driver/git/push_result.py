"""The result of a push: a word for it, read from the output of git and the remote. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from driver.execution.processes import Captured
from driver.git.command import last_words, redacted, text

MOVED, UNFENCED = "fence_moved", "unfenced"
ADVANCED, PROTECTED, HOOK = "advanced", "protected", "hook"
NO_RIGHTS, GONE, UNREACHABLE = "no_rights", "gone", "unreachable"
UNVERIFIED, INTERRUPTED, FAILED = "unverified", "interrupted", "failed"
ANSWERED = (ADVANCED, PROTECTED, HOOK, FAILED)

# The first pattern that fits counts. A server's own rules come before its hooks, for hosts report
# them through a hook; its words about rights come before both.
_PATTERNS = (
    (NO_RIGHTS, r"permission|access denied|not allowed to push code to this|\b40[13]\b|denied to "
                r"|authentication failed|could not read (username|password)|read.only"
                r"|host key verification failed|unable to create temporary object"),
    (ADVANCED, r"non-fast-forward|fetch first|stale info|cannot lock ref|incorrect old value"
               r"|reference already exists|\bbut expected\b|atomic push fail"),
    (PROTECTED, r"protected|rule violations|pull request|merge request|currently checked out"
                r"|deny updating a hidden ref"),
    (HOOK, r"hook"),
    (GONE, r"does not appear to be a git repository|repository .*not found|not found: repository"
           r"|no such file or directory|\b404\b"),
)  # fmt: skip
_HOW = {
    ADVANCED: "{branch} has moved on the remote",
    PROTECTED: "the remote protects {branch}",
    HOOK: "a hook of the remote refused {branch}",
    NO_RIGHTS: "the remote does not accept the log-in, or lets it not write {branch}",
    GONE: "the remote is not there, or not shown to you",
    UNREACHABLE: "the remote cannot be reached",
    FAILED: "{branch} was not pushed",
}


@dataclass(frozen=True, slots=True)
class PushResult:
    """The end of a push; `reason` is one sentence without credentials, "" when all went well.

    `kind`: "advanced" (the branch is not where it was expected), "protected" (by the remote's
    rules), "hook" (a hook there said no), "no_rights" (log-in or rights), "gone" (no repository
    there), "unreachable", "unverified" (sent, but not seen there), "interrupted" (it may
    have arrived), "failed". Of a fenced push also MOVED (others shipped since: nothing was
    published) and UNFENCED (the remote takes no fence; where it went well, the branch alone).
    """

    ok: bool
    reason: str = ""
    kind: str = ""


def failure_of(branch: str, done: Captured) -> PushResult:
    """The refusal that git and the remote print: about the branch, else in general."""
    refused = statuses_in(redacted(text(done.stdout) + "\n" + text(done.stderr)))
    mine = refused.get(f"refs/heads/{branch}")
    # Where all refs or none are moved, only the one that was in the way says what it was.
    others = (why for why in refused.values() if "atomic" not in why)
    status = next(others, mine) if mine is None or "atomic" in mine else mine
    words = last_words(redacted(text(done.stderr)))
    words = f"{status}: {words}" if status else words
    kind = push_word(words, answered=status is not None)
    return PushResult(False, f"{_HOW[kind].format(branch=branch)}: {words}", kind)


def push_word(message: str, *, answered: bool) -> str:
    """The kind of a remote's refusal; `answered` when it got as far as the branch."""
    words = re.sub(r"'[^']*'", "''", message.lower())  # names and addresses may read like anything
    found = (kind for kind, pattern in _PATTERNS if re.search(pattern, words))
    if answered:
        return next((kind for kind in found if kind != GONE), FAILED)
    return next((kind for kind in found if kind in (NO_RIGHTS, GONE)), UNREACHABLE)


def statuses_in(porcelain: str) -> dict[str, str]:
    """Each refused ref in the output of `git push --porcelain`, with the reason."""
    return dict(re.findall(r"^!\t[^:\s]*:(\S+)\t(.*)$", porcelain, re.MULTILINE))
