"""What the adapters of a vendor's own coding program share: its name, its models, how it is found.

Its arguments and what its output means are its adapter's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Unpack

from driver.backend_api.driver import ROLE_WORKER, DriverCapabilities
from driver.backends.cli.local_driver import DEFAULT_STALL_S, LocalDriver, LocalOptions


class CliDriver(LocalDriver):
    """A program that works in the workspace by itself. `program` is what it is called,
    `install` the product's name and the npm package it comes in."""

    program: ClassVar[str]
    install: ClassVar[tuple[str, str]]

    def __init__(
        self,
        models: Mapping[str, str],
        *,
        extra_args: Sequence[str],
        program: str | Sequence[str],
        tier: int,
        **options: Unpack[LocalOptions],
    ) -> None:
        """`models` by role; `program` is a name, a path or a whole argument prefix."""
        options.setdefault("stall_s", DEFAULT_STALL_S)
        super().__init__(**options)
        self._models = dict(models)
        self._extra_args = tuple(extra_args)
        self._program = (program,) if isinstance(program, str) else tuple(program)
        self._tier = tier

    def resolve_model(self, role: str) -> str:
        """The model for a role; an unknown role gets the worker's."""
        return self._models.get(role, self._models[ROLE_WORKER])

    def capabilities(
        self, *, accuracy: float, models: Sequence[str], native_cost: bool, notes: str
    ) -> DriverCapabilities:
        """What all of these programs can do, and the given."""
        return DriverCapabilities(
            name=self.name,
            parallel_dispatch=True,
            worker_filesystem_access=True,
            worker_shell_access=True,
            structured_output=True,
            worktree_isolation=True,
            native_cost_tracking=native_cost,
            native_stall_detection=True,
            tool_use_accuracy=accuracy,
            recommended_verification_tier=self._tier,
            available_models=tuple(models),
            notes=notes,
        )

    def found(self) -> tuple[str, ...] | None:
        """The argument prefix that starts the program; None when it is not there."""
        path = self.find_program(self._program[0])
        return (path, *self._program[1:]) if path else None

    def missing(self) -> str:
        """The sentence for a program that is not there."""
        named = "" if self._program[0] == self.program else ", named in [backend] command,"
        product, package = self.install
        return (
            f"the program {self._program[0]!r}{named} was not found; install {product} "
            f"(npm install -g {package}), or set [backend] name to another backend"
        )
