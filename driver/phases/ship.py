"""Commit what is verified, one commit an item, and put it where it was meant to go.

The commits are built from proven trees in a git dir of our own; the user's checkout, index and
config are watched (`tripwire`) and never written. Nothing is forced and nothing is merged.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from driver.gates import gate_word
from driver.git import Commit, CommitSpec, GitError, PushResult, Repository, fast_forward, tip_of
from driver.ground import REPLACED, RepositoryGround
from driver.leasing import LeasedElsewhereError
from driver.outcome import ItemOutcome, Shipment, Verdict
from driver.phases.hooks import AskedHooks
from driver.phases.integrate import Entry, Integration, Line
from driver.remote import push_forward
from driver.ship_names import branch_names, commit_message, on_the_way
from driver.target import Head, look
from driver.tripwire import TOGETHER, Stray, told, warning
from driver.wave_context import Wave
from state_store.errors import StoppedByPolicyError

TARGET_ADVANCED = "target_advanced"


@dataclass(frozen=True, slots=True)
class _Cargo:
    """A line of items as commits, in the same order, ready to be published with these `notes`."""

    ground: RepositoryGround
    notes: tuple[str, ...]
    line: Line
    commits: tuple[Commit, ...]
    wave: Wave

    @property
    def tip(self) -> str:
        return self.commits[-1].commit


class _MovedOnError(Exception):
    """The branch is further now, and nothing has been published."""

    def __init__(self, head: Head) -> None:
        super().__init__(head)
        self.head = head


def ship(ground: RepositoryGround, entries: Sequence[Entry], wave: Wave) -> Shipment:
    """Integrate, commit and publish the verified `entries` of one repository.

    Raises GateClosedError or InterruptedWaveError while nothing has been published yet.
    """
    wave.gates.check()
    integration, lost = _on(ground, wave, look(ground, ground.base)), list[ItemOutcome]()
    hooks = AskedHooks(ground, wave, _branch_to_be(ground, wave))
    while True:
        entries, taken = _still_ours(entries, wave)
        lost += taken
        try:
            return _ship(integration, ground, entries, lost, wave, hooks)
        except LeasedElsewhereError:  # since we asked, and nothing has been published
            continue
        except _MovedOnError as moved:
            integration = _on(ground, wave, moved.head, integration)


def _on(
    ground: RepositoryGround, wave: Wave, head: Head, before: Integration | None = None
) -> Integration:
    if head.note:
        wave.recorder.say(head.note)
    if head.commit != ground.base:
        ground.move_trees(head.commit)
        branch, short = ground.repository.branch, head.commit[:12]
        wave.recorder.say(f"{branch} moved on to {short}: everything is proven again on that")
    return Integration(ground, wave, head, before)


def _ship(
    integration: Integration,
    ground: RepositoryGround,
    entries: Sequence[Entry],
    lost: Sequence[ItemOutcome],
    wave: Wave,
    hooks: AskedHooks,
) -> Shipment:
    with ground.tripwire.at_work(TOGETHER) if ground.tripwire else nullcontext():
        line, specs = _allowed(integration, entries, wave, hooks)
        strays = _strays(ground)
    shipment = _told_of(integration, ground, (*lost, *line.left_out))
    shipment = replace(shipment, warning=warning(strays))
    if not line.entries:
        return _failed(shipment, "nothing_green_together", "no item left")
    if stop := _reason_to_stop(strays, ground, wave):
        return _failed(shipment, "checkout_changed", stop)
    if moved := _moved_again(integration, ground):
        return _failed(shipment, TARGET_ADVANCED, moved)
    wave.gates.check()
    cargo = _committed(ground, integration, line, specs, wave)
    if no := hooks.of_push(ground.remote, cargo.tip, is_new=wave.shipping.mode != "current"):
        return _failed(shipment, "hook_refused", no)
    together = tuple((planned.slug, outcome.together) for planned, outcome in line.entries)
    shipment = replace(shipment, files_count=_count_files(line.entries), together=together)
    publish = _to_current_branch if wave.shipping.mode == "current" else _to_wave_branch
    try:
        return publish(shipment, cargo)
    except GitError as error:
        return _failed(shipment, "git_commit_failed", str(error))


def _allowed(
    integration: Integration, entries: Sequence[Entry], wave: Wave, hooks: AskedHooks
) -> tuple[Line, tuple[CommitSpec, ...]]:
    """A line that is green everywhere and whose commits the user's hooks allow."""
    refused: dict[str, ItemOutcome] = {}
    while True:
        line = integration.line_up([e for e in entries if e[0].slug not in refused])
        answer = hooks.of_line(line, _specs(line, wave), integration.head.commit)
        if not answer.refused:
            return replace(line, left_out=(*line.left_out, *refused.values())), answer.specs
        for outcome in answer.refused:
            refused[outcome.slug] = outcome
            wave.recorder.say(f"{outcome.slug}: left out: {outcome.reason}")


def _told_of(
    integration: Integration, ground: RepositoryGround, left_out: tuple[ItemOutcome, ...]
) -> Shipment:
    return Shipment(
        str(ground.repository.top),
        left_out=left_out,
        onto=integration.head.commit,
        integration=tuple(integration.receipts),
        integration_runs=integration.runs,
    )


def _moved_again(integration: Integration, ground: RepositoryGround) -> str:
    """Why to stop, as the branch moved on once more; "" where it did not.

    Raises _MovedOnError when it did for the first time.
    """
    now = look(ground, integration.head.commit)
    if now.commit == integration.head.commit:
        return ""
    if not integration.moved:
        raise _MovedOnError(now)
    return (
        f"{ground.repository.branch} moved on twice while the wave ran, to {now.commit[:12]} now:"
        " nothing was shipped; pull, and the next run starts from there"
    )


def _still_ours(entries: Sequence[Entry], wave: Wave) -> tuple[list[Entry], list[ItemOutcome]]:
    """The items that may be shipped, and those that another run has taken over meanwhile."""
    ours, lost = [], []
    for planned, outcome in entries:
        if wave.recorder.still_ours(wave.subject(planned)):
            ours.append((planned, outcome))
        else:
            reason = "another run took the item over while this one was not heard of"
            lost.append(replace(outcome, verdict=Verdict.LEASED_ELSEWHERE, reason=reason))
    return ours, lost


def _announce(cargo: _Cargo, branch: str) -> None:
    """Write down what is about to be published, unless another run has an item of it by now.

    From here on this shipment is what becomes of the items: whoever finds it unfinished puts these
    commits on this branch, so they have to be in the user's repository before.
    """
    repository = cargo.ground.repository
    cargo.ground.git.keep(repository, cargo.tip, on_the_way(cargo.tip))
    entries = zip(cargo.line.entries, cargo.commits, strict=True)
    told = {cargo.wave.subject(planned): (outcome, c.commit) for (planned, outcome), c in entries}
    try:
        cargo.wave.recorder.shipping(told, branch, cargo.tip)
    except LeasedElsewhereError:
        cargo.ground.git.forget(repository, cargo.tip, on_the_way(cargo.tip))
        raise


def _failed(shipment: Shipment, error: str, detail: str) -> Shipment:
    return replace(shipment, error=error, detail=detail)


def strays(ground: RepositoryGround) -> Shipment | None:
    """Where there is nothing to ship: what was changed in the user's checkout all the same."""
    told = warning(_strays(ground))
    return Shipment(str(ground.repository.top), warning=told) if told else None


def _strays(ground: RepositoryGround) -> tuple[Stray, ...]:
    return ground.tripwire.all_strays() if ground.tripwire else ()


def _reason_to_stop(strays: Sequence[Stray], ground: RepositoryGround, wave: Wave) -> str:
    """Why nothing may be shipped although it is proven; "" when nothing is in the way.

    Tests of all items together that plant something may be any item's. And who moves the user's
    own checkout runs the programs that its git dir names, so these must be the user's. What is
    copied from there into proving trees has a say in every proof.
    """
    grave = [stray for stray in strays if stray.grave]
    if by_tests := [stray for stray in grave if TOGETHER in stray.blamed]:
        return f"your checkout changed while all tests ran together: {told(by_tests)}"
    if replaced := ground.replaced_objects():
        return REPLACED.format(", ".join(replaced))
    if changed := ground.workshop.changed_sources():
        names = ", ".join(changed)
        return f"what [workspace] copy takes from your checkout changed meanwhile: {names}"
    if wave.shipping.mode == "current" and grave:
        return f"your checkout changed in a way that may run programs: {told(grave)}"
    return ""


def _committed(
    ground: RepositoryGround,
    integration: Integration,
    line: Line,
    specs: Sequence[CommitSpec],
    wave: Wave,
) -> _Cargo:
    commits = ground.git.import_commits(integration.head.commit, specs)
    if tuple(commit.tree for commit in commits) != line.trees:
        raise AssertionError("a commit's tree is not the tree that was proven")
    return _Cargo(ground, tuple(integration.notes), line, commits, wave)


def _specs(line: Line, wave: Wave) -> list[CommitSpec]:
    date = f"{int(time.time())} +0000"
    ship_settings, anchor = wave.settings.ship, wave.recorder.anchor
    return [
        CommitSpec(
            commit_message(
                planned.item, wave.wave_id, tree, anchor, work_dir=planned.home.work_dir
            ),
            outcome.changes,
            ship_settings.bot_name,
            ship_settings.bot_email,
            date,
        )
        for (planned, outcome), tree in zip(line.entries, line.trees, strict=True)
    ]


def _to_wave_branch(shipment: Shipment, cargo: _Cargo) -> Shipment:
    ground, branch = cargo.ground, _keep_on_free_branch(cargo)
    shipment = _kept(shipment, branch, cargo.tip)
    notes = [_detached(ground.repository), *cargo.notes]
    if ground.remote is None:
        notes.append("no remote: the branch is in this repository only")
    else:
        shipment = _stopped(shipment, cargo) or _pushed(
            shipment, ground.git.push(ground.remote, cargo.tip, branch, expected=None)
        )
    if shipment.error:
        return _saying_where(shipment)
    return _done(shipment, cargo, *notes)


def _detached(repository: Repository) -> str:
    return "" if repository.branch else f"started from a detached HEAD at {repository.head[:12]}"


def _branch_to_be(ground: RepositoryGround, wave: Wave) -> str:
    """The branch that hooks see themselves on."""
    current = ground.repository.branch if wave.shipping.mode == "current" else None
    return current or _free_branch(ground, wave)


def _free_branch(ground: RepositoryGround, wave: Wave, tip: str = "") -> str:
    names = branch_names(wave.wave_id, time.strftime("%Y-%m-%d"))
    if tip_of(ground.repository, "wave", ground.environ):
        # No name below `wave/` is free where a branch is called `wave`.
        names = (name.replace("/", "-") for name in names)
    return next(n for n in names if tip_of(ground.repository, n, ground.environ) in ("", tip))


def _keep_on_free_branch(cargo: _Cargo) -> str:
    """Put the commits on a wave branch of the user's repository, where nothing can lose them."""
    ground, branch = cargo.ground, _free_branch(cargo.ground, cargo.wave, cargo.tip)
    _announce(cargo, branch)
    ground.git.keep(ground.repository, cargo.tip, f"refs/heads/{branch}")
    ground.git.forget(ground.repository, cargo.tip, on_the_way(cargo.tip))
    return branch


def _kept(shipment: Shipment, branch: str, tip: str) -> Shipment:
    return replace(shipment, branch=branch, committed=True, kept=tip)


def _to_current_branch(shipment: Shipment, cargo: _Cargo) -> Shipment:
    """Push, then move the checkout ahead; a refusal of either leaves the commits on a branch."""
    ground, current = cargo.ground, cargo.ground.repository.branch
    if current is None:
        why = "HEAD is detached, so there is no checked-out branch to commit to"
        shipment = _failed(shipment, "git_commit_failed", why)
    else:
        _announce(cargo, current)
        cargo.wave.gates.check()
    if current is not None and ground.remote is not None:
        answer = push_forward(ground.git.path, ground.environ, ground.remote, cargo.tip, current)
        shipment = _pushed(shipment, answer)
        if answer.kind == "moved":
            shipment = replace(shipment, error=TARGET_ADVANCED)
    if not shipment.error:
        shipment = _move_checkout(shipment, ground, cargo.tip)
    if not shipment.error:
        return _done(replace(shipment, branch=current), cargo, *cargo.notes)
    return _saying_where(_kept(shipment, _keep_on_free_branch(cargo), cargo.tip))


def _saying_where(shipment: Shipment) -> Shipment:
    return replace(shipment, detail=f"{shipment.detail} (kept on branch {shipment.branch} here)")


def _stopped(shipment: Shipment, cargo: _Cargo) -> Shipment | None:
    """The shipment when no push may start any more; it is announced, so the next run makes it."""
    try:
        cargo.wave.gates.check()
    except StoppedByPolicyError as stopped:
        why = f"{stopped}; not pushed yet, the next run does that"
        return _failed(shipment, gate_word(stopped), why)
    return None


def _pushed(shipment: Shipment, answer: PushResult) -> Shipment:
    if answer.ok:
        return replace(shipment, pushed=True)
    return _failed(shipment, "git_push_failed", answer.reason)


def _move_checkout(shipment: Shipment, ground: RepositoryGround, tip: str) -> Shipment:
    refusal = fast_forward(ground.repository, tip, ground.environ)
    if refusal and not shipment.pushed:
        return _failed(shipment, "git_commit_failed", refusal)
    if refusal:
        return _warned(shipment, f"pushed, but not checked out here: {refusal}")
    ground.git.forget(ground.repository, tip, on_the_way(tip))
    return _warned(
        shipment, "" if shipment.pushed else "no remote: committed in this repository only"
    )


def _warned(shipment: Shipment, *more: str) -> Shipment:
    return replace(shipment, warning="; ".join(filter(None, (*more, shipment.warning))) or None)


def _done(shipment: Shipment, cargo: _Cargo, *notes: str) -> Shipment:
    pairs = tuple(
        (planned.slug, commit.commit)
        for (planned, _), commit in zip(cargo.line.entries, cargo.commits, strict=True)
    )
    return _warned(replace(shipment, commits=pairs, committed=True), *notes)


def _count_files(entries: Sequence[Entry]) -> int:
    return sum(len(outcome.changes) for _, outcome in entries)
