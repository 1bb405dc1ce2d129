"""The cost model that predictions are made with: the one of this package, or one fitted on the user's own machine."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from connect_share.errors import ConfigError
from connect_share.startup.cost_model import CostModel

SHIPPED: Final = "model.json"


class FittedModel(BaseModel):
    """A cost model and where it comes from; the members of a benchmark's result that say so, the others are passed over."""

    model_config = ConfigDict(frozen=True)

    model: CostModel
    machine: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    measured_at_ms: int = 0


def load_model(path: Path | None = None) -> FittedModel:
    """Read the model of a result of ``spark_jobs.benchmark_startup``; without a path the one of this package.

    Raises:
        ConfigError: the file cannot be read, or has no model.
    """
    try:
        text = (files(__package__) / SHIPPED if path is None else path).read_text(encoding="utf-8")
        return FittedModel.model_validate(json.loads(text))
    except OSError as exc:
        raise ConfigError(f"cannot read {path}: {exc.strerror or exc}", property_name="model") from exc
    except ValidationError as exc:
        where = ".".join(str(part) for part in exc.errors()[0]["loc"])
        raise ConfigError(
            f"{path} has no cost model: {where or 'the whole file'} is not as expected; a result of "
            f"python -m spark_jobs.benchmark_startup has one",
            property_name="model",
        ) from exc
    except ValueError as exc:
        raise ConfigError(f"{path} is no JSON, so it has no cost model", property_name="model") from exc
