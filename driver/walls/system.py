"""The parts of the system that a command inside a wall may read: programs and toolchains."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"),
    *("/nix/store", "/sys/devices/system/cpu"),
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
# Folders of a home that hold programs and no login.
_TOOLCHAINS = (
    *(".pyenv", ".rustup", ".cargo/bin", ".cargo/registry", ".cargo/git", ".nvm", ".volta", ".fnm"),
    *(".local/bin", ".local/lib", ".local/share/uv", ".local/share/pnpm", ".local/share/mise"),
    *(".asdf", ".sdkman", ".rbenv", ".goenv", "go", ".bun", ".deno", ".npm-global"),
    *(".cache/uv", ".cache/pip", ".cache/ms-playwright", ".cache/node/corepack", ".npm/_cacache"),
)


def system_paths() -> tuple[Path, ...]:
    """The existing folders of the system, and the Python that runs Tidegate."""
    names = (*_SYSTEM, sys.prefix, sys.base_prefix, os.path.realpath("/etc/resolv.conf"))
    return tuple(Path(name) for name in dict.fromkeys(names) if Path(name).exists())


def hidden_paths() -> tuple[Path, ...]:
    """The folders with keys of the machine that this user could read."""
    return tuple(Path(name) for name in _HIDDEN if os.access(name, os.R_OK))


def hidden_files() -> tuple[Path, ...]:
    """The files with keys of the machine that this user could read."""
    return tuple(Path(name) for name in _HIDDEN_FILES if os.access(name, os.R_OK))


def toolchain_paths(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The existing toolchains in the user's home."""
    home = Path(environ.get("HOME", "/nonexistent"))
    return tuple(home / name for name in _TOOLCHAINS if (home / name).exists())
