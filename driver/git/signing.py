"""Signs commits as the user's git would, with their key and program, but without a prompt.

The configuration is read once, at the start, so that agents cannot choose the program. The setting
`[ship] sign` decides if commits are signed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from driver.filesystem.temporary import scratch_folder
from driver.git.command import GitError, frozen_environment, person_environment, raw, run_git, text
from driver.git.commit_spec import Commit, CommitSpec
from driver.git.repository import Repository, configured, lay_git_dir
from state_store.documents.errors import CannotRunError
from state_store.values.lazy_dataclass import dataclass, field
from state_store.values.lazy_pattern import lazy_pattern

ALWAYS, NEVER = "always", "never"
SIGN_TIMEOUT_S = 30.0
_ASKED = lazy_pattern(r"gpg\..*|user\.signingkey", re.DOTALL)
_PROGRAM = lazy_pattern(r"gpg(\..*)?\.(program|defaultkeycommand)", re.DOTALL)
# These variables lead to a passphrase prompt. The agents of gpg and ssh stay reachable.
_PROMPTS = frozenset({"GPG_TTY", "DISPLAY", "WAYLAND_DISPLAY"})
_YES = ("true", "yes", "on", "1", "")


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs commits with the user's `config` at the start. If `key` is "", git chooses."""

    key: str
    config: tuple[tuple[str, str], ...]
    environ: Mapping[str, str] = field(repr=False)

    def signed(
        self,
        git_dir: Path,
        parent: str,
        specs: Sequence[CommitSpec],
        trees: Sequence[str],
        timeout_s: float = SIGN_TIMEOUT_S,
    ) -> tuple[Commit, ...]:
        """Make a chain of signed commits with `trees` on `parent`. Raises GitError."""
        made: list[Commit] = []
        unprompted = {name: v for name, v in self.environ.items() if name not in _PROMPTS}
        env = frozen_environment(unprompted, git_dir, self.config)
        for spec, tree in zip(specs, trees, strict=True):
            env |= person_environment(spec.author_name, spec.author_email)
            env |= dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), f"@{spec.date}")
            at = ("-p", parent) if parent else ()
            argv = (f"--git-dir={git_dir}", "commit-tree", f"-S{self.key}", *at, tree)
            done = run_git(argv, cwd=git_dir, env=env, stdin=raw(spec.message), timeout_s=timeout_s)
            parent = text(done.stdout).strip()
            made.append(Commit(parent, tree))
        return tuple(made)


def signer_of(
    repo: Repository,
    environ: Mapping[str, str],
    sign: str,
    settings: Sequence[tuple[str, str]] = (),
) -> Signer | None:
    """The signer of a repository's commits; None if they are not signed. `settings` are those that
    are `configured`, if they were just read.

    Raises CannotRunError if the program is in the checkout, because agents' work goes there.
    """
    if sign == NEVER:
        return None
    last = dict(settings or configured(repo, environ))
    if sign != ALWAYS and last.get("commit.gpgsign", "false").lower() not in _YES:
        return None
    asked = {key: value for key, value in last.items() if _ASKED.fullmatch(key)}
    for key, value in asked.items():
        if _PROGRAM.fullmatch(key) and (inside := _inside(repo.top, value)):
            raise CannotRunError(
                f"{key} is {inside}, which is in the checkout of {repo.top}: name a program"
                ' outside, or set [ship] sign = "never"'
            )
    return Signer(_key(last, repo.top), tuple(asked.items()), environ)


def signing_problem(signer: Signer, repo: Repository, timeout_s: float = SIGN_TIMEOUT_S) -> str:
    """The reason why signing without a terminal fails, or ""."""
    with scratch_folder() as folder:
        git_dir = folder / "try.git"
        lay_git_dir(git_dir, repo, head=repo.head)
        spec = CommitSpec("a trial\n", (), "tidegate", "tidegate@localhost", "0 +0000")
        try:
            signer.signed(git_dir, "", [spec], [f"{repo.head}^{{tree}}"], timeout_s)
        except GitError as error:
            return "it shows a prompt, or hangs" if error.status is None else str(error)
    return ""


def _key(last: Mapping[str, str], top: Path) -> str:
    """The key to use: the user's `signingkey`, else the user's name, not the bot's."""
    named = last.get("user.signingkey", "")
    if named:
        relative = not named.startswith(("~", "key::", "ssh-")) and not Path(named).is_absolute()
        return str(top / named) if relative and (top / named).is_file() else named
    if last.get("gpg.format", "openpgp") != "openpgp" or not last.get("user.email"):
        return ""
    return f"{last.get('user.name', '')} <{last['user.email']}>".strip()


def _inside(top: Path, program: str) -> str:
    """The program if it is a file in the checkout, else ""."""
    word = program.split(" ")[0]
    if not word or "/" not in word or word.startswith("~"):
        return ""
    path = (top / word).resolve()
    return str(path) if path.is_relative_to(top.resolve()) else ""
