"""Requests a pull request for each wave branch that was pushed, once everything is shipped.

A request is on file before the forge is asked, so a request that could not be made, or whose run
died, is made by the next run. No failure here undoes a shipment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from driver.domain.results import ItemOutcome
from driver.domain.shipment import Shipment
from driver.execution.cancellation import CancellationToken
from driver.execution.processes import Processes
from driver.limits.admission import check_halt
from driver.pull_requests.body import Proposed, PullRequest, body, title
from driver.pull_requests.forge import NONE, TIMEOUT_S, Forge, NotMadeError, names_of
from driver.pull_requests.outbox import (
    MAX_TRIES,
    OutboxEntry,
    Proposal,
    all_open,
    entry_of,
    file_of,
    save,
)
from driver.pull_requests.summary import Pairs, PushedBatch, pull_request_summary
from driver.run_state.context import Wave
from driver.workspace.clone_context import CloneContext
from state_store.documents.errors import StoppedByPolicyError, TidegateError
from state_store.documents.failpoints import failpoint
from state_store.documents.journal_facts import journal_facts
from state_store.documents.locks import locked
from state_store.redaction.installed import redacted
from state_store.values.lazy_dataclass import asdict, dataclass, replace
from tools.secret_rules.known_values import scan_known_values, secrets_of
from tools.settings.load import Settings


def propose(
    wave: Wave, outcomes: Sequence[ItemOutcome], shipments: Mapping[str, Shipment] | None
) -> tuple[Proposed, ...]:
    """Pull requests of what this wave pushed, of what it found pushed, and of what earlier runs of
    the state folder could not request; none unless `[ship] pr` wants them."""
    if wave.settings.ship.pr == NONE or shipments is None:
        return ()
    outbox = PullRequestOutbox(
        settings=wave.settings,
        state_dir=wave.state_dir,
        stop=wave.options.stop,
        check=wave.gates.check,
        say=wave.recorder.say,
        record=wave.recorder.proposed,
    )
    asked: list[OutboxEntry] = []
    failed: list[Proposed] = []
    for key, context in wave.repositories.items():
        if context.remote is None:
            continue
        pairs = zip(wave.items, outcomes, strict=True)
        own = [(item, outcome) for item, outcome in pairs if item.context is context]
        ship = shipments.get(key)
        pushed = (ship.branch, ship.tip) if ship else (None, None)
        sources = ((_pushed(wave, ship), *pushed), (_found(wave, context, own), None, None))
        for batches, branch, tip in sources:  # one that fails does not keep back the other
            try:
                asked.extend(_own(wave, context, own, batches))
            except (TidegateError, OSError) as error:  # the shipment is reported all the same
                why = Proposed(key, branch or "", tip or "", wave.wave_id, error=str(error))
                failed.append(why)
    return (*failed, *outbox.answers(asked))


def propose_left(
    settings: Settings,
    state_dir: Path,
    stop: CancellationToken,
    say: Callable[[str], None],
    record: Callable[[str, Mapping[str, Any]], None],
) -> tuple[Proposed, ...]:
    """The pull requests that earlier runs could not request, for a run without a wave."""
    if settings.ship.pr == NONE:
        return ()

    def check() -> None:
        stop.check()
        check_halt(state_dir)

    return PullRequestOutbox(settings, state_dir, stop, check, say, record).answers()


@dataclass(frozen=True)
class PullRequestOutbox:
    """Makes the pull requests of a run. `check` raises while no request may begin; `record` is
    called with the wave and the result of each request."""

    settings: Settings
    state_dir: Path
    stop: CancellationToken
    check: Callable[[], None]
    say: Callable[[str], None]
    record: Callable[[str, Mapping[str, Any]], None]

    def answers(self, own: Iterable[OutboxEntry] = ()) -> tuple[Proposed, ...]:
        """The results of `own` requests, and of all that earlier runs left."""
        asked = list(own)
        for one in asked:
            self._save(one)
        known = {one.proposal.commit for one in asked}
        left = all_open(self.state_dir)
        asked += [one for one in left if one.proposal.commit not in known]
        if not asked:
            return ()
        # Entries without a repository's name get the one that the user has configured since, which
        # cannot be the name of several repositories.
        name = self.settings.environ.get("GH_REPO", "")
        if len({one.proposal.repo for one in asked}) == 1:
            proposals = (replace(o.proposal, name=o.proposal.name or name) for o in asked)
            asked = [replace(o, proposal=p) for o, p in zip(asked, proposals, strict=True)]
        processes = Processes()
        self.stop.on_set(processes.cancel, only_by_signal=True)
        forge = Forge(self.settings.ship, self.settings.environ, processes)
        return tuple(self._answer(one, forge) for one in asked)

    def _answer(self, one: OutboxEntry, forge: Forge) -> Proposed:
        asked = one.proposal
        result = Proposed(asked.repo, asked.head, asked.commit, asked.wave_id, one.made)
        if one.made is not None:
            return result
        try:
            self.check()
            result = replace(result, made=self._made_once(one, forge))
        except StoppedByPolicyError as stopped:
            result = replace(result, error=f"{stopped}; not asked for yet, the next run does that")
        except (TidegateError, OSError) as error:
            why = str(error)
            if replace(one, tries=one.tries + 1).given_up:
                file = file_of(self.state_dir, asked.commit)
                why += f"; given up after {MAX_TRIES} runs: make it yourself, or remove {file} to"
                why += " go on"
            result = replace(result, error=why)
        made = result.made
        if made is None:
            self.say(f"no pull request of {result.branch}: {result.error}")
        else:
            self.say(f"pull request of {result.branch}: {made.url or 'made'} ({made.state})")
        facts = asdict(made) if made else {"url": None, "number": None, "state": None}
        where = {"repo": result.repo, "branch": result.branch, "commit": result.commit}
        self.record(asked.wave_id, {**where, **facts, "error": result.error})
        return result

    def _made_once(self, one: OutboxEntry, forge: Forge) -> PullRequest:
        # Another run of this state folder may be asking at this moment.
        with locked(file_of(self.state_dir, one.proposal.commit), 2 * TIMEOUT_S):
            now = entry_of(self.state_dir, one.proposal.commit)
            return now.made if now and now.made else self._made(one, forge)

    def _made(self, one: OutboxEntry, forge: Forge) -> PullRequest:
        if not one.proposal.body:
            raise NotMadeError("its text would tell a secret of this machine")
        self._save(replace(one, tries=one.tries + 1))
        failpoint("propose.before_asking")
        made = forge.make(one.proposal)
        failpoint("propose.made")
        self._save(replace(one, made=made))
        return made

    def _save(self, one: OutboxEntry) -> None:
        """Put an entry on file; without that the forge is searched before a request is made."""
        try:
            save(self.state_dir, one)
        except TidegateError as error:
            self.say(str(error))


def _own(
    wave: Wave, context: CloneContext, own: Pairs, batches: Iterable[PushedBatch]
) -> Iterator[OutboxEntry]:
    """The requests for a repository's batches, as they are on file if they are."""
    for batch in batches:
        if batch.branch == context.repository.branch:
            continue  # the user's own branch needs no request
        on_file = entry_of(wave.state_dir, batch.tip)
        if on_file is None:
            yield OutboxEntry(_proposal(wave, context, own, batch))
        elif not on_file.given_up:
            yield on_file


def _pushed(wave: Wave, shipment: Shipment | None) -> Iterator[PushedBatch]:
    """The batch that this run pushed; lazy, so that its caller reports what reading it raises."""
    if shipment and shipment.pushed and shipment.tip and shipment.branch:
        commits = dict(shipment.commits)
        yield PushedBatch(shipment.branch, shipment.tip, wave.wave_id, commits, shipment)


def _found(wave: Wave, context: CloneContext, own: Pairs) -> Iterator[PushedBatch]:
    """The batches that an earlier run published, found on their branches and not merged yet."""
    asked = {outcome.shipped_as for _, outcome in own if outcome.shipped_as}
    if not asked:
        return
    facts = journal_facts(wave.state_dir)
    for row in wave.recorder.publications(commits=asked):
        items = {item.key: commit for item, it in own if row.has(commit := it.shipped_as or "")}
        if items and not context.branches.is_in_head(row.tip):
            commits = {key.slug: commit for key, commit in items.items()}
            about = {
                key.slug: entry
                for key, commit in items.items()
                for entry in facts.about(key.slug, key.repo, key.location)
                if entry.get("commit") == commit
            }
            yield PushedBatch(row.branch, row.tip, row.wave, commits, entries=about)


def _proposal(wave: Wave, context: CloneContext, own: Pairs, batch: PushedBatch) -> Proposal:
    remote, environ = context.remote, wave.settings.environ
    single = len(wave.repositories) == 1
    named = environ.get("GH_REPO", "") if single else ""  # it cannot be the name of several
    name, owner = names_of(remote.url, remote.address, named) if remote else ("", "")
    summary = pull_request_summary(own, batch, context.repository.branch)
    secrets = secrets_of(environ)

    def harmless(*texts: Callable[[], str]) -> str:
        """The first of the texts that holds no secret of this machine; "" if all do."""
        made = (redacted(text()) for text in texts)
        return next((text for text in made if not scan_known_values(text.encode(), secrets)), "")

    return Proposal(
        repo=str(context.repository.top),
        wave_id=batch.wave_id,
        head=batch.branch,
        commit=batch.tip,
        base=context.repository.branch or "",
        title=harmless(lambda: title(summary), lambda: f"Wave {batch.wave_id}"),
        body=harmless(lambda: body(summary), lambda: body(summary, bare=True)),
        name=name,
        owner=owner,
    )
