"""Asking the user's own hooks, at the ship and nowhere else: each commit, its message, the push.

They run on checkouts of ours that show what git would show them. What they change there is not
taken; of a message it is, as long as later runs can find the commit by it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from driver.agents.secret_check import without_secrets
from driver.domain.results import ItemOutcome, Verdict
from driver.execution.processes import Command, Ending, Finished
from driver.git.command import raw, redacted, text
from driver.git.private_git import CommitSpec
from driver.git.remote import Remote, head_on
from driver.git.user_hooks import COMMIT_MSG, PRE_COMMIT, PRE_PUSH, remote_refs, show_remote
from driver.merge_queue import batch_result as together
from driver.merge_queue.batch import Batch
from driver.policy.judgement import Judgement
from driver.publishing.publish import branch_to_be
from driver.run_state.context import Wave
from driver.terminal.safe_text import bounded, safe_line, safe_text
from driver.verification.test_run import test_environment
from driver.workspace.clone_context import CloneContext
from driver.workspace.test_checkouts import TreeCheckout
from state_store.documents.errors import CannotRunError

_MAX_TOLD, _MAX_SAID, _MAX_NAMED = 600, 4000, 20
_MESSAGE = ".git/COMMIT_EDITMSG"


@dataclass(frozen=True, slots=True)
class Allowed:
    """What hooks say of a line: its commits as they may be made, and who may not be in it."""

    specs: tuple[CommitSpec, ...]
    refused: tuple[ItemOutcome, ...] = ()


class AskedHooks:
    """The hooks for one shipment. What was answered once is not asked again."""

    def __init__(self, ground: CloneContext, wave: Wave) -> None:
        self._ground = ground
        self._wave = wave
        self._judged: dict[tuple[str, str], Judgement | None] = {}
        self._messages: dict[str, str | Judgement] = {}
        self._seen = ground.hooks.taken

    def of_line(
        self, line: Batch, specs: Sequence[CommitSpec], head: str, *, messages: bool = True
    ) -> Allowed:
        """Ask pre-commit, and of `messages` commit-msg, of each commit of a line that stands on
        `head`.

        Raises InterruptedWaveError when the wave is stopped meanwhile, CannotRunError where
        somebody changed the copies of the hooks.
        """
        hooks = self._ground.hooks
        if not specs or not (hooks.path(PRE_COMMIT) or (messages and hooks.path(COMMIT_MSG))):
            return Allowed(tuple(specs))
        commits = self._ground.git.import_commits(head, specs)
        parents = (head, *(commit.commit for commit in commits))
        allowed, refused = list[CommitSpec](), list[ItemOutcome]()
        for (item, outcome), spec, tree, parent in zip(
            line.entries, specs, line.trees, parents, strict=False
        ):
            said = self._of_commit(item.slug, spec, tree, parent, head, messages)
            if isinstance(said, Judgement):
                refused.append(replace(outcome, verdict=said.verdict, reason=said.reason))
            else:
                allowed.append(replace(spec, message=said))
        return Allowed(tuple(allowed), tuple(refused))

    def of_batch(self, spec: CommitSpec, tree: str, head: str) -> CommitSpec | Judgement:
        """Ask commit-msg of the one commit of several items: it with its message, or why not."""
        if self._ground.hooks.path(COMMIT_MSG) is None:
            return spec
        if spec.message not in self._messages:
            with self._standing(tree, head) as place:
                said = self._of_message(together.FOLDER, place, spec.message)
            self._messages[spec.message] = said
        told = self._messages[spec.message]
        return told if isinstance(told, Judgement) else replace(spec, message=told)

    def of_push(self, remote: Remote | None, tip: str, *, is_new: bool) -> str:
        """Why pre-push lets nothing out; "" when it does, or there is none."""
        hook = self._ground.hooks.path(PRE_PUSH)
        if hook is None or remote is None:
            return ""
        git, ref = self._ground.git, f"refs/heads/{self._branch}"
        there = "" if is_new else head_on(git.path, self._ground.environ, remote, self._branch)
        told = f"{ref} {tip} {ref} {there or '0' * len(tip)}\n"
        with self._standing(git.tree_of(tip), tip) as place:
            argv = (str(hook), remote.name, remote.url)
            done = self._run(together.FOLDER, PRE_PUSH, argv, place, raw(told))
        judged = self._judge(together.FOLDER, PRE_PUSH, done)
        return judged.reason if judged else ""

    def _of_commit(
        self, slug: str, spec: CommitSpec, tree: str, parent: str, head: str, messages: bool
    ) -> str | Judgement:
        """The message to commit with, or why not to."""
        if not messages:
            self._messages[spec.message] = spec.message
        if (slug, head) in self._judged and spec.message in self._messages:
            return self._judged[slug, head] or self._messages[spec.message]
        with self._standing(tree, parent) as place:
            if (slug, head) not in self._judged:
                self._judged[slug, head] = self._of_files(slug, place, tree)
            refusal = self._judged[slug, head]
            if refusal is None and messages:
                self._messages[spec.message] = self._of_message(slug, place, spec.message)
            return refusal or self._messages[spec.message]

    @contextmanager
    def _standing(self, tree: str, commit: str) -> Iterator[TreeCheckout]:
        """A checkout of `tree` whose branch is at `commit`: what differs is staged."""
        with self._ground.test_checkout(tree) as place:
            self._ground.show_as_staged(place, commit, self._branch)
            if self._ground.remote is not None:
                show_remote(place.path / ".git", self._ground.remote, self._remote_refs)
            yield place

    @cached_property
    def _branch(self) -> str:
        return branch_to_be(self._ground, self._wave)

    @cached_property
    def _remote_refs(self) -> bytes:
        ground, remote = self._ground, self._ground.remote
        return remote_refs(ground.repository, remote.name, ground.environ) if remote else b""

    def _of_files(self, slug: str, place: TreeCheckout, tree: str) -> Judgement | None:
        hook = self._ground.hooks.path(PRE_COMMIT)
        if hook is None:
            return None
        done = self._run(slug, PRE_COMMIT, (str(hook),), place)
        staged = self._ground.git.staged(place.path / ".git" / "index", tree)
        changed = sorted({*place.tampered(), *staged})
        judged = self._judge(slug, PRE_COMMIT, done)
        if not changed or (judged and judged.verdict is Verdict.UNDECIDED):
            return judged
        rest = f" and {len(changed) - _MAX_NAMED} more" if len(changed) > _MAX_NAMED else ""
        wants = f"the {PRE_COMMIT} hook wants to change {', '.join(changed[:_MAX_NAMED])}{rest}"
        also = f"; {judged.reason}" if judged else ""
        told = f"{wants}, which would ship what was not proven: have the item do it{also}"
        return Judgement(Verdict.REFUSED, told)

    def _of_message(self, slug: str, place: TreeCheckout, message: str) -> str | Judgement:
        hook = self._ground.hooks.path(COMMIT_MSG)
        if hook is None:
            return message
        file = place.path / _MESSAGE
        file.write_bytes(raw(message))
        done = self._run(slug, COMMIT_MSG, (str(hook), _MESSAGE), place)
        if judged := self._judge(slug, COMMIT_MSG, done):
            return judged
        made = text(file.read_bytes()) if file.is_file() else ""
        return made if _can_be_found(made, message) else Judgement(
            Verdict.REFUSED,
            f"the {COMMIT_MSG} hook takes away trailers by which later runs find the commit",
        )  # fmt: skip

    def _run(
        self, owner: str, name: str, argv: Sequence[str], place: TreeCheckout, stdin: bytes = b""
    ) -> Finished:
        wave, ship = self._wave, self._wave.settings.ship
        who = {"NAME": ship.bot_name, "EMAIL": ship.bot_email}
        environment = {
            **test_environment(wave.settings, wave.mark),
            **{f"GIT_{role}_{k}": v for role in ("AUTHOR", "COMMITTER") for k, v in who.items()},
            "GIT_EDITOR": ":",
        }
        command = Command(
            (*_starter(Path(argv[0])), *argv),
            place.path,
            environment,
            ship.hook_timeout_s,
            stdin=stdin,
            output=wave.scratch(owner) / name,
        )
        wave.gates.stop.check()
        if self._ground.hooks.seen() != self._seen:
            raise CannotRunError(
                f"the copies of your hooks in {self._ground.hooks.root} were changed while agents"
                " or tests were at work: nothing is shipped; run again"
            )
        done = wave.processes.run(command, name=f"{name} hook")
        self._seen = self._ground.hooks.seen()
        wave.gates.stop.check()  # what was cut off says nothing of anybody
        return done

    def _judge(self, owner: str, name: str, done: Finished) -> Judgement | None:
        """What a hook that has run says; nobody is to blame for one that does not end."""
        if done.exit_code == 0:
            return None
        said = redacted(f"{done.stdout.rstrip()}\n{done.stderr.rstrip()}".strip())
        said = without_secrets(said, self._wave.settings)
        if said:
            self._wave.recorder.say(f"{owner}: {name}:\n{bounded(safe_text(said), _MAX_SAID)}")
        told = safe_line(" ".join(bounded(said, _MAX_TOLD).split()))
        if done.ending is Ending.TIMED_OUT:
            limit = f"{self._wave.settings.ship.hook_timeout_s:g} s ([ship] hook_timeout_s)"
            why = f"the {name} hook did not end within {limit} and was ended"
        elif done.exit_code is None:
            why = f"the {name} hook could not be run: {done.reason}"
        else:
            why = f"the {name} hook says no (exit {done.exit_code})"
        verdict = Verdict.UNDECIDED if done.exit_code is None else Verdict.REFUSED
        return Judgement(verdict, f"{why}{': ' if told else ''}{told}")


def _starter(hook: Path) -> tuple[str, ...]:
    """What has to stand before a hook's name to run it, as git does for scripts without `#!`."""
    if os.name == "nt":
        return ("sh",)
    with hook.open("rb") as file:
        first = file.read(512)
    return () if first.startswith(b"#!") or b"\0" in first else ("/bin/sh",)


def _can_be_found(made: str, message: str) -> bool:
    """Whether a message ends in all the trailers that it was given."""
    trailers = set(message.rstrip("\n").split("\n\n")[-1].splitlines())
    return trailers <= set(made.rstrip().split("\n\n")[-1].splitlines())
