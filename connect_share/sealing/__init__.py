"""Sealed sharing: values of one cluster group, encrypted and authenticated on topics that others may read and write."""

from connect_share.sealing.cipher import Refusal, load_library
from connect_share.sealing.key_ring import KeyRing
from connect_share.sealing.seals import KEYS_PROPERTY, SEALING_PROPERTY, SealingMode, TopicSeals

__all__ = ["KEYS_PROPERTY", "SEALING_PROPERTY", "KeyRing", "Refusal", "SealingMode", "TopicSeals", "load_library"]
