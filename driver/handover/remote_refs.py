"""The refs below `refs/tidegate/unshipped/` on the remote, each with one item's unshipped work."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from driver.git.command import person_environment, redacted, run_git, text
from driver.git.private_git import PrivateGit
from driver.git.push import forbidden
from driver.git.push_result import PushResult, failure_of, statuses_in
from driver.git.remote import Remote, talk
from state_store.documents.journal import safe_slug, stored_slug
from state_store.sql.unshipped import Place
from tools.settings.load import Settings

_ROOT = "refs/tidegate/unshipped"
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def root_of(schema: str) -> str:
    """The folder of all refs of one project."""
    return f"{_ROOT}/{safe_slug(schema)}"


def ref_of(schema: str, slug: str, wave_id: str, tree: str) -> str:
    """The ref for a tree of an item's work. No two machines use the same one."""
    return f"{root_of(schema)}/{safe_slug(slug)}/{stored_slug(wave_id)}-{tree[:12]}"


def is_place_of(place: Place, schema: str, slug: str) -> bool:
    """True for a place where Tidegate puts the work of this item. Another row of the store could
    have a branch of the user's looked at or deleted, or an option read by git."""
    ids = (place.base, place.tree, *((place.commit,) if place.ref else ()))
    ref = re.escape(f"{root_of(schema)}/{safe_slug(slug)}/") + r"[\w-]+"
    has_ref = not place.ref or re.fullmatch(ref, place.ref, re.ASCII) is not None
    return has_ref and all(_ID.fullmatch(one) for one in ids)


def commit_of(git: PrivateGit, tree: str, base: str, settings: Settings) -> str:
    """A new commit of a tree, which changes the commit `base`."""
    env = {**git.env, **person_environment(settings.ship.bot_name, settings.ship.bot_email)}
    asked = ("commit-tree", tree, "-p", base, "-m", "Unshipped work, not proven")
    done = run_git((f"--git-dir={git.path}", *asked), cwd=git.path, env=env)
    return text(done.stdout).strip()


def put_refs(
    git_dir: Path, environ: Mapping[str, str], remote: Remote, wanted: Mapping[str, str]
) -> dict[str, str]:
    """Make refs on the remote, which has none with their names, and delete those without a commit.
    Returns the reasons by ref where that did not succeed."""
    if (no := forbidden(remote)) is not None:
        return dict.fromkeys(wanted, no.reason)
    leases = [f"--force-with-lease={ref}:" for ref, commit in wanted.items() if commit]
    command = ("push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags",
               "--recurse-submodules=no", *leases, remote.url,
               *(f"{commit}:{ref}" for ref, commit in wanted.items()))  # fmt: skip
    done = talk(git_dir, environ, remote, command, point="handover")
    if isinstance(done, PushResult):
        return dict.fromkeys(wanted, done.reason)
    if done.ok:
        return {}
    refused = statuses_in(redacted(text(done.stdout)))
    return refused or dict.fromkeys(wanted, failure_of(remote.name, done).reason)
