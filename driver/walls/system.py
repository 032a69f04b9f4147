"""The parts of the system that a command inside a wall may read: programs and toolchains."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from driver.homes.toolchains import TOOLCHAIN_PLACES
from driver.walls.roles import System
from driver.walls.wall import Role
from state_store.values.lazy_dataclass import replace

_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"),
    *("/nix/store", "/snap", "/home/linuxbrew/.linuxbrew", "/var/lib/ca-certificates"),
    *("/var/cache/fontconfig", "/sys/devices/system/cpu"),
)
# Keys of the machine. A person who is root can read them, and so could a command inside.
_HIDDEN = (
    *("/etc/ssh", "/etc/ssl/private", "/etc/sudoers.d", "/etc/NetworkManager", "/etc/wireguard"),
    *("/etc/letsencrypt", "/etc/docker", "/etc/kubernetes"),
)
_HIDDEN_FILES = tuple(
    f"/etc/{name}"
    for name in ("shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "krb5.keytab")
)
# Folders of a home that hold programs and no login, and what git asks for.
_TOOLCHAINS = (
    *(".pyenv", ".rustup", ".cargo/bin", ".nvm", ".volta", ".fnm"),
    *(".local/bin", ".local/lib", ".local/share/uv", ".local/share/pnpm", ".local/share/mise"),
    *(".local/share/pipx", ".local/pipx"),
    *(".asdf", ".sdkman", ".rbenv", ".goenv", "go", ".bun", ".deno", ".npm-global"),
    *(".gitconfig", ".config/git/config"),
)
# Caches of package managers, which a set-up fills.
_CACHES = (
    *(".cache/uv", ".cache/pip", ".cache/pypoetry", ".cache/pdm", ".npm", ".cache/yarn"),
    *(".cache/pnpm", ".local/share/pnpm/store", ".cargo/registry", ".cargo/git"),
    *(".m2/repository", ".m2/wrapper"),
    *(".gradle/caches", ".gradle/wrapper", "go/pkg", ".cache/go-build", ".nuget/packages"),
    *(".cache/composer", ".bundle/cache", ".cache/node/corepack", ".cache/ms-playwright"),
)
# Settings of package managers; some hold the key of a private registry.
_READ_BY_SETUPS = (
    *(".npmrc", ".yarnrc", ".yarnrc.yml", ".config/pnpm/rc", ".bunfig.toml", ".config/pip", ".pip"),
    *(".netrc", ".config/uv/uv.toml", ".config/pypoetry", ".config/pdm", ".config/hatch"),
    *(".cargo/config", ".cargo/config.toml", ".cargo/credentials.toml", ".config/go/env"),
    *(".m2/settings.xml", ".m2/toolchains.xml", ".gradle/gradle.properties", ".gradle/init.d"),
    *(".gemrc", ".bundle/config", ".nuget/NuGet/NuGet.Config", ".config/composer"),
)
_WRITTEN_BY_HOOKS = (".cache/pre-commit",)
_DISK_OF_WINDOWS = re.compile("/mnt/[a-z](?:/|$)")
_BESIDE_PROGRAMS = ("lib", "lib64", "libexec", "share", "include")


def system_here(
    environ: Mapping[str, str], settings: Iterable[Path] = (), avoid: Iterable[Path] = ()
) -> System:
    """The parts of this machine that commands inside may read. `settings` are those of the user's
    home for checkers. Nothing in the folders `avoid` is a toolchain."""
    home, avoid = Path(environ.get("HOME") or "/nonexistent"), tuple(avoid)
    shared = _outermost(
        (
            *_existing(home, (*_TOOLCHAINS, *_CACHES)),
            *_path_programs(environ.get("PATH", ""), home, avoid),
            *_named_toolchains(environ, home, avoid),
            *(one for one in settings if one.exists()),
        )
    )
    readable_of = {Role.SETUP: _existing(home, _READ_BY_SETUPS)}
    writable_of = {
        Role.SETUP: _existing(home, _CACHES),
        Role.HOOK: _existing(home, _WRITTEN_BY_HOOKS),
    }
    links = {
        role: _links(home, (*writable_of.get(role, ()), *readable_of.get(role, ()), *shared))
        for role in Role
    }
    return System(
        _outermost((*system_paths(), *shared)),
        hidden_paths(),
        hidden_files(),
        system_aliases(),
        home,
        readable_of,
        writable_of,
        links,
    )


def beside_an_image(system: System) -> System:
    """The parts of this machine that commands in a container find beside its image."""
    own = tuple(path for path in system.readable if not is_of_system(path))
    return replace(system, readable=own, hidden=(), hidden_files=(), aliases=())


def is_of_system(path: Path) -> bool:
    """True for a path that an image has by itself."""
    return _is_below(str(path), _SYSTEM)


def _links(home: Path, paths: Iterable[Path]) -> tuple[tuple[str, str], ...]:
    """The names in a private home of parts of the user's own, and their places there."""
    inside = (one for one in _outermost(paths) if home in one.parents)
    return tuple(sorted((str(one.relative_to(home)), str(one)) for one in inside))


def system_paths() -> tuple[Path, ...]:
    """The existing folders of the system, and the Python that runs Tidegate."""
    names = (*_SYSTEM, *_own_python(), os.path.realpath("/etc/resolv.conf"))
    aliases = {path for path, _ in system_aliases()}
    found = (Path(name) for name in names if Path(name).exists())
    return _outermost(path for path in found if path not in aliases)


def _own_python() -> Iterator[str]:
    """The places of the Python that runs Tidegate. Without `site`, as with `python -S`, it does not
    say that it is one of a virtual environment."""
    yield from (sys.prefix, sys.base_prefix)
    if sys.executable:
        yield from (sys.executable, os.path.realpath(sys.executable))
        environment = Path(sys.executable).parent.parent
        if (environment / "pyvenv.cfg").is_file():
            yield str(environment)


def system_aliases() -> tuple[tuple[Path, str], ...]:
    """The folders of the system that are links to others, such as `/bin`, and their targets."""
    links = ((Path(name), os.path.realpath(name)) for name in _SYSTEM if Path(name).is_symlink())
    return tuple((path, real) for path, real in links if _is_below(real, _SYSTEM))


def _outermost(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The paths without those that lie in another one. One that a link leads out of it stays."""
    given = list(map(str, dict.fromkeys(paths)))
    around = {path: os.path.realpath(path) for path in given}

    def lies_in_another(path: str) -> bool:
        above = (one for one in given if one != path and _is_below(path, (one,)))
        return any(_is_below(around[path], (around[one],)) for one in above)

    return tuple(Path(path) for path in given if not lies_in_another(path))


def _is_below(path: str, places: Iterable[str]) -> bool:
    """True if the path is one of the places, or in one of them."""
    return any(path == one or path.startswith(one.rstrip("/") + "/") for one in places)


def _is_folder(path: Path) -> bool:
    """True for a folder in reach. The variables of a user may name those of another."""
    return os.path.isdir(path)  # noqa: PTH112 - it raises nothing


def hidden_paths() -> tuple[Path, ...]:
    """The folders with keys of the machine that this user could read."""
    return tuple(Path(name) for name in _HIDDEN if os.access(name, os.R_OK))


def hidden_files() -> tuple[Path, ...]:
    """The files with keys of the machine that this user could read."""
    return tuple(Path(name) for name in _HIDDEN_FILES if os.access(name, os.R_OK))


def _named_toolchains(
    environ: Mapping[str, str], home: Path, avoid: Iterable[Path]
) -> Iterator[Path]:
    """The existing folders that variables of toolchains name. One around the home or in a folder of
    `avoid` would open more than a toolchain; one of cargo may hold a key."""
    for name in TOOLCHAIN_PLACES:
        path = Path(environ.get(name) or "-")
        if name == "CARGO_HOME" or not path.is_absolute() or not _is_folder(path):
            continue
        if not _meets(path, (home,), avoid):
            yield path


def _existing(home: Path, names: Iterable[str]) -> tuple[Path, ...]:
    """The paths in a home that exist."""
    return tuple(home / name for name in names if (home / name).exists())


def _path_programs(path: str, home: Path, avoid: Iterable[Path]) -> tuple[Path, ...]:
    """The folders of programs on PATH, and what these programs read beside them. Those of a Windows
    beside this system are slow to read, and their programs do not run inside."""
    given = (Path(entry) for entry in path.split(os.pathsep) if entry)
    folders = [one for one in dict.fromkeys(given) if not _DISK_OF_WINDOWS.match(str(one))]
    linked = (one for folder in folders for one in _linked_from(folder))
    behind = [one for one in linked if not _meets(one, (), avoid)]
    parts = [part for folder in (*folders, *behind) for part in _programs_in(folder, home)]
    named = (one for one in folders if one.is_absolute() and _is_folder(one))
    apart = (one for one in named if not _meets(one, (home,), avoid))
    return tuple(dict.fromkeys((*parts, *apart)))


def _linked_from(folder: Path) -> Iterator[Path]:
    """The folders of programs to which links of a folder on PATH lead, such as the environments of
    tools that were installed one by one. The system is readable anyway."""
    if _is_below(str(folder), _SYSTEM):
        return
    with suppress(OSError), os.scandir(folder) as entries:
        targets = (os.path.realpath(entry.path) for entry in entries if entry.is_symlink())
        found = dict.fromkeys(Path(one).parent for one in targets)
        yield from (one for one in found if not _is_below(str(one), _SYSTEM))


def _meets(path: Path, around: Iterable[Path], closed: Iterable[Path]) -> bool:
    """True for a folder around one of `around`, and for one around or in one of `closed`."""
    real = path.resolve()
    places = [one.resolve() for one in closed]
    above = (one.is_relative_to(real) for one in (*(one.resolve() for one in around), *places))
    return any(above) or any(real.is_relative_to(one) for one in places)


def program_places(words: Iterable[str], home: Path) -> tuple[Path, ...]:
    """The files among the words of a command, and what these programs read beside them."""
    found = list[Path]()
    for path in (Path(word) for word in words if word.startswith("/")):
        if path.is_file():
            real = path.resolve()
            found += [path, real, *_programs_in(path.parent, home), *_packages_of(real)]
    return tuple(dict.fromkeys(found))


def _programs_in(folder: Path, home: Path) -> Iterator[Path]:
    """The folder itself, if it is a `bin`, and what it runs on; nothing of one around the home."""
    if not folder.is_absolute() or not _is_folder(folder) or home.is_relative_to(folder):
        return
    above = folder.parent
    if folder.name == ".bin" or (above / "pyvenv.cfg").is_file():
        yield above
    elif folder.name in ("bin", "sbin", "shims", "Scripts"):
        yield folder
        if not home.is_relative_to(above):
            yield from (above / one for one in _BESIDE_PROGRAMS if (above / one).is_dir())


def _packages_of(program: Path) -> Iterator[Path]:
    """The packages of Node around a program."""
    yield from (one for one in program.parents if one.name == "node_modules")
