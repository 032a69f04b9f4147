"""File ownership: the rules for names in `ownsFiles`, and the search for items with common files.
Pure except for `real_path`, its two callers and `nested_repository`, which read the disk. The files
that an agent changed are read elsewhere, from git objects."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from state_store.documents.errors import InputError
from state_store.values.lazy_dataclass import dataclass, field

MAX_COMPONENT_BYTES = 255
MAX_PATH_BYTES = 4000
MAX_DEPTH = 40
_MAX_LINKS = 40  # Linux follows as many

# Code points without a visible glyph. Some file systems drop them when they compare names, so
# `.g<U+200C>it` can be `.git`.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
_TEXT_DIRECTION = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_DRIVE = re.compile("[A-Za-z]:")
_DEVICE = re.compile(r"con|prn|aux|nul|conin\$|conout\$|com[1-9]|lpt[1-9]")
_PLAIN_NAME = rf"(?!(?:{_DEVICE.pattern})(?:[./]|\Z))[a-z0-9_][a-z0-9_-]*(?:\.[a-z0-9_-]+)*"
_PLAIN = re.compile(rf"{_PLAIN_NAME}\Z", re.ASCII | re.IGNORECASE)
# The same without flags: `is_plain` runs a million times, and to ignore case triples its time.
_DEVICE_NAME = (
    "[cC][oO][nN]|[pP][rR][nN]|[aA][uU][xX]|[nN][uU][lL]|[cC][oO][mM][1-9]|[lL][pP][tT][1-9]"
)
_QUICK_NAME = rf"(?!(?:{_DEVICE_NAME})(?:[./]|\Z))[A-Za-z0-9_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*"
PLAIN_PATH = re.compile(rf"{_QUICK_NAME}(?:/{_QUICK_NAME})*/?\Z")


class OwnershipError(InputError):
    """A name that no item can own. The message is a sentence with the name and the reason."""

    def __init__(self, entry: str, reason: str) -> None:
        shown = entry if len(entry) <= 120 else entry[:120] + "..."
        super().__init__(f"{shown!r} cannot be owned: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class OwnedPath:
    """A file or, with `is_dir`, a directory with its content. `path` is relative to the repository
    and has "/" between its components, none at its end. The components keep their spelling."""

    path: str
    is_dir: bool = False

    @property
    def key(self) -> str:
        """The form for comparing owners; two spellings of one name have one key."""
        return comparison_key(self.path)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two items that claim one file. `slugs` has the earlier item first. `file` is the name in the
    later item, `other_file` the name in the earlier item. `normalized` is the key of `file`."""

    file: str
    normalized: str
    repo: str | None
    slugs: tuple[str, str]
    other_file: str

    def describe(self) -> str:
        """The conflict as a sentence."""
        earlier, later = self.slugs
        if self.file == self.other_file:
            return f"{later!r} and {earlier!r} both own {self.file!r}"
        relation = "overlaps"
        if comparison_key(self.file) == comparison_key(self.other_file):
            relation = "is, on systems that fold case or Unicode forms, the same file as"
        return f"{self.file!r} of {later!r} {relation} {self.other_file!r} of {earlier!r}"

    def to_json(self) -> dict[str, object]:
        """The report's shape: file, normalized, repo, items (the earlier slug first)."""
        return {
            "file": self.file,
            "normalized": self.normalized,
            "repo": self.repo,
            "items": list(self.slugs),
        }


@dataclass(slots=True)
class OwnershipMap:
    """Owners of paths by repository. The time of a look-up grows with the depth of the path
    only."""

    _held: dict[tuple[str | None, str], tuple[str, OwnedPath]] = field(default_factory=dict)
    _above: dict[tuple[str | None, str], tuple[str, OwnedPath]] = field(default_factory=dict)

    def clash(self, repo: str | None, owned: OwnedPath) -> tuple[str, OwnedPath] | None:
        """An owner of this path, of a parent directory or of a path below it; None without an
        owner."""
        key = owned.key
        for name in (key, *parents_of(key)):
            if (repo, name) in self._held:
                return self._held[repo, name]
        return self._above.get((repo, key))

    def add(self, owner: str, repo: str | None, paths: Iterable[OwnedPath]) -> None:
        """Make `owner` the owner of `paths`. An earlier owner of a path stays its owner."""
        for owned in paths:
            key = owned.key
            self._held.setdefault((repo, key), (owner, owned))
            for parent in parents_of(key):
                self._above.setdefault((repo, parent), (owner, owned))


@lru_cache(maxsize=2**16)  # a cycle parses every entry three times
def parse_owned(entry: str, work_dir: str = ".") -> OwnedPath:
    """Read an `ownsFiles` entry, relative to `work_dir`, which is relative to the repository. A
    trailing "/" means the directory with its content. Raises OwnershipError."""
    text = entry.replace("\\", "/")
    parts = [*_components(work_dir, work_dir.replace("\\", "/")), *_components(entry, text)]
    if not parts:
        raise OwnershipError(entry, "it is the whole repository; name files or directories in it")
    path = "/".join(parts)
    if len(parts) > MAX_DEPTH or len(path.encode()) > MAX_PATH_BYTES:
        raise OwnershipError(
            entry, f"it is longer than {MAX_PATH_BYTES} bytes or deeper than {MAX_DEPTH} levels"
        )
    return OwnedPath(path, is_dir=text.rsplit("/", 1)[-1] in ("", "."))


def is_plain(entry: str) -> bool:
    """A fast test: after True, `parse_owned` accepts the entry. After False it may accept
    it too."""
    size = len(entry)
    return (
        (size < MAX_DEPTH or (size < MAX_COMPONENT_BYTES and entry.count("/") < MAX_DEPTH))
        and PLAIN_PATH.match(entry) is not None
    )  # fmt: skip


def comparison_key(path: str) -> str:
    """`path` without case, Unicode form and invisible code points. Use it only to compare."""
    if path.isascii():
        return path.lower()
    visible = _INVISIBLE.sub("", path)
    folded = unicodedata.normalize("NFKC", visible).casefold()
    return unicodedata.normalize("NFKC", folded)


def find_conflicts(
    owners: Iterable[tuple[str, str | None, tuple[OwnedPath, ...]]],
) -> tuple[Conflict, ...]:
    """Every path of an item that an earlier item also claims. `owners` are triples of slug,
    repository and paths. A path is reported once, with one owner."""
    taken = OwnershipMap()
    conflicts = []
    for slug, repo, paths in owners:
        for owned in paths:
            if found := taken.clash(repo, owned):
                other, held = found
                conflicts.append(Conflict(owned.path, owned.key, repo, (other, slug), held.path))
        taken.add(slug, repo, paths)
    return tuple(conflicts)


def covers(owned: Iterable[OwnedPath], path: str) -> bool:
    """True if the item may change exactly this path of the repository. Case counts. The owner of a
    directory owns everything below it, but cannot turn it into a file or a link."""
    return any(
        path.startswith(entry.path + "/") if entry.is_dir else path == entry.path for entry in owned
    )


def git_component(component: str) -> bool:
    """True for `.git` in any spelling that git or a file system accepts as `.git`."""
    for name in re.split(r"[\\/]", comparison_key(component)):
        stem = name.split(":")[0].rstrip(". ")
        if stem == ".git" or re.fullmatch(r"git~[0-9]+", stem):
            return True
    return False


def name_problem(component: str) -> str | None:
    """The reason why a component cannot be a name on every supported system, or None."""
    if len(component) < MAX_COMPONENT_BYTES and _PLAIN.match(component):
        return None  # The fast way for nearly every name of a long backlog.
    if component == "..":
        return "it climbs out with '..'; give a path inside the item's folder"
    if git_component(component):
        return "git's own folder belongs to no item"
    if _CONTROL.search(component) or _TEXT_DIRECTION.search(component):
        return "it holds a control character"
    return _encoding_problem(component) or _portability_problem(component)


def nested_repository(top: Path, path: str) -> str:
    """The first folder on `path` below `top`, or `path` itself, that is a repository of its own,
    such as a submodule; "" for none."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    folders = ("/".join(parts[: at + 1]) for at in range(len(parts)))
    return next((each for each in folders if os.path.lexists(top / each / ".git")), "")


def leaves_tree(top: Path, path: str) -> bool:
    """True if a symbolic link in `path` below `top` leads out of `top`, or into its `.git`."""
    return real_path(top, path) is None


def linked_path(top: Path, owned: OwnedPath) -> str | None:
    """The real path of an owned path that is a symbolic link below `top`, or is reached through
    one; None if it is not, if the link leads out of `top`, or if nothing is at its target.

    Git names a change by its real path, so the owner of a link may replace the link, but may not
    change the file behind it.
    """
    real = real_path(top, owned.path)
    if real in (None, owned.path):
        return None
    folder, _, name = owned.path.rpartition("/")
    leads_nowhere = not (top / real).exists()
    if leads_nowhere and "/".join(filter(None, (real_path(top, folder), name))) == owned.path:
        return None
    return real


def real_path(top: Path, path: str) -> str | None:
    """`path` below `top` with each symbolic link followed; None if a link leads out of `top`, or
    into its `.git`.

    A link with an absolute target leaves. So does a link that leaves and returns, because another
    checkout has another folder name, and a link that cannot be followed.
    """
    folder: list[str] = []
    waiting = path.split("/")[::-1] if path else []
    links = 0
    while waiting:
        part = waiting.pop()
        if (part == ".." and not folder) or git_component(part):
            return None
        if part == "..":
            folder.pop()
            continue
        folder.append(part)
        if (link := top.joinpath(*folder)).is_symlink():
            target, links = link.readlink(), links + 1
            if target.anchor or links > _MAX_LINKS:
                return None
            folder.pop()
            waiting += reversed(target.parts)
    return "/".join(folder)


def _components(entry: str, text: str) -> list[str]:
    if not text:
        raise OwnershipError(entry, "it is empty")
    if text.startswith("/") or _DRIVE.match(text):
        raise OwnershipError(entry, "it is absolute; give a path relative to the item's folder")
    if text[0] in "~-":
        raise OwnershipError(
            entry, f"shells treat a name that starts with {text[0]!r} in a special way"
        )
    parts = [part for part in text.split("/") if part not in ("", ".")]
    for part in parts:
        if problem := name_problem(part):
            raise OwnershipError(entry, problem)
    return parts


def _encoding_problem(component: str) -> str | None:
    try:
        size = len(component.encode())
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    if size > MAX_COMPONENT_BYTES:
        return f"a name in it is longer than {MAX_COMPONENT_BYTES} bytes"
    return None


def _portability_problem(component: str) -> str | None:
    if "*" in component or "?" in component:
        return "patterns are not supported; name the files, or a directory with a trailing '/'"
    if ":" in component:
        return "':' means a drive or a stream on Windows"
    if component[-1] in ". \t\n":
        return "Windows drops a dot or white space at the end of a name"
    if _DEVICE.fullmatch(comparison_key(component).split(".")[0].rstrip()):
        return "Windows reserves this name for a device"
    return None


def parents_of(key: str) -> Iterator[str]:
    """The directories above a path, the nearest first."""
    at = key.rfind("/")
    while at > 0:
        yield key[:at]
        at = key.rfind("/", 0, at)
