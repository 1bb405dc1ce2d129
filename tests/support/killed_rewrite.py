"""A command that rewrites a stopped group, and is killed (``kill -9``) in the middle of its writes, or behind the last."""

from __future__ import annotations

from tests.support.programs import killed

_KILLED = """
import importlib, itertools, os, signal, sys
from connect_share.backup import rewrite
write = rewrite.write_records
def some(workers, records, **_):
    write(workers, itertools.islice(records, 4))
    os.kill(os.getpid(), signal.SIGKILL)
rewrite.write_records = some
importlib.import_module(sys.argv[1]).main(sys.argv[2:])
"""


def kill_in_the_rewrite(program: str, *arguments: object) -> None:
    """Run a command of ``connect_share`` or ``migrator`` until four of its records are acknowledged, and kill it."""
    killed(_KILLED, f"{program}.cli.__main__", *arguments)


_OVERTAKING = """
import importlib, os, signal, sys
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
program, where, file, connector, *words = sys.argv[1:]
module, *names, last = where.split(":")
owner = importlib.import_module(module)
for name in names:
    owner = getattr(owner, name)
write = getattr(owner, last)
def some(*arguments, **more):
    with ConnectStorage(WorkerConfig.from_file(file)) as storage:
        writer = storage.offset_writer(connector, transactional=False)
        writer.offset({"n": 3}, {"position": 7})
        assert writer.flush(60)
    write(*arguments, **more)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(owner, last, some)
importlib.import_module(program).main([*words, "--yes"])
"""


def kill_before_the_look(program: str, where: str, file: object, connector: str, *arguments: object) -> None:
    """Run a command whose records hide the offset that a store of this file commits meanwhile; kill it before it looks.

    ``where`` it writes: the function, behind its module and class, with colons between.
    """
    killed(_OVERTAKING, f"{program}.cli.__main__", where, file, connector, *arguments)
