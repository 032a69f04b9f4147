"""By-products: new files that programs leave beside the work, such as an agent's chat history, an
installed environment or a coverage database.

They are no part of the work and no offence: they are left out of it and named once. Pure, except
that the caller says which files exist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from driver.domain.ownership import OwnedPath, covers
from driver.filesystem.tree import folders_above
from state_store.values.lazy_dataclass import dataclass, field

# Each kind, and its patterns. A pattern is a name, or a path of names, at any depth; with "/" at
# its end it is a folder with everything below it. Names behind ":" are files that the program
# itself writes into the folder: without one of them the folder may be the work of a person.
# Instructions and settings of agents (CLAUDE.md, .claude/settings.json) are not here, because they
# steer later agents.
_KINDS: dict[str, str] = {
    "state of an agent's program": """
        .aider.chat.history.md .aider.input.history .aider.llm.history .aider.tags.cache.v*/
        .claude/settings.local.json .claude/*.lock .claude/projects/ .claude/todos/ .claude/tasks/
        .claude/plans/ .claude/worktrees/ .claude/statsig/ .claude/shell-snapshots/ .claude/cache/
        .claude/logs/ .claude/history.jsonl .claude/.credentials.json .claude/backups/
        .codex/sessions/ .codex/log/ .codex/history.jsonl .codex/auth.json .codex/tmp/
        .codex/version.json .codex/internal_storage.json .cursor/chats/ .cursor/projects/
        .cursor/cache/ .cursor/logs/ .gemini/tmp/ .gemini/history/ .gemini/oauth_creds.json
        .gemini/google_accounts.json .gemini/installation_id .gemini/user_id
        .opencode/node_modules/ .opencode/package.json .opencode/bun.lock* .opencode/.gitignore
        .opencode/package-lock.json .crush/ .goosehints.tmp .qwen/tmp/ .continue/sessions/
        .codeium/ .specstory/history/ .playwright-mcp/
    """,
    "file of an operating system": """
        .DS_Store ._* Thumbs.db ehthumbs.db .fuse_hidden* .nfs*
    """,
    "left by a tool": """
        npm-debug.log* yarn-debug.log* yarn-error.log* pnpm-debug.log*
        .coverage .coverage.* htmlcov/:status.json,.gitignore .nyc_output/ .hypothesis/
        coverage/:lcov.info,lcov-report,coverage-final.json,clover.xml,coverage-summary.json
        .pytest_cache/ .mypy_cache/ .ruff_cache/ .dmypy.json .pytype/ .pyre/ .tox/ .nox/
        .eslintcache .stylelintcache .parcel-cache/ .turbo/ .ipynb_checkpoints/ .gradle/
        *.egg-info/:SOURCES.txt */:CACHEDIR.TAG
    """,
    "an installed environment": """
        */:pyvenv.cfg node_modules/:.package-lock.json,.yarn-integrity,.yarn-state.yml,.modules.yaml
        .direnv/
    """,
}
# The names may also be the work itself, so they do not count below a path that the item owns.
_ELSEWHERE = "a temporary file of an editor or tool"
_KINDS[_ELSEWHERE] = """
    .idea/ desktop.ini .directory *.swp *.swo *.swn *~ .#* #*# *.orig *.rej nohup.out
"""


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern as names from the outer to the inner. A folder needs one of the files `marks`, if
    there are any."""

    kind: str
    names: tuple[str, ...]
    is_folder: bool
    marks: tuple[str, ...]

    @classmethod
    def of(cls, kind: str, pattern: str) -> _Rule:
        path, _, marks = pattern.partition(":") if "/:" in pattern else (pattern, "", "")
        names = tuple(path.casefold().rstrip("/").split("/"))
        return cls(kind, names, path.endswith("/"), tuple(filter(None, marks.split(","))))

    def fits(self, parts: Sequence[str]) -> bool:
        """True if a path, as its folded names, ends in the names of the pattern."""
        ends = parts[-len(self.names) :]
        return len(ends) == len(self.names) and all(map(fnmatchcase, ends, self.names))


_RULES = tuple(_Rule.of(kind, one) for kind, text in _KINDS.items() for one in text.split())


@dataclass(slots=True)
class ByProducts:
    """The rules for one item's workspace; not thread safe. `tracked` are the paths of its base,
    `folders` their folders; `owned` are the item's own. `more` are the user's patterns. `exists` is
    true for a path that is on disk."""

    tracked: Collection[str]
    folders: Collection[str]
    exists: Callable[[str], bool]
    owned: Sequence[OwnedPath] = ()
    more: Sequence[str] = ()
    _rules: tuple[_Rule, ...] = field(init=False)
    _known: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        yours = (_Rule.of("named in [workspace] leftovers", one) for one in self.more)
        self._rules = (*_RULES, *yours)

    def found(self, path: str) -> str:
        """The by-product that a new path belongs to, with its kind: ".venv/ (an installed
        environment)"; "" if the path may be work. A path that ends in "/" is a folder."""
        if path in self.tracked:
            return ""
        is_own = covers(self.owned, path)
        for folder in _above(path):
            if folder not in self._known:
                self._known[folder] = self._folder(folder)
            if known := self._known[folder]:
                return "" if is_own and self._is_work(folder, known, path) else known
        kind = "" if path.endswith("/") else self._kind(path, is_folder=False)
        known = f"{path} ({kind})" if kind else ""
        return "" if is_own and self._is_work(path, known, path) else known

    def _folder(self, path: str) -> str:
        """The folder with its kind, if it is a by-product as a whole."""
        if path in self.folders:
            return ""  # a person keeps files in it
        kind = self._kind(path, is_folder=True)
        return f"{path}/ ({kind})" if kind else ""

    def _kind(self, path: str, *, is_folder: bool) -> str:
        parts = path.casefold().split("/")
        for rule in self._rules:
            if rule.is_folder != is_folder or not rule.fits(parts):
                continue
            if not rule.marks or any(self.exists(f"{path}/{mark}") for mark in rule.marks):
                return rule.kind
        return ""

    def _is_work(self, found: str, kind: str, path: str) -> bool:
        """True if the item lists the by-product `found`, or something in it, by name."""
        inside = (own for own in self.owned if f"{own.path}/".startswith(f"{found}/"))
        return kind.endswith(f"({_ELSEWHERE})") or covers(inside, path)


def folders_of(paths: Iterable[str]) -> frozenset[str]:
    """Every folder of the paths, including "."."""
    return frozenset({*folders_above(paths), "."})


def _above(path: str) -> Iterator[str]:
    """The folders of a path, the outermost first."""
    at = path.find("/")
    while at != -1:
        yield path[:at]
        at = path.find("/", at + 1)
