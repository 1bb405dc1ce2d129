"""What is noted of each command that was run on a plan, beside what the command itself leaves."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from migrator.verify.verification import Verification


class Run(BaseModel):
    """One command.

    Attributes:
        command: its word, such as ``apply``.
        outcome: ``done``, ``interrupted``, ``differences found``, or the error's name.
        operator: who ran it: the name of the user of the system.
        host: where.
    """

    model_config = ConfigDict(frozen=True)

    command: str
    began_ms: int
    ended_ms: int
    outcome: str
    operator: str
    host: str
    version: str


class Runs(BaseModel):
    """All commands on a plan, in order."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    runs: tuple[Run, ...] = ()


class KeptVerification(Verification):
    """A verification, and when it was made."""

    at_ms: int
    version: str
