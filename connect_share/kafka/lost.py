"""A topic that is gone while others of its set have records is lost, not empty: nothing makes it anew unasked."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from connect_share.errors import AuthorizationError, LostTopicError, TopicMissingError, command_line
from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import TopicDescription
from connect_share.model.records import TopicType
from connect_share.worker_config import TOPIC_PROPERTIES

LOST: Final = "lost-topic"
ALTHOUGH_LOST: Final = "--although-lost"
GONE: Final = "does not exist, and other topics of its set have records"


def way_back(topic_type: TopicType) -> str:
    """Return the steps after which nothing is lost."""
    saved, given = "", ""
    if topic_type is TopicType.CONFIG:
        saved = "save what a worker that still runs has (GET /connectors?expand=info), then "
        given = ", and give them what was saved (PUT /connectors/NAME/config)"
    restore = command_line("connect-share", "restore", "BACKUP", "-w", "FILE", "--only", topic_type.value)
    create = command_line("connect-share", "create", "topics", "-w", "FILE", ALTHOUGH_LOST)
    return (
        f"remove nothing: {saved}stop all workers on these topics; put back a backup ({restore}), "
        f"or, without one, make the topic ({create}); start the workers{given}"
    )


def lost_topic(topic_type: TopicType, topic: str, what: str = GONE, then: str = "") -> LostTopicError:
    """Return the error that names a topic, and the way back; ``then`` is what is to be done behind that."""
    return LostTopicError(f"topic {topic} is lost, not empty: it {what}; {way_back(topic_type)}{then}", topic=topic)


def require_none_lost(admin: Admin, topics: Mapping[TopicType, str]) -> None:
    """Refuse to go on, such as to make what is missing, where a topic does not exist although another one has records."""
    described = admin.describe_topics(topics.values())
    places = [(name, part.id) for name, topic in described.items() for part in topic.partitions]
    missing = [topic_type for topic_type, topic in topics.items() if topic not in described]
    if missing and places:
        starts = admin.start_offsets(places)
        if any(end > starts[place] for place, end in admin.end_offsets(places).items()):
            raise lost_topic(missing[0], topics[missing[0]])


def require_topics(
    admin: Admin, topics: Mapping[TopicType, str], wanted: tuple[TopicType, ...] | None = None
) -> dict[str, TopicDescription]:
    """Return the topics of a set that are wanted, by default all; each has to exist.

    Raises:
        LostTopicError: one does not, and another one has records.
        TopicMissingError: one does not; names the property.
    """
    described = admin.describe_topics(topics[each] for each in wanted or topics)
    for topic_type in wanted or topics:
        if (topic := topics[topic_type]) not in described:
            with suppress(AuthorizationError):  # of the others, which nobody has asked for
                require_none_lost(admin, topics)
            raise TopicMissingError(
                f"topic {topic} does not exist; check {TOPIC_PROPERTIES[topic_type]} and the cluster's address",
                topic=topic,
            )
    return described
