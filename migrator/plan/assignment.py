"""Which connector is whose: a file by people, for clusters that share plain keys by accident."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from connect_share.errors import ConfigError
from migrator.private_file import read_private_file

_ASSIGNMENT = TypeAdapter(dict[str, tuple[str, ...]])


def read_assignment(path: Path) -> dict[str, tuple[str, ...]]:
    """Read ``{"group.id": ["connector", ...], ...}``.

    Raises:
        PlanFileError: the file cannot be read.
        ConfigError: it is of another shape; it says where.
    """
    try:
        return _ASSIGNMENT.validate_json(read_private_file(path, "assignment"), strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the top"
        raise ConfigError(
            f'assignment {path} is not usable, at {where}: {first["msg"]}; wanted: {{"group.id": ["connector"]}}'
        ) from error
