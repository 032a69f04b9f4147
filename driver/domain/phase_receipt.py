"""The receipt of a phase of an item, as data and as JSON for report, journal and events. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from driver.backend_api.driver import Usage
from state_store.values.lazy_dataclass import asdict, dataclass, field, replace

COMPLETED = "completed"  # the next step may begin
REPAIR = "repair"  # the work has a fault, and an agent shall repair it
STALLED = "stalled"  # the item ends here
SKIPPED = "skipped"  # by the user, or by the configuration

# Roles; the usage of BUILDER, REPAIRER and READER is counted with the attempts and reviews.
BUILDER, REPAIRER, READER, TESTER, WORKER = "agent", "repair", "verdict", "gate", "helper"


@dataclass(frozen=True, slots=True)
class CommandReceipt:
    """A command of a gate or a set-up; `exit_code` is None if it did not finish."""

    command: str
    exit_code: int | None
    duration_ms: int


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine of a phase, with None for unknown values. `name` is the name of the backend."""

    name: str | None = None
    model: str | None = None
    effort: str | None = None


@dataclass(frozen=True, slots=True)
class PhaseReceipt:
    """The record of a phase that ran. `input` and `output` are git trees, None before the first
    tree. `engine` is None for a phase without an agent. A `recalled` receipt is from an earlier
    run."""

    phase: str
    kind: str
    role: str
    status: str
    input: str | None = None
    output: str | None = None
    prompt_hash: str | None = None
    config_hash: str = ""
    artifacts: tuple[str, ...] = ()
    commands: tuple[CommandReceipt, ...] = ()
    engine: Engine | None = None
    policy: str = "host"
    usage: Usage = field(default_factory=Usage)
    started_at: str = ""
    duration_ms: int = 0
    reason: str = ""
    recalled: bool = False

    def to_json(self) -> dict[str, Any]:
        """The JSON form in report, journal and events."""
        return {
            "phase": self.phase,
            "kind": self.kind,
            "role": self.role,
            "status": self.status,
            "inputTree": self.input,
            "outputTree": self.output,
            "promptHash": self.prompt_hash,
            "configHash": self.config_hash,
            "artifacts": list(self.artifacts),
            "gateReceipts": [
                {"command": c.command, "exitCode": c.exit_code, "durationMs": c.duration_ms}
                for c in self.commands
            ],
            # No backend reports its version yet.
            "engine": {**asdict(self.engine), "version": None} if self.engine else None,
            "execution": {"policy": self.policy},
            "usage": self.usage.to_json(),
            "startedAt": self.started_at or None,
            "durationMs": self.duration_ms,
            "reason": self.reason or None,
            "recalled": self.recalled,
        }


def from_json(record: object) -> tuple[PhaseReceipt, ...]:
    """Receipts read from a journal; empty if any of them is malformed."""
    try:
        return tuple(_receipt(one) for one in record) if isinstance(record, list) else ()
    except (KeyError, TypeError, ValueError):
        return ()


def _receipt(record: Mapping[str, Any]) -> PhaseReceipt:
    engine = record["engine"]
    return PhaseReceipt(
        phase=str(record["phase"]),
        kind=str(record["kind"]),
        role=str(record["role"]),
        status=str(record["status"]),
        input=record["inputTree"],
        output=record["outputTree"],
        prompt_hash=record["promptHash"],
        config_hash=str(record["configHash"]),
        artifacts=tuple(map(str, record["artifacts"])),
        commands=tuple(
            CommandReceipt(str(c["command"]), c["exitCode"], int(c["durationMs"]))
            for c in record["gateReceipts"]
        ),
        engine=Engine(engine["name"], engine["model"], engine["effort"]) if engine else None,
        policy=str(record["execution"]["policy"]),
        usage=Usage.from_json(record["usage"]),
        started_at=record["startedAt"] or "",
        duration_ms=int(record["durationMs"]),
        reason=record["reason"] or "",
        recalled=True,
    )


def remembered(receipts: Sequence[PhaseReceipt]) -> tuple[PhaseReceipt, ...]:
    """The receipts, marked as recalled from an earlier run."""
    return tuple(replace(one, recalled=True) for one in receipts)
