"""Each key finds the prefixes with which it begins, whatever other prefixes there are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connect_share.log.hub import Routes

NAMES = st.text("a.\x00", max_size=4).map(lambda name: name.encode() + b".") | st.sampled_from(
    [b"a.", b"a.b.", b"a.b.c.", b"ab.", b"a.c.", b"b."]
)
KEYS = st.builds(lambda name, rest: name + rest, NAMES | st.binary(max_size=3), st.binary(max_size=3) | NAMES)


@given(st.lists(NAMES, max_size=8), st.lists(KEYS, max_size=20))
def test_a_key_has_the_owners_of_all_prefixes_with_which_it_begins(prefixes: list[bytes], keys: list[bytes]) -> None:
    routes = Routes([(prefix, number) for number, prefix in enumerate(prefixes)])
    for key in keys:
        found = routes.owners(key)
        assert sorted(found) == [number for number, prefix in enumerate(prefixes) if key.startswith(prefix)]
        assert key[: routes.shortest] in routes.begins or not found
