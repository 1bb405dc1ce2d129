"""The duration of a start: a fixed part, and a price for each record, each byte and each record of one's own."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from connect_share.errors import ConfigError
from connect_share.worker_config.properties import read_whole

NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]

EARLY_RECORDS: Final = 50_000
"""The first records cost more than later ones: fetches are not full yet, nothing in the process is warm."""

EARLY_BYTES: Final = 32 * 1024 * 1024
"""The first bytes cost more than later ones: the client holds at most as many, in memory that is new to it."""


class StartSize(BaseModel):
    """The amount that one start has to read, in all three topics together.

    Attributes:
        records: that the brokers deliver, own and foreign.
        bytes: of keys and values of all these records, before compression.
        own_records: of the group that starts; these are parsed.
    """

    model_config = ConfigDict(frozen=True)

    records: int
    bytes: int
    own_records: int


def amounts(size: StartSize) -> dict[str, float]:
    """Return the amount for each price of a :class:`CostModel`, by the price's name."""
    return {
        "fixed_s": 1.0,
        "per_record_s": size.records,
        "per_byte_s": size.bytes,
        "per_own_record_s": size.own_records,
        "per_early_record_s": min(size.records, EARLY_RECORDS),
        "per_early_byte_s": min(size.bytes, EARLY_BYTES),
    }


class CostModel(BaseModel):
    """Seconds of a start: ``fixed_s + per_record_s * records + per_byte_s * bytes + per_own_record_s * own_records``.

    Attributes:
        per_early_record_s: more for each of the first :data:`EARLY_RECORDS`.
        per_early_byte_s: more for each of the first :data:`EARLY_BYTES`.
        error: largest relative error on sizes that were left out of the fit and are not larger than all others, 0.2 is
            20 %.
    """

    model_config = ConfigDict(frozen=True)

    fixed_s: NotNegative
    per_record_s: NotNegative
    per_byte_s: NotNegative
    per_own_record_s: NotNegative
    per_early_record_s: NotNegative = 0.0
    per_early_byte_s: NotNegative = 0.0
    error: NotNegative = 0.0

    def seconds(self, size: StartSize) -> float:
        """Predict the start of one group's three stores."""
        return float(sum(getattr(self, price) * amount for price, amount in amounts(size).items()))

    def between(self, size: StartSize) -> tuple[float, float]:
        """Return the shortest and longest start that the model's error allows, in seconds."""
        predicted = self.seconds(size)
        return predicted / (1 + self.error), predicted * (1 + self.error)


class FittedModel(BaseModel):
    """A cost model and where it comes from; the members of a benchmark's result that say so, the others are passed over.

    Attributes:
        path: of the file that it was read from, ``None``: the one of this package.
    """

    model_config = ConfigDict(frozen=True)

    model: CostModel
    machine: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    measured_at_ms: int = Field(default=0, ge=0, lt=1 << 47)
    path: Path | None = Field(default=None, exclude=True)


def load_model(path: Path | None = None) -> FittedModel:
    """Read the model of a result of ``spark_jobs.benchmark_startup``; without a path the one of this package."""
    try:
        own = files(__package__) / "model.json"
        data = own.read_bytes() if path is None else read_whole(path, property_name="model")
        return FittedModel.model_validate(json.loads(data)).model_copy(update={"path": path})
    except ValidationError as exc:
        where = ".".join(str(part) for part in exc.errors()[0]["loc"])
        raise ConfigError(
            f"{path} has no cost model: {where or 'the whole file'} is not as expected; a result of "
            f"python -m spark_jobs.benchmark_startup has one",
            property_name="model",
        ) from exc
    except (ValueError, RecursionError) as exc:
        raise ConfigError(f"{path} is no JSON, so it has no cost model", property_name="model") from exc
