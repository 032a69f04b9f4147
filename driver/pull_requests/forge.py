"""Makes pull requests with GitHub's `gh`, or with a command that the user configured.

Asks the forge and starts programs through the process seam, with the user's own log-in.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from driver.execution.processes import Command, Finished, Processes
from driver.filesystem.temporary import scratch_folder
from driver.git.command import last_words, redacted, user_environment
from driver.pull_requests.body import PullRequest
from driver.pull_requests.outbox import Proposal
from driver.terminal.safe_text import safe_line
from state_store.documents.errors import TidegateError
from state_store.documents.strict_json import parse_foreign
from state_store.values.lazy_dataclass import dataclass
from tools.settings.schema import ShipSettings

DRAFT, READY, NONE = "draft", "ready", "none"
GH = "gh"
TIMEOUT_S = 120.0
_MAX_REASON = 500
_GITHUB = "github.com"
_ADDRESS = re.compile(
    r"(?:(?:https?|ssh|git)://(?:[^/@\s]+@)?(?P<host>[^/:\s]+)(?::\d+)?/"
    r"|(?:[^/@:\s]+@)?(?P<there>[^/:\s]{2,}):(?!/))"
    r"(?P<owner>[\w.-]+)/(?P<name>[\w.-]+?)(?:\.git)?/?"
)
_FIELDS = "number,url,state,isDraft,headRepositoryOwner"
# Variables that would make `gh` color, page or debug its output.
_UNQUIET = frozenset({"GH_FORCE_TTY", "GH_DEBUG", "DEBUG", "CLICOLOR_FORCE", "GH_PAGER", "GH_REPO"})
_QUIET = {"GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1"}
_PLACEHOLDER = re.compile(r"\{(title|body_file|head|base|commit|state)\}")
_URL = re.compile(r"https?://[^\s<>\"']+")


class NotMadeError(TidegateError):
    """There is no pull request; the sentence says why."""


@dataclass(frozen=True)
class Forge:
    """The forge as configured, and the processes that talk to it, which end with the run."""

    ship: ShipSettings
    environ: Mapping[str, str]
    processes: Processes

    def make(self, proposal: Proposal) -> PullRequest:
        """The pull request of a pushed branch: the existing one, else a new one.

        Raises NotMadeError.
        """
        if not Path(proposal.repo).is_dir():
            raise NotMadeError(f"the folder {proposal.repo} is gone")
        if self.ship.pr_command:
            return self._by_command(proposal)
        return self._found(proposal) or self._created(proposal)

    def _found(self, proposal: Proposal) -> PullRequest | None:
        # Closed ones too: a person who closed the request has answered it.
        asked = ("pr", "list", "--head", proposal.head, "--state", "all", "--limit", "20")
        done = self._gh(proposal, (*asked, "--json", _FIELDS))
        if done.exit_code != 0:
            raise NotMadeError(f"gh pr list: {failure_of(done)}")
        return found_in(done.stdout, proposal.owner)

    def _created(self, proposal: Proposal) -> PullRequest:
        head = f"{proposal.owner}:{proposal.head}" if proposal.owner else proposal.head
        state = self.ship.pr
        with _body_file(proposal.body) as file:
            asked = [f"--head={head}", f"--title={proposal.title}", f"--body-file={file}"]
            asked += [f"--base={proposal.base}"] if proposal.base else []
            asked += ["--draft"] if state == DRAFT else []
            done = self._gh(proposal, ("pr", "create", *asked))
        if done.exit_code != 0:
            if "already exists" in done.stderr and (other := self._found(proposal)):
                return other
            raise NotMadeError(f"gh pr create: {failure_of(done)}")
        return _made(done.stdout, state)

    def _gh(self, proposal: Proposal, words: Sequence[str]) -> Finished:
        program = shutil.which(GH, path=self.environ.get("PATH"))
        if program is None:
            raise NotMadeError("gh is not installed; install it, or set [ship] pr_command")
        if not proposal.name:
            raise NotMadeError(
                "the remote's address names no repository of a forge; set GH_REPO to"
                " HOST/OWNER/NAME, or [ship] pr_command"
            )
        return self._run((program, *words, f"--repo={proposal.name}"), proposal, {})

    def _by_command(self, proposal: Proposal) -> PullRequest:
        with _body_file(proposal.body) as file:
            values = {
                "title": proposal.title,
                "body_file": str(file),
                "head": proposal.head,
                "base": proposal.base,
                "commit": proposal.commit,
                "state": self.ship.pr,
            }
            argv = tuple(
                _PLACEHOLDER.sub(lambda found: values[found[1]], word)
                for word in self.ship.pr_command
            )
            more = {f"TIDEGATE_PR_{name.upper()}": value for name, value in values.items()}
            done = self._run(argv, proposal, more)
        if done.exit_code != 0:
            raise NotMadeError(f"[ship] pr_command: {failure_of(done)}")
        return _made(done.stdout, self.ship.pr)

    def _run(self, argv: tuple[str, ...], proposal: Proposal, more: Mapping[str, str]) -> Finished:
        env = environment_of(self.environ) | dict(more)
        return self.processes.run(Command(argv, Path(proposal.repo), env, TIMEOUT_S))


def environment_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of `gh` or the configured command: the user's log-ins, no key of a model, no
    variable that makes it prompt."""
    kept = {name: v for name, v in user_environment(environ).items() if name not in _UNQUIET}
    return kept | _QUIET


def failure_of(done: Finished) -> str:
    """The reason why a program failed, as one bounded line without credentials."""
    reason = done.reason or last_words(redacted(done.stderr or done.stdout))
    return safe_line(reason)[:_MAX_REASON]


def repository_name(address: str) -> tuple[str, str]:
    """The name that `gh` uses for the repository at an address, and its owner; both "" if the
    address is not of a forge."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return "", ""
    host = (found["host"] or found["there"]).lower().removeprefix("ssh.")
    if "." not in host:  # an alias from the user's ssh configuration, which gh cannot look up
        return "", ""
    short = f"{found['owner']}/{found['name']}"
    return (short if host == _GITHUB else f"{host}/{short}"), found["owner"]


def names_of(url: str, address: str, otherwise: str) -> tuple[str, str]:
    """The repository to ask, and the owner of the fork that is pushed to, "" if it is the same one.

    `url` is pushed to, `address` fetched from; `otherwise` is the name that the user configured.
    """
    pushed, owner = repository_name(url)
    named, _ = repository_name(address)
    if pushed and named and pushed.split("/")[-2:] != named.split("/")[-2:]:
        return named, owner
    return pushed or named or otherwise, ""


def found_in(listing: str, owner: str) -> PullRequest | None:
    """The newest pull request of `gh pr list`; those of another `owner`'s fork are not ours.

    Raises NotMadeError for a malformed answer.
    """
    found: list[PullRequest] = []
    try:
        for one in parse_foreign(listing):
            fork = one.get("headRepositoryOwner") or {}
            if owner and str(fork.get("login", owner)).lower() != owner.lower():
                continue
            state = str(one["state"]).lower()
            draft = state == "open" and one.get("isDraft") is True
            url, number = str(one["url"]), int(one["number"])
            found.append(PullRequest(url, number, DRAFT if draft else state))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise NotMadeError("gh pr list gave an answer that cannot be read") from error
    alive = [one for one in found if one.state in (DRAFT, "open")]
    return max(alive or found, key=lambda one: one.number or 0, default=None)


def _made(stdout: str, asked: str) -> PullRequest:
    """The new pull request, by the last address that the program printed."""
    url = next(reversed(_URL.findall(stdout)), None)
    number = re.search(r"/(\d+)/?(?:[?#].*)?$", url or "")
    state = DRAFT if asked == DRAFT else "open"
    return PullRequest(url, int(number[1]) if number else None, state)


@contextmanager
def _body_file(body: str) -> Iterator[Path]:
    with scratch_folder() as folder:
        file = folder / "body.md"
        file.write_text(body, encoding="utf-8", newline="\n")
        yield file
