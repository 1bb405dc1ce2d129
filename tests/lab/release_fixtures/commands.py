"""Command lines of both programs, each with its exit code and the shape of its JSON.

They are played in their order on one broker: those that write come behind those that read. In words ``@FOLDER@``,
``@NAME@`` and ``@BROKER@`` stand for what is another in each run.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from tests.lab.release_fixtures.program import run, shape_of
from tests.lab.release_fixtures.scenes import BROKER, GROUP, SEALING, Scene, plain_records, write_group
from tests.lab.release_fixtures.topics import SavedRecord

FOLDER: Final = "@FOLDER@"
NAME: Final = "@NAME@"
SEALED: Final = "sealed.team"

_LINES: Final = """
get groups -w W --all-groups
get connectors -w W --all-groups
get connectors -w W --state FAILED
get tasks -w W --all-groups
get offsets -w W --all-groups
get offsets -w W --connector my.conn
get statuses -w W --all-groups --show-values
get workers -w W
get connectors -w W --group no.such.group
describe group com.acme.orders -w W
describe group sealed.team -w W
describe connector my.conn -w W
describe connector my.conn -w W --show-values
describe connector my.conn -w sealed.properties
describe connector no.such.connector -w W
check all -w W
check order -w W
check orphans -w W
check collisions -w W
check secrets -w W
check sizes -w W
check transactions -w W
check liveness -w W
check values -w W
check workers -w W
check worker-config W --offline
check worker-config destination.properties sealed.properties
check topics -w W
check sealing -w sealed.properties
check rights -w W
check startup -w W
check topic-ids --brokers-dir @FOLDER@/brokers --zookeeper-dump @FOLDER@/zookeeper.json
discover -B @BROKER@
admit -w new.properties
usage -w W
keys new
worker-jar
worker-jar --to @FOLDER@
exporter -w missing.properties --listen 127.0.0.1:0
create topics -w made.properties --dry-run
create topics -w made.properties --yes
export -w W --all-groups -o @FOLDER@/all.avro
export -w W --follow @FOLDER@/followed --once
export -w W -o @FOLDER@/orders.avro
export -w W -o @FOLDER@/orders.avro
describe backup @FOLDER@/orders.avro
restore @FOLDER@/orders.avro -w restored.properties --dry-run
restore @FOLDER@/orders.avro -w restored.properties --yes
restore @FOLDER@/followed -w restored.properties --yes
alter offsets status-a -w W --file @FOLDER@/offsets.json --dry-run
alter offsets status-a -w W --file @FOLDER@/offsets.json --force --yes
alter offsets my.conn -w W --file @FOLDER@/offsets.json --yes
copy offsets status-a --to third -w W --force --dry-run
copy offsets status-a --to third -w W --force --yes
reset offsets status-a -w W --dry-run
reset offsets status-a -w W --force --yes
repair order -w W --dry-run
repair order -w W --yes
repair orphans -w W --offsets --dry-run
repair orphans -w W --offsets --yes
repair values -w W --dry-run
repair refused -w W --dry-run
repair topic-ids --brokers-dir @FOLDER@/brokers --zookeeper-dump @FOLDER@/zookeeper.json --dry-run
migrate survey -w source.properties --to-worker-config destination.properties
migrate plan -w source.properties --to-worker-config destination.properties --dry-run
migrate plan -w source.properties --to-worker-config destination.properties --follow -o @FOLDER@/move.json
migrate verify @FOLDER@/move.json
migrate apply @FOLDER@/move.json --dry-run
migrate apply @FOLDER@/move.json --yes --isolation-proof
migrate apply @FOLDER@/move.json --yes
migrate resume @FOLDER@/move.json
migrate verify @FOLDER@/move.json
migrate verify @FOLDER@/move.json --isolation
migrate cutover @FOLDER@/move.json --dry-run
migrate cutover @FOLDER@/move.json --yes
migrate unseal @FOLDER@/move.json --dry-run
migrate unseal @FOLDER@/move.json --yes
alter offsets a.b -w destination.properties --file @FOLDER@/offsets.json --force --yes
migrate seal @FOLDER@/move.json --dry-run
migrate seal @FOLDER@/move.json --yes
migrate rollback @FOLDER@/move.json --although-used --dry-run
migrate rollback @FOLDER@/move.json --although-used --yes
migrate restore @FOLDER@/move.backup.avro -w source.properties --dry-run
migrate reseal -w sealed.properties --dry-run
migrate reseal -w sealed.properties --yes
delete group com.acme.orders -w W --dry-run
delete group com.acme.orders -w W --yes
get connectors
get nothing -w W
migrate apply
"""


def command_lines() -> list[list[str]]:
    """Return the words of every command line, the program first."""
    lines = []
    for line in _LINES.strip().splitlines():
        words = ["worker.properties" if word == "W" else word for word in line.split()]
        words = [f"{FOLDER}/{word}" if word.endswith(".properties") else word for word in words]
        words = ["connect-share-migrate", *words[1:]] if words[0] == "migrate" else ["connect-share", *words]
        lines.append([*words, "--output", "json"])
    return lines


def set_the_stage(scene: Scene) -> None:
    """Make what the command lines need: topics of five names, worker files, and what lies on disks of a broker."""
    for side in ("shared", "own", "moved", "restored"):
        scene.create(side)
    write_group(scene.worker())
    sealing = {**SEALING, "connect.management.topic.sharing.encryption": "required"}
    write_group(scene.worker(group=SEALED, file="sealed.properties", more=sealing))
    for kind, topic in scene.topics("own").items():
        scene.cluster.write(topic, plain_records(kind))
    # What two checks find: a task configuration that no commit follows, and a status of nobody's connector.
    lost = b'{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":1}'
    shared, prefix = scene.topics(), f"{GROUP}.".encode()
    scene.cluster.write(shared["status"], [SavedRecord(0, 0, 1, prefix + b"status-connector-lost", lost)])
    scene.cluster.write(
        shared["config"], [SavedRecord(0, 0, 1, prefix + b"task-my.conn-0", b'{"properties":{"x":"2"}}')]
    )
    scene.worker("own", group="orders", sharing=False, file="source.properties")
    scene.worker("moved", group="com.acme.moved", file="destination.properties")
    scene.worker("restored", file="restored.properties")
    scene.worker("made", file="made.properties")
    scene.worker("missing", file="missing.properties")
    scene.worker(group="com.acme.new", file="new.properties")
    offsets = {"offsets": [{"partition": {"file": "in.0"}, "offset": {"position": 99}}]}
    scene.save_json("offsets.json", offsets)
    replica = scene.folder / "brokers" / "broker-1" / "data" / "orders-0"
    replica.mkdir(parents=True)
    (replica / "partition.metadata").write_text("version: 0\ntopic_id: VFikBPGgTFa4tSj3PZTVgw", encoding="utf-8")
    meta = "version=0\nbroker.id=1\ncluster.id=70SQeE2IQKyDYPWrinEyfg\n"
    (replica.parent / "meta.properties").write_text(meta, encoding="utf-8")
    znode = {"version": 3, "topic_id": "70SQeE2IQKyDYPWrinEyfg", "partitions": {"0": [1]}, "adding_replicas": {}}
    state = {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 1, "isr": [1]}
    tree = {
        "/brokers/topics/orders": json.dumps({**znode, "removing_replicas": {}}),
        "/brokers/topics/orders/partitions/0/state": json.dumps(state),
        "/cluster/id": json.dumps({"version": "1", "id": "70SQeE2IQKyDYPWrinEyfg"}),
    }
    scene.save_json("zookeeper.json", tree)


def played(scene: Scene, lines: Iterable[Sequence[str]]) -> list[dict[str, Any]]:
    """Run command lines on a stage; return the exit code of each, and the shapes of its result and of its error."""
    stand_ins = {FOLDER: str(scene.folder), NAME: scene.name, BROKER: scene.cluster.bootstrap_servers}
    names = {name: stand_in for stand_in, name in stand_ins.items()}
    done = []
    for words in lines:
        program, *rest = words
        for stand_in, name in stand_ins.items():
            rest = [word.replace(stand_in, name) for word in rest]
        with contextlib.chdir(scene.folder):  # where some commands leave a backup
            ran = run(program, *rest)
        found: dict[str, Any] = {"words": list(words), "code": ran.code}
        for what, value in (("result", ran.json if ran.out.strip() else None), ("error", ran.error)):
            if value is not None:
                shape = shape_of(value, names)
                found[what] = {place: "|".join(sorted(types)) for place, types in sorted(shape.items())}
        done.append(found)
    return done
