"""Decide what of one repository's verified work ships: integrate, ask the hooks, commit.

The commits are built from proven trees in a git dir of our own; the user's checkout, index and
config are watched (`tripwire`) and never written. Where the commits then go is `publish`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from driver.backlog.publication_status import PublishedItem
from driver.checkout_guard.guard import TOGETHER, CheckoutChange, names_of, warning
from driver.domain.commit_message import item_name
from driver.domain.results import ItemOutcome, Shipment, Verdict
from driver.git.private_git import CommitSpec, GitError
from driver.merge_queue.batch import Batch, Entry, Integration
from driver.policy.judgement import Judgement
from driver.publishing.commit_builder import BATCH, batch_of, made, specs_of
from driver.publishing.fenced_push import ShippedElsewhereError, describe
from driver.publishing.hook_gate import AskedHooks
from driver.publishing.publish import TARGET_ADVANCED, Publication, failed, keep, publish
from driver.run_state.context import Wave
from driver.run_state.leases import LeasedElsewhereError
from driver.workspace.base_branch import Head, current_head
from driver.workspace.clone_context import CloneContext
from driver.workspace.repository_context import REPLACED

HOOK_REFUSED = "hook_refused"


class _MovedOnError(Exception):
    """The branch is further now, and nothing has been published."""

    def __init__(self, head: Head) -> None:
        super().__init__(head)
        self.head = head


class _WithdrawnError(Exception):
    """People want items of the line no more, why by slug, and nothing has been published."""

    def __init__(self, no_more: Mapping[str, str]) -> None:
        super().__init__(no_more)
        self.no_more = no_more


@dataclass(frozen=True, slots=True)
class _Shippable:
    """A line with its commits as they may be made, or `no`: why they may not, after all."""

    line: Batch
    specs: tuple[CommitSpec, ...]
    no: str = ""


def ship(ground: CloneContext, entries: Sequence[Entry], wave: Wave) -> Shipment:
    """Integrate, commit and publish the verified `entries` of one repository.

    Raises GateClosedError or InterruptedWaveError while nothing has been published yet.
    """
    wave.gates.check()
    integration = _on(ground, wave, current_head(ground, ground.base))
    entries, lost = _still_wanted(entries, _withdrawn(entries, wave))
    hooks = AskedHooks(ground, wave)
    while True:
        entries, taken = _still_ours(entries, wave)
        lost += taken
        try:
            return _ship(integration, ground, entries, lost, wave, hooks)
        except LeasedElsewhereError:  # since we asked, and nothing has been published
            continue
        except _WithdrawnError as withdrawn:
            entries, taken = _still_wanted(entries, withdrawn.no_more)
            lost += taken
        except ShippedElsewhereError as others:
            entries, taken = _not_theirs(entries, others.found)
            lost += taken
        except _MovedOnError as moved:
            integration = _on(ground, wave, moved.head, integration)


def _on(
    ground: CloneContext, wave: Wave, head: Head, before: Integration | None = None
) -> Integration:
    if head.note:
        wave.recorder.say(head.note)
    if head.commit != ground.base:
        ground.move_checkouts(head.commit)
        branch, short = ground.repository.branch, head.commit[:12]
        wave.recorder.say(f"{branch} moved on to {short}: everything is proven again on that")
    return Integration(ground, wave, head, before)


def _ship(
    integration: Integration,
    ground: CloneContext,
    entries: Sequence[Entry],
    lost: Sequence[ItemOutcome],
    wave: Wave,
    hooks: AskedHooks,
) -> Shipment:
    with ground.checkout_guard.guarded(TOGETHER) if ground.checkout_guard else nullcontext():
        shippable = _shippable(integration, ground, entries, wave, hooks)
        strays = _strays(ground)
    line, head = shippable.line, integration.head.commit
    shipment = _told_of(integration, ground, (*lost, *line.left_out))
    shipment = replace(shipment, warning=warning(strays))
    if no := _why_not(shippable, strays, ground, wave):
        return failed(shipment, *no)
    moved = _moved_again(integration, ground)
    wave.gates.check()
    if no_more := _withdrawn(line.entries, wave):
        raise _WithdrawnError(no_more)
    try:
        commits = made(line, ground, head, shippable.specs)
    except GitError as error:
        return failed(shipment, "git_commit_failed", str(error))
    cargo = Publication(ground, tuple(integration.notes), line, commits, wave)
    if moved:
        return keep(failed(shipment, TARGET_ADVANCED, moved), cargo)
    return _sent(shipment, cargo, hooks)


def _sent(shipment: Shipment, cargo: Publication, hooks: AskedHooks) -> Shipment:
    is_new = not cargo.wave.shipping.onto_target
    if no := hooks.of_push(cargo.ground.remote, cargo.tip, is_new=is_new):
        return failed(shipment, HOOK_REFUSED, no)
    entries = cargo.line.entries
    together = tuple((item.slug, outcome.batch_runs) for item, outcome in entries)
    files = sum(len(outcome.changes) for _, outcome in entries)
    return publish(replace(shipment, files_count=files, batch_runs=together), cargo)


def _shippable(
    integration: Integration,
    ground: CloneContext,
    entries: Sequence[Entry],
    wave: Wave,
    hooks: AskedHooks,
) -> _Shippable:
    """A line that is green everywhere and whose commits the user's hooks allow."""
    refused: dict[str, ItemOutcome] = {}
    batch, head = wave.settings.ship.commit == BATCH, integration.head.commit
    while True:
        line = integration.build_batch([e for e in entries if e[0].slug not in refused])
        answer = hooks.of_line(line, specs_of(line, wave), head, messages=not batch)
        if not answer.refused:
            line = replace(line, left_out=(*line.left_out, *refused.values()))
            if not batch or not line.entries:
                return _Shippable(line, answer.specs)
            said = hooks.of_batch(batch_of(line, ground, wave, head), line.trees[-1], head)
            return (
                _Shippable(line, (), said.reason)
                if isinstance(said, Judgement)
                else _Shippable(line, (said,))
            )
        for outcome in answer.refused:
            refused[outcome.slug] = outcome
            wave.recorder.say(f"{outcome.slug}: left out: {outcome.reason}")


def _told_of(
    integration: Integration, ground: CloneContext, left_out: tuple[ItemOutcome, ...]
) -> Shipment:
    return Shipment(
        str(ground.repository.top),
        evicted=left_out,
        onto=integration.head.commit,
        integration=tuple(integration.receipts),
        integration_runs=integration.runs,
    )


def _moved_again(integration: Integration, ground: CloneContext) -> str:
    """Why to stop, as the branch moved on once more; "" where it did not.

    Raises _MovedOnError when it did for the first time.
    """
    now = current_head(ground, integration.head.commit)
    if now.commit == integration.head.commit:
        return ""
    if not integration.moved:
        raise _MovedOnError(now)
    return (
        f"{ground.repository.branch} moved on twice while the wave ran, to {now.commit[:12]} now:"
        " nothing was shipped; the next run ships it on that, without building it again"
    )


def _still_ours(entries: Sequence[Entry], wave: Wave) -> tuple[list[Entry], list[ItemOutcome]]:
    """The items that may be shipped, and those that another run has taken over meanwhile."""
    ours, lost = [], []
    for item, outcome in entries:
        if wave.recorder.still_ours(item.key):
            ours.append((item, outcome))
        else:
            reason = "another run took the item over while this one was not heard of"
            lost.append(replace(outcome, verdict=Verdict.LEASED_ELSEWHERE, reason=reason))
    return ours, lost


def _still_wanted(
    entries: Sequence[Entry], no_more: Mapping[str, str]
) -> tuple[list[Entry], list[ItemOutcome]]:
    """The items that may be shipped, and those that people have withdrawn meanwhile."""
    wanted = [(item, outcome) for item, outcome in entries if item.slug not in no_more]
    lost = [
        replace(outcome, verdict=Verdict.WITHDRAWN, reason=no_more[item.slug])
        for item, outcome in entries
        if item.slug in no_more
    ]
    return wanted, lost


def _withdrawn(entries: Sequence[Entry], wave: Wave) -> dict[str, str]:
    """By slug, why people want items no more."""
    ids = {name: i.slug for i, _ in entries if (name := i.spec.item_id) is not None}
    return {ids[name]: why for name, why in wave.options.withdrawn(ids.keys()).items()}


def _not_theirs(
    entries: Sequence[Entry], found: Mapping[str, PublishedItem]
) -> tuple[list[Entry], list[ItemOutcome]]:
    """The items that nobody else has shipped, and the others."""
    theirs = {item.slug: found.get(item_name(item.spec)) for item, _ in entries}
    ours = [(item, outcome) for item, outcome in entries if theirs[item.slug] is None]
    lost = [
        replace(outcome, verdict=Verdict.SHIPPED_ELSEWHERE, reason=describe(one))
        for item, outcome in entries
        if (one := theirs[item.slug]) is not None
    ]
    return ours, lost


def strays(ground: CloneContext) -> Shipment | None:
    """Where there is nothing to ship: what was changed in the user's checkout all the same."""
    told = warning(_strays(ground))
    return Shipment(str(ground.repository.top), warning=told) if told else None


def _strays(ground: CloneContext) -> tuple[CheckoutChange, ...]:
    return ground.checkout_guard.all_changes() if ground.checkout_guard else ()


def _why_not(
    shippable: _Shippable, strays: Sequence[CheckoutChange], ground: CloneContext, wave: Wave
) -> tuple[str, str] | None:
    """Word and sentence for a shipment that may not be made."""
    if not shippable.line.entries:
        return "nothing_green_together", "no item left"
    if stop := _reason_to_stop(strays, ground, wave):
        return "checkout_changed", stop
    return (HOOK_REFUSED, shippable.no) if shippable.no else None


def _reason_to_stop(strays: Sequence[CheckoutChange], ground: CloneContext, wave: Wave) -> str:
    """Why nothing may be shipped although it is proven; "" when nothing is in the way.

    Tests of all items together that plant something may be any item's. And who moves the user's
    own checkout runs the programs that its git dir names, so these must be the user's. What is
    copied from there into proving trees has a say in every proof.
    """
    grave = [stray for stray in strays if stray.can_execute_code]
    if by_tests := [stray for stray in grave if TOGETHER in stray.blamed]:
        return f"your checkout changed while all tests ran together: {names_of(by_tests)}"
    if replaced := ground.replaced_objects():
        return REPLACED.format(", ".join(replaced))
    if changed := ground.changed_sources():
        names = ", ".join(changed)
        return f"what [workspace] copy takes from your checkout changed meanwhile: {names}"
    if wave.shipping.onto_target and grave:
        return f"your checkout changed in a way that may run programs: {names_of(grave)}"
    return ""
