"""Adapts foreign backends with the five operations that do not derive from AgentDriver."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

from driver.backend_api.driver import (
    AgentDriver,
    CommandLimits,
    CommandResult,
    DriverCapabilities,
    WorkerRequest,
    WorkerResult,
    WorkerStatus,
)


class _ForeignDriver(AgentDriver):
    """Calls the five operations of a foreign backend, and converts its answers to our types."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.name = getattr(inner, "name", type(inner).__name__)

    def probe_capabilities(self) -> DriverCapabilities:
        return as_ours(DriverCapabilities, self.inner.probe_capabilities())

    def dispatch_worker(self, request: WorkerRequest) -> WorkerResult:
        return as_ours(WorkerResult, self.inner.dispatch_worker(request))

    def worker_status(self, worker_id: str) -> WorkerStatus:
        return as_ours(WorkerStatus, self.inner.worker_status(worker_id))

    def run_command(
        self, command: Any, cwd: str | None = None, shell: bool | None = None
    ) -> CommandResult:
        return as_ours(CommandResult, self.inner.run_command(command, cwd=cwd, shell=shell))

    def run_bounded(self, command: Any, cwd: str, limits: CommandLimits) -> CommandResult:
        del limits
        return as_ours(CommandResult, self.inner.run_command(command, cwd=cwd))

    def resolve_model(self, role: str) -> str:
        return str(self.inner.resolve_model(role))

    def get_tokens_spent(self) -> int | None:
        tell = getattr(self.inner, "get_tokens_spent", None)
        return tell() if tell is not None else None


Ours = TypeVar("Ours")


def as_ours(kind: type[Ours], theirs: Any) -> Ours:
    """`theirs` if it is a `kind`, else a `kind` with the fields that theirs has."""
    if isinstance(theirs, kind):
        return theirs
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: getattr(theirs, name) for name in names if hasattr(theirs, name)})


def adapted(driver: Any) -> AgentDriver:
    """`driver` if it is an AgentDriver, else an adapter of its five operations."""
    return driver if isinstance(driver, AgentDriver) else _ForeignDriver(driver)
