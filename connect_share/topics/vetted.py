"""The right settings of a shared topic, each with its reason, and the refused combinations. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from connect_share.records import TopicType
from connect_share.topics.spec import TopicSpec
from connect_share.worker_config.client_settings import is_secret_property, refusal

MIN_ISR: Final = "min.insync.replicas"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"
_MIB: Final = 1 << 20
_SEGMENT_BYTES: Final = {TopicType.CONFIG: 16 * _MIB, TopicType.OFFSET: 8 * _MIB, TopicType.STATUS: 8 * _MIB}
_AT_MOST: Final = frozenset({"segment.bytes", "segment.ms", "min.cleanable.dirty.ratio"})
"""The smaller, the sooner the cleaner comes; ``check startup`` advises less where a topic gains by it."""


@dataclass(frozen=True, slots=True)
class VettedSetting:
    """One topic setting; ``from_worker_file`` if the worker's file asks for it, which wins."""

    name: str
    value: str
    why: str
    from_worker_file: bool = False

    def is_met_by(self, actual: str) -> bool:
        """Return whether a topic with this value needs no change."""
        if self.name in _AT_MOST and not self.from_worker_file:
            with suppress(ValueError):
                return float(actual) <= float(self.value)
        return actual == self.value

    @property
    def shown_value(self) -> str:
        """The value for people; what could be a secret that ended up here by mistake is hidden."""
        return "[hidden]" if is_secret_property(self.name) else self.value


_POLICY: Final = VettedSetting(
    "cleanup.policy", "compact", "only the newest record of a key counts, and it is never deleted by age"
)
_SAME_FOR_ALL: Final = (
    VettedSetting(
        "segment.ms", "3600000", "a topic with little traffic is compacted after an hour, too, not after a week"
    ),
    VettedSetting(
        "min.cleanable.dirty.ratio",
        "0.1",
        "compacted once a tenth is superseded: a start reads little more than what is valid; Kafka waits for half",
    ),
    VettedSetting("delete.retention.ms", "86400000", "removals stay readable for a day, for readers that paused"),
    VettedSetting(UNCLEAN_ELECTION, "false", "no leader for a while is better than one without the last records"),
)


def safe_min_isr(replicas: int) -> int:
    """Return the ``min.insync.replicas`` with which one broker may fail: one less than the replicas."""
    return max(1, replicas - 1)


def stops_with_one_broker(min_isr: str, replicas: int) -> bool:
    """Return whether every write of a topic stops as soon as one of its several replicas is down."""
    return min_isr.isdigit() and replicas > 1 and int(min_isr) > safe_min_isr(replicas)


def vetted_settings(
    spec: TopicSpec, replicas: int | None, broker_max_message_bytes: int | None = None
) -> tuple[VettedSetting, ...]:
    """Return the settings of a new topic, the worker file's own included.

    If the replicas are not known, the brokers' ``min.insync.replicas`` is left alone.
    """
    largest = number_of(spec.configs, "max.message.bytes") or broker_max_message_bytes or 0
    segment_bytes = max(_SEGMENT_BYTES[spec.topic_type], largest)
    each = "" if spec.topic_type is TopicType.CONFIG else " in each partition"
    reason = f"the newest segment is never compacted and every start reads it whole{each}; Kafka's default is 1 GiB"
    settings = [_POLICY, VettedSetting("segment.bytes", str(segment_bytes), reason), *_SAME_FOR_ALL]
    if replicas is not None:
        why = f"acknowledged means on {safe_min_isr(replicas)} of {replicas} brokers, and one may fail without a stop"
        if replicas == 1:
            why = "with one replica there is nothing to choose"
        settings.append(VettedSetting(MIN_ISR, str(safe_min_isr(replicas)), why))
    own = {
        name: VettedSetting(name, value, spec.setting_name(name), from_worker_file=True)
        for name, value in sorted(spec.configs.items())
        if name != "cleanup.policy"
    }
    merged = [own.pop(setting.name, setting) for setting in settings]
    return (*merged, *own.values())


def refuse_illegal(spec: TopicSpec, settings: Mapping[str, str], replicas: int | None) -> None:
    """Refuse settings, all that a topic would get, that Kafka accepts and that fail later.

    Raises:
        ConfigError: names the property of the worker file.
    """
    in_sync = number_of(settings, MIN_ISR)
    if in_sync is not None and replicas is not None and in_sync > safe_min_isr(replicas):
        effect = "every write would stop as soon as one broker is down"
        if in_sync > replicas:
            effect = "writes need more replicas than there are"
        raise refusal(
            spec.setting_name(MIN_ISR),
            f"is {in_sync} and topic {spec.topic!r} has {replicas} replica{'' if replicas == 1 else 's'}: {effect}; "
            f"set it to {safe_min_isr(replicas)}, or {spec.setting_name('replication.factor')} to {in_sync + 1}",
        )
    segment, largest = number_of(settings, "segment.bytes"), number_of(settings, "max.message.bytes")
    if segment is not None and largest is not None and segment < largest:
        raise refusal(
            spec.setting_name("segment.bytes"),
            f"is smaller than {spec.setting_name('max.message.bytes')}: the broker would refuse large records that fit "
            f"no segment; set it to {largest} at least",
        )


def number_of(settings: Mapping[str, str], name: str) -> int | None:
    """Return the value of a numeric setting; anything else is left for the broker to refuse."""
    text = settings.get(name, "").strip()
    return int(text) if text.isascii() and text.isdigit() else None
