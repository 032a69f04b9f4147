"""Runs the user's own hooks before a batch is shipped: for each commit, its message, the push.

They run in checkouts of ours that look as git would show them. Their changes to files are not
taken; a changed message is, as long as later runs can find the commit by it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from driver.agents.secret_check import without_secrets
from driver.domain.commit_message import trailers_in
from driver.domain.results import ItemOutcome, Verdict
from driver.execution.process_marks import new_mark
from driver.execution.processes import Command, Ending, Finished
from driver.filesystem.safe_file_access import regular_bytes, replace_plain
from driver.git.branch_view import HEADS
from driver.git.command import person_environment, raw, redacted, text
from driver.git.private_git import CommitSpec
from driver.git.remote import Remote
from driver.git.user_hooks import COMMIT_MSG, PRE_COMMIT, PRE_PUSH, remote_refs, show_remote
from driver.merge_queue.batch import Batch
from driver.merge_queue.batch_result import FOLDER
from driver.policy.judgement import Judgement
from driver.publishing.publish import branch_to_be
from driver.run_state.context import Wave
from driver.terminal.safe_text import bounded, safe_line, safe_text
from driver.verification.test_run import test_environment
from driver.walls.wall import Role
from driver.workspace.clone_context import CloneContext
from driver.workspace.test_checkouts import TreeCheckout
from state_store.documents.errors import CannotRunError
from state_store.values.lazy_dataclass import dataclass, replace

_MAX_QUOTED, _MAX_SHOWN, _MAX_NAMED = 600, 4000, 20
_MESSAGE = ".git/COMMIT_EDITMSG"
# Exit codes of shells and `env` for a program that is missing or cannot be started, and the words
# of hook managers that hide them behind an exit code of their own.
_CANNOT_START = (126, 127)
_MISSING_PROGRAM = re.compile(
    r"command not found|: not found$|not found in PATH|`?pre-commit`? not found|bad interpreter"
    r"|executable `\S+` not found|executable file not found|could not determine executable"
    r"|is not recognized as an internal or external command|can't find lefthook"
    r"|^(/usr/bin/)?env: .*no such file",
    re.IGNORECASE | re.MULTILINE,
)
_SET_UP = (
    "install what it needs on the PATH of this run or in [workspace] setup, or set [ship] hooks ="
    ' "off"'
)
_OUR_TEXT = (
    "the message is the item's title and Tidegate's trailers, and no agent can change it: change"
    " the title or the hook"
)


@dataclass(frozen=True, slots=True)
class Allowed:
    """The answer of hooks about a batch: the allowed commits, and the refused items."""

    specs: tuple[CommitSpec, ...]
    refused: tuple[ItemOutcome, ...] = ()


class AskedHooks:
    """The hooks for one shipment. No hook is run twice for the same commit."""

    def __init__(self, context: CloneContext, wave: Wave, onto: str | None = None) -> None:
        """`onto` is the wave branch that an earlier part of the shipment is on."""
        self._context = context
        self._onto = onto
        self._wave = wave
        self._judged: dict[tuple[str, str], Judgement | None] = {}
        self._messages: dict[str, str | Judgement] = {}
        self._seen = context.hooks.taken

    @property
    def have_run(self) -> bool:
        """True if a hook was asked about a commit, which may have taken long."""
        return bool(self._judged or self._messages)

    def of_batch(
        self, batch: Batch, specs: Sequence[CommitSpec], head: str, *, messages: bool = True
    ) -> Allowed:
        """Run pre-commit, and with `messages` commit-msg, for each commit of a batch on `head`.

        Raises InterruptedWaveError if the wave is stopped meanwhile, CannotRunError if the copies
        of the hooks were changed.
        """
        hooks = self._context.hooks
        if not specs or not (hooks.path(PRE_COMMIT) or (messages and hooks.path(COMMIT_MSG))):
            return Allowed(tuple(specs))
        commits = self._context.git.import_commits(head, specs)
        parents = (head, *(commit.commit for commit in commits))
        allowed, refused = list[CommitSpec](), list[ItemOutcome]()
        for (item, outcome), spec, tree, parent in zip(
            batch.entries, specs, batch.trees, parents, strict=False
        ):
            answer = self._of_commit(item.slug, spec, tree, parent, head, messages)
            if isinstance(answer, Judgement):
                refused.append(replace(outcome, verdict=answer.verdict, reason=answer.reason))
            else:
                allowed.append(replace(spec, message=answer))
        return Allowed(tuple(allowed), tuple(refused))

    def of_message(self, spec: CommitSpec, tree: str, head: str) -> CommitSpec | Judgement:
        """Run commit-msg for the single commit of several items; returns the commit with its
        message, or the refusal."""
        if self._context.hooks.path(COMMIT_MSG) is None:
            return spec
        if spec.message not in self._messages:
            with self._staged(tree, head) as checkout:
                answer = self._message_allowed(FOLDER, checkout, spec.message)
            self._messages[spec.message] = answer
        known = self._messages[spec.message]
        return known if isinstance(known, Judgement) else replace(spec, message=known)

    def of_push(self, remote: Remote | None, tip: str, *, is_new: bool) -> str:
        """The refusal of pre-push; "" if it allows the push, or there is none."""
        hook = self._context.hooks.path(PRE_PUSH)
        if hook is None or remote is None:
            return ""
        context, ref = self._context, f"{HEADS}{self._branch}"
        there = "" if is_new else context.branches.remote_tip(self._branch)
        known = there if there and isinstance(there, str) else "0" * len(tip)
        line = f"{ref} {tip} {ref} {known}\n"
        with self._staged(context.git.tree_of(tip), tip) as checkout:
            argv = (str(hook), remote.name, remote.url)
            done = self._run(FOLDER, PRE_PUSH, argv, checkout, raw(line))
        judged = self._judge(FOLDER, PRE_PUSH, done)
        return judged.reason if judged else ""

    def _of_commit(
        self, slug: str, spec: CommitSpec, tree: str, parent: str, head: str, messages: bool
    ) -> str | Judgement:
        """The message to commit with, or the refusal."""
        if not messages:
            self._messages[spec.message] = spec.message
        key = (slug, head)
        if key in self._judged and spec.message in self._messages:
            return self._judged[key] or self._messages[spec.message]
        is_new = key not in self._judged
        with self._staged(tree, parent) as checkout:
            if is_new:
                self._judged[key] = self._of_files(slug, checkout, tree)
            if self._judged[key] is None and messages:
                self._messages[spec.message] = self._message_allowed(slug, checkout, spec.message)
        refusal = self._judged[key]
        if is_new and refusal is not None and refusal.verdict is Verdict.REFUSED:
            refusal = self._judged[key] = self._compared_with_base(slug, spec, head, refusal)
        return refusal or self._messages[spec.message]

    def _compared_with_base(
        self, slug: str, spec: CommitSpec, head: str, refusal: Judgement
    ) -> Judgement:
        """UNDECIDED in place of a refusal that pre-commit also gives for the base's own versions of
        the same files: then it is no fault of the work."""
        git = self._context.git
        known = [one for one in spec.changes if one.base_mode is not None]
        gone = tuple(replace(one, mode=None, blob=None) for one in known)
        without = (
            git.import_commits(head, [replace(spec, changes=gone)])[0].commit if gone else head
        )
        tree = git.tree_of(head)
        with self._staged(tree, without) as checkout:
            on_base = self._of_files(slug, checkout, tree)
        if on_base is None:
            return refusal
        why = f"{refusal.reason}; it says no to the base's own versions of these files as well"
        return Judgement(Verdict.UNDECIDED, f"{why}: mend them or the hook")

    @contextmanager
    def _staged(self, tree: str, commit: str) -> Iterator[TreeCheckout]:
        """A checkout of `tree` whose branch is at `commit`: what differs is staged."""
        with self._context.test_checkout(tree) as checkout:
            self._context.show_as_staged(checkout, commit, self._branch)
            if self._context.remote is not None:
                show_remote(checkout.path / ".git", self._context.remote, self._remote_refs)
            yield checkout

    @cached_property
    def _branch(self) -> str:
        return self._onto or branch_to_be(self._context, self._wave)

    @cached_property
    def _remote_refs(self) -> bytes:
        context, remote = self._context, self._context.remote
        return remote_refs(context.repository, remote.name, context.environ) if remote else b""

    def _of_files(self, slug: str, checkout: TreeCheckout, tree: str) -> Judgement | None:
        hook = self._context.hooks.path(PRE_COMMIT)
        if hook is None:
            return None
        done = self._run(slug, PRE_COMMIT, (str(hook),), checkout)
        staged = self._context.git.staged(checkout.path / ".git" / "index", tree)
        changed = sorted({*checkout.tampered(), *staged})
        judged = self._judge(slug, PRE_COMMIT, done)
        if not changed or (judged and judged.verdict is Verdict.UNDECIDED):
            return judged
        rest = f" and {len(changed) - _MAX_NAMED} more" if len(changed) > _MAX_NAMED else ""
        wants = f"the {PRE_COMMIT} hook wants to change {', '.join(changed[:_MAX_NAMED])}{rest}"
        also = f"; {judged.reason}" if judged else ""
        why = f"{wants}, which would ship what was not proven: have the item do it{also}"
        return Judgement(Verdict.REFUSED, why)

    def _message_allowed(self, slug: str, checkout: TreeCheckout, message: str) -> str | Judgement:
        hook = self._context.hooks.path(COMMIT_MSG)
        if hook is None:
            return message
        file = checkout.path / _MESSAGE
        replace_plain(checkout.path, _MESSAGE, raw(message))
        done = self._run(slug, COMMIT_MSG, (str(hook), _MESSAGE), checkout)
        if (judged := self._judge(slug, COMMIT_MSG, done)) is not None:
            told = f"{judged.reason}; {_OUR_TEXT}" if judged.verdict is Verdict.REFUSED else ""
            return Judgement(Verdict.UNDECIDED, told or judged.reason)
        made = text(regular_bytes(file)) if file.is_file() else ""
        if _can_be_found(made, message):
            return made
        why = f"the {COMMIT_MSG} hook takes away trailers by which later runs find the commit"
        return Judgement(Verdict.UNDECIDED, f"{why}: have it keep them")

    def _run(
        self, owner: str, name: str, argv: Sequence[str], checkout: TreeCheckout, stdin: bytes = b""
    ) -> Finished:
        wave, ship = self._wave, self._wave.settings.ship
        environment = {
            **test_environment(wave.settings),
            **checkout.environment,
            **new_mark(wave.key),
            **person_environment(ship.bot_name, ship.bot_email),
            "GIT_EDITOR": ":",
        }
        wave.gates.stop.check()
        if self._context.hooks.seen() != self._seen:
            raise CannotRunError(
                f"the copies of your hooks in {self._context.hooks.root} were changed while agents"
                " or tests were at work: nothing is shipped; run again"
            )
        with wave.home.variables() as home:
            command = Command(
                (*_starter(Path(argv[0])), *argv),
                checkout.path,
                {**environment, **home},
                ship.hook_timeout_s,
                stdin=stdin,
                output=wave.scratch(owner) / name,
            )
            copies = (self._context.hooks.root,) if self._context.hooks.root else ()
            places = replace(wave.places(checkout.path), read=copies)
            inside = wave.walls.around(Role.HOOK, places)
            done = inside.run(wave.processes, command, name=f"{name} hook")
        self._seen = self._context.hooks.seen()
        wave.gates.stop.check()  # the answer of an interrupted hook does not count
        return done

    def _judge(self, owner: str, name: str, done: Finished) -> Judgement | None:
        """The refusal of a hook that has run; UNDECIDED if it did not finish, or lacks a
        program."""
        if done.exit_code == 0:
            return None
        output = redacted(f"{done.stdout.rstrip()}\n{done.stderr.rstrip()}".strip())
        output = without_secrets(output, self._wave.settings)
        if output:
            self._wave.recorder.say(f"{owner}: {name}:\n{bounded(safe_text(output), _MAX_SHOWN)}")
        quoted = safe_line(" ".join(bounded(output, _MAX_QUOTED).split()))
        verdict, missing = Verdict.UNDECIDED, ""
        if done.ending is Ending.TIMED_OUT:
            limit = f"{self._wave.settings.ship.hook_timeout_s:g} s ([ship] hook_timeout_s)"
            why = f"the {name} hook did not end within {limit} and was ended"
        elif done.ending is Ending.OVER_LIMIT:
            why = f"the {name} hook was ended: {done.reason}"
        elif done.exit_code is None:
            missing = f"; {_SET_UP}"
            why = f"the {name} hook could not be run: {done.reason}"
        elif done.exit_code in _CANNOT_START or _MISSING_PROGRAM.search(output):
            missing = f"; {_SET_UP}"
            why = f"the {name} hook lacks a program (exit {done.exit_code})"
        else:
            verdict, why = Verdict.REFUSED, f"the {name} hook says no (exit {done.exit_code})"
        return Judgement(verdict, f"{why}{': ' if quoted else ''}{quoted}{missing}")


def _starter(hook: Path) -> tuple[str, ...]:
    """The words before a hook's name that run it, as git does for scripts without `#!`."""
    if os.name == "nt":
        return ("sh",)
    with hook.open("rb") as file:
        first = file.read(512)
    return () if first.startswith(b"#!") or b"\0" in first else ("/bin/sh",)


def _can_be_found(made: str, message: str) -> bool:
    """True if the changed message still ends in all the trailers of `message`."""
    before, after = (trailers_in(one.rstrip().split("\n\n")[-1]) for one in (message, made))
    return set(before) <= set(after)
