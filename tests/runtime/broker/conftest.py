"""Stores on topics of a test's own, as in the tests of the stores."""

from tests.broker.conftest import site
from tests.broker.stores.conftest import shared

__all__ = ["shared", "site"]
