"""Values of JSON, for what has to hold for all of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Strategy = st.SearchStrategy[Any]


def json_values(numbers_and_texts: Strategy, names: Strategy | None = None) -> Strategy:
    """Return small values: these, the three words, and lists and objects of them."""
    keys = st.text(max_size=8) if names is None else names
    leaves = st.none() | st.booleans() | numbers_and_texts
    return st.recursive(leaves, lambda each: st.lists(each, max_size=3) | st.dictionaries(keys, each, max_size=3))
