"""The result of a push, read from the output of git and the remote. Pure."""

from __future__ import annotations

import re

from driver.execution.processes import Captured
from driver.git.command import last_words, redacted, text
from state_store.values.lazy_dataclass import dataclass

MOVED, UNFENCED = "fence_moved", "unfenced"
ADVANCED, PROTECTED, HOOK = "advanced", "protected", "hook"
NO_RIGHTS, GONE, UNREACHABLE = "no_rights", "gone", "unreachable"
UNVERIFIED, INTERRUPTED, FAILED = "unverified", "interrupted", "failed"
_MAX_WORDS = 32_768
ANSWERED = (ADVANCED, PROTECTED, HOOK, FAILED)

# The first match counts. A server's rules come before its hooks, because hosts report their rules
# through a hook. Missing rights come before both.
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
    NO_RIGHTS: "the remote does not accept the log-in, or does not let it write {branch}",
    GONE: "the remote does not exist, or you may not see it",
    UNREACHABLE: "the remote cannot be reached",
    FAILED: "{branch} was not pushed",
}


@dataclass(frozen=True, slots=True)
class PushResult:
    """The result of a push. `reason` is one sentence without credentials, "" after a success.

    `kind`: "advanced" (the branch has moved), "protected" (by the remote's rules), "hook" (refused
    by a remote hook), "no_rights" (log-in or rights), "gone" (no repository there), "unreachable",
    "unverified" (sent, but not found on the remote), "interrupted" (it may have arrived), "failed".
    `words` are all words of git and the remote about a refusal.
    A fenced push can also be MOVED (another run shipped: nothing was published) or UNFENCED (no
    fence on this remote; after a success only the branch was pushed).
    """

    ok: bool
    reason: str = ""
    kind: str = ""
    words: str = ""


def failure_of(branch: str, done: Captured) -> PushResult:
    """The refusal that git and the remote print, about the branch or in general."""
    refused = statuses_in(redacted(text(done.stdout) + "\n" + text(done.stderr)))
    mine = refused.get(f"refs/heads/{branch}")
    # In an atomic push only the ref that caused the failure has the reason.
    others = (why for why in refused.values() if "atomic" not in why)
    status = next(others, mine) if mine is None or "atomic" in mine else mine
    told = redacted(text(done.stderr))
    words = last_words(told)
    words = f"{status}: {words}" if status else words
    kind = push_word(words, answered=status is not None)
    return PushResult(
        False, f"{_HOW[kind].format(branch=branch)}: {words}", kind, told[-_MAX_WORDS:]
    )


def push_word(message: str, *, answered: bool) -> str:
    """The kind of a remote's refusal. `answered` is true if the remote judged the branch."""
    words = re.sub(r"'[^']*'", "''", message.lower())  # names and addresses could match a pattern
    found = (kind for kind, pattern in _PATTERNS if re.search(pattern, words))
    if answered:
        return next((kind for kind in found if kind != GONE), FAILED)
    return next((kind for kind in found if kind in (NO_RIGHTS, GONE)), UNREACHABLE)


def statuses_in(porcelain: str) -> dict[str, str]:
    """The refused refs in the output of `git push --porcelain`, with their reasons."""
    return dict(re.findall(r"^!\t[^:\s]*:(\S+)\t(.*)$", porcelain, re.MULTILINE))
