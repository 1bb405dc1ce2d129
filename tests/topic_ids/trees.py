"""Copies of brokers' log dirs for tests: the captured cases, and changes made to them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from connect_share.topic_ids.authority.authority import Authority
from connect_share.topic_ids.authority.kraft import read_metadata_dump
from connect_share.topic_ids.authority.zookeeper import read_zookeeper_dump
from connect_share.topic_ids.compare.compare import Comparison, compare
from connect_share.topic_ids.scan.scans import read_brokers_dir

CASES = Path(__file__).parent.parent / "vectors" / "topic-ids"
NAMES = sorted(path.parent.name for path in CASES.glob("*/tree.json"))


class Tree:
    """One case, unpacked to be changed."""

    def __init__(self, case: str, folder: Path) -> None:
        self.folder = folder / case
        for name, text in json.loads((CASES / case / "tree.json").read_text("utf-8")).items():
            path = self.folder / name
            if name.endswith("/"):
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text.encode("latin-1"))
        self.zookeeper = self.folder / "zookeeper.json"
        self.metadata_dump = self.folder / "metadata-dump.txt"
        for path in (CASES / case).iterdir():
            if path.name != "tree.json":
                shutil.copy(path, self.folder / path.name)

    @property
    def expected(self) -> list[dict[str, Any]]:
        found = json.loads((self.folder / "expected.json").read_text("utf-8"))["findings"]
        assert isinstance(found, list)
        return found

    @property
    def authority_words(self) -> list[str]:
        if self.zookeeper.exists():
            return ["--zookeeper-dump", str(self.zookeeper)]
        return ["--metadata-dump", str(self.metadata_dump)]

    def authority(self) -> Authority:
        if self.zookeeper.exists():
            return read_zookeeper_dump(self.zookeeper)
        return read_metadata_dump(self.metadata_dump)

    def compared(self) -> Comparison:
        return compare(read_brokers_dir(self.folder), self.authority())

    def found(self) -> list[dict[str, Any]]:
        return [finding.to_dict() for finding in self.compared().findings]

    def set_id(self, path: str, topic_id: str) -> None:
        """Write the id of a partition directory, given as ``broker-1/logdir-1/orders-0``."""
        (self.folder / path / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")

    def directories(self, topic: str) -> list[str]:
        """All current directories of a topic."""
        found = self.folder.glob(f"broker-*/*/{topic}-*")
        return sorted(str(path.relative_to(self.folder)) for path in found if "." not in path.name)

    def change_znode(self, topic: str, **members: Any) -> None:
        """Change, or with ``None`` for ``topic_id`` strip, the text of a topic's znode."""
        texts = json.loads(self.zookeeper.read_text("utf-8"))
        znode = {**json.loads(texts[f"/brokers/topics/{topic}"]), **members}
        if members.get("topic_id", "") is None:
            del znode["topic_id"]
        texts[f"/brokers/topics/{topic}"] = json.dumps(znode)
        self.zookeeper.write_text(json.dumps(texts))

    def fill(self, client: Any) -> None:
        """Create the znodes in a ZooKeeper, below ``/kafka``."""
        for path, text in json.loads(self.zookeeper.read_text("utf-8")).items():
            client.create(f"/kafka{path}", text.encode(), makepath=True)

    def set_sizes(self, sizes: dict[str, int], default: int = 100) -> None:
        """Say how large the logs are, by directory."""
        names = {
            str(path.relative_to(self.folder)): default for path in self.folder.glob("broker-*/*/*") if path.is_dir()
        }
        files = {f"{name}/0.log": size for name, size in {**names, **sizes}.items()}
        (self.folder / "files.json").write_text(json.dumps(files))
