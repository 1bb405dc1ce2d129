"""Whether the long forms run, which `make test` leaves out: `make soak` sets how many minutes a soak lasts."""

from __future__ import annotations

import os
from typing import Final

LONG: Final = "CONNECT_SHARE_SOAK_MINUTES" in os.environ
