"""The files of a JavaScript or TypeScript project, as far as their text shows: what each loads, and
which of them a pattern of a command names. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping

from state_store.values.lazy_pattern import lazy_pattern

CODE_FILES = r"\.[cm]?[jt]sx?$"
_MAX_FOLLOWED = 200
_LOADS = lazy_pattern(r"""(?:\brequire\(|\bfrom\s|\bimport\s*\(?)\s*["'](\.[^"']*)["']""")
_SUFFIX = lazy_pattern(r"\.[cm]?[jt]sx?\Z")
_ENDINGS = tuple(f".{end}" for end in ("js", "ts", "tsx", "jsx", "mjs", "cjs", "mts", "cts"))
_TEST_WORDS = lazy_pattern(r"[._-](?:test|spec)s?\Z|\A(?:test|spec)[_-]")
_GLOB = lazy_pattern(
    r"(?P<deep>\*\*/?)|(?P<any>\*)|(?P<one>\?)(?!\()|(?P<set>\[[^\]/]+\])"
    r"|(?P<open>[?*+@!]\(|\{)|(?P<close>[)}])|(?P<or>[|,])|(?P<rest>.)",
    re.S,
)


def loaded(file: str, files: Collection[str], texts: Mapping[str, str]) -> set[str]:
    """The files of the tree that a file loads, itself and through others."""
    seen, left = set[str](), [file]
    while left and len(seen) < _MAX_FOLLOWED:
        at = left.pop()
        for one in _LOADS.findall(texts.get(at, "")):
            whole = posixpath.normpath(posixpath.join(posixpath.dirname(at), one))
            target = next((path for path in _named_by(whole) if path in files), "")
            if target and target not in seen:
                seen.add(target)
                left.append(target)
    return seen


def _named_by(whole: str) -> Iterator[str]:
    """The paths that an import may mean. A `.js` in TypeScript may name a `.ts`."""
    bare = _SUFFIX.sub("", whole)
    yield whole
    yield from (whole + end for end in _ENDINGS)
    yield from (bare + end for end in _ENDINGS if bare != whole)
    yield from (f"{whole}/index{end}" for end in _ENDINGS)


def stem(path: str) -> str:
    """The name of a file without its ending and without words such as `.test`. A file named `index`
    is called like its folder."""
    name = _TEST_WORDS.sub("", _SUFFIX.sub("", posixpath.basename(path)))
    return posixpath.basename(posixpath.dirname(path)) if name in ("index", "test") else name


def matches(pattern: str, path: str) -> bool:
    """True if a pattern of the shell, as JavaScript's programs read it, names a path."""
    groups, text = list[str](), ""
    for part in _GLOB.finditer(pattern):
        kind, found = part.lastgroup, part[0]
        if kind == "deep":
            text += r"(?:.*/)?" if found.endswith("/") else ".*"
        elif kind == "any":
            text += "[^/]*"
        elif kind == "one":
            text += "[^/]"
        elif kind == "set":
            text += f"[^{found[2:]}" if found[1] == "!" else found
        elif kind == "open":
            groups.append({"?(": ")?", "*(": ")*", "+(": ")+", "!(": ")[^/]*"}.get(found, ")"))
            text += "(?!" if found == "!(" else "(?:"
        elif kind == "close" and groups:
            text += groups.pop()
        elif kind == "or" and groups:
            text += "|"
        else:
            text += re.escape(found)
    try:
        return re.fullmatch(text, path) is not None
    except re.error:
        return False
