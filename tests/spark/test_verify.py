"""Both sides compared by real tasks: the verdicts of this process, whatever has happened to a copy."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connect_share.files import Silent
from connect_share.model.records import Record, TopicType
from spark_jobs.verify_plan import verify_engine
from tests.support.both_sides import both_sides, job_of
from tests.support.sides import differences


@pytest.mark.usefixtures("spark")
@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(both_sides(), min_size=50, max_size=60))
def test_the_same_differences(cases: list[tuple[TopicType, list[Record], list[Record]]]) -> None:
    jobs = [job_of(topic_type, there, here) for topic_type, there, here in cases]
    found = [each for some in verify_engine(Silent())(jobs) for each in some]
    assert sorted(map(str, found)) == sorted(map(str, differences(*jobs)))
