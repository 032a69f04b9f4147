"""The project's own instructions for agents, as texts of its base commit. Pure.

The programs of agents read such files from the disk, and with them hooks and settings. Tidegate
gives every agent the same texts with its prompt, so nothing in a workspace steers an agent.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from driver.domain.prompts import quoted
from state_store.values.lazy_dataclass import dataclass, field

# In every folder from the top down to the item's files.
_NAMES = ("CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.md", "AGENT.md", "GEMINI.md", ".cursorrules")
_RULES = (".claude/rules/", ".cursor/rules/")
_RULE_ENDS = (".md", ".mdc")
_MAX_FILE_CHARS = 32_000
_MAX_CHARS = 64_000
_MAX_IMPORTS = 5
_TITLE = (
    "The project's own instructions for agents, as its base commit has them. Where they disagree"
    " with what follows below them, what follows counts."
)
_IMPORT = re.compile(r"(?:^|(?<=\s))@(?P<path>[\w./-]+\.\w+)")
_CODE = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_HEAD = re.compile(r"\A---\s*\n(?P<head>.*?)^---\s*(?:\n|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(slots=True)
class _Gathered:
    """The files found so far: their texts by path, and rules that are only named."""

    paths: frozenset[str]
    read: Callable[[str], str]
    texts: dict[str, str] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)

    def add(self, path: str, depth: int = 0) -> None:
        """Add a file and the files that it imports; a file with a known text adds nothing."""
        if path in self.texts or path not in self.paths:
            return
        text = self.read(path).strip()
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), text))
        if "\n" not in text and target in self.paths:  # a link, such as CLAUDE.md to AGENTS.md
            self.add(target, depth + 1)
        elif text and text not in self.texts.values():
            self.texts[path] = text
            if depth < _MAX_IMPORTS:
                for found in _IMPORT.finditer(_CODE.sub("", text)):
                    imported = posixpath.join(posixpath.dirname(path), found["path"])
                    self.add(posixpath.normpath(imported), depth + 1)

    def add_rule(self, path: str, folder: str, owned: Sequence[str]) -> None:
        """Add a rule that is for all files or for one of `owned`; name one that has only a
        description."""
        text = self.read(path)
        head = _HEAD.match(text)
        fields = dict(_fields(head["head"])) if head else {}
        patterns = fields.get("paths", []) + fields.get("globs", [])
        wanted = (
            fields.get("alwaysApply", ["true"]) == ["true"]
            if not patterns
            else any(
                _concerns(posixpath.join(folder, one), file) for one in patterns for file in owned
            )
        )
        if wanted:
            self.add(path)
        elif not patterns and (about := " ".join(fields.get("description", []))):
            self.named[path] = about


def instructions(
    paths: frozenset[str], read: Callable[[str], str], work_dir: str, owned: Sequence[str]
) -> str:
    """The text for an agent that may change `owned`, paths below the folder `work_dir`; "" without
    instructions. `paths` are all files of the base, and `read` returns the text of one."""
    work_dir = "" if work_dir == "." else work_dir
    files = [posixpath.normpath(posixpath.join(work_dir, path)) for path in owned]
    files = [
        f"{file}/" if name.endswith("/") else file for file, name in zip(files, owned, strict=True)
    ]
    found = _Gathered(paths, read)
    rules = sorted(p for p in paths if p.endswith(_RULE_ENDS) and any(r in f"/{p}" for r in _RULES))
    for folder in _folders([f"{work_dir}/" if work_dir else "", *files]):
        for name in _NAMES:
            found.add(posixpath.join(folder, name))
        for path in rules:
            if path.startswith(tuple(posixpath.join(folder, rule) for rule in _RULES)):
                found.add_rule(path, folder, files)
    kept, left, size = list[str](), list[str](), 0
    for path, text in found.texts.items():
        part = quoted(f"File {path}", text, _MAX_FILE_CHARS)
        size += len(part)
        if size <= _MAX_CHARS:
            kept.append(part)
        else:
            left.append(path)
    more = [f"  {path}: {about}" for path, about in found.named.items()]
    if left:
        kept.append("Too long to be shown; read them in the workspace: " + ", ".join(left))
    if more:
        kept.append(
            "\n".join(["More rules, to be read in the workspace when they concern you:", *more])
        )
    return "\n\n".join([_TITLE, *kept]) if kept else ""


def _folders(files: Iterable[str]) -> list[str]:
    """The folders of the files and all above them, the outer before the inner; the top is ""."""
    found = {"": None}
    for file in files:
        above = [str(one) for one in PurePosixPath(f"{file}x").parents if str(one) != "."]
        found.update(dict.fromkeys(reversed(above)))
    return sorted(found, key=lambda folder: folder.count("/") + bool(folder))


def _fields(head: str) -> Iterator[tuple[str, list[str]]]:
    """The fields of the head of a rule: words between commas, or a list on the lines below."""
    for name, first, rest in re.findall(
        r"^(\w+):[ \t]*(.*)\n((?:[ \t]+-.*\n?|-.*\n?)*)", f"{head}\n", re.M
    ):
        words = [
            *first.strip("[] \t").split(","),
            *(one.strip(" \t-") for one in rest.splitlines()),
        ]
        yield name, [word.strip().strip("\"'") for word in words if word.strip()]


def _concerns(pattern: str, path: str) -> bool:
    """True if a pattern with `*`, `**` and `?` matches a path, or may match a file of a folder."""
    if path.endswith("/"):
        plain = re.split(r"[*?\[{]", pattern, maxsplit=1)[0]
        return plain.startswith(path) or path.startswith(plain)
    rules = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    return (
        re.fullmatch("".join(rules.get(part) or re.escape(part) for part in parts), path)
        is not None
    )
