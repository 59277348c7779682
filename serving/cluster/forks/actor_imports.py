"""Actor imports: what the actors of devices and the device model import, for the process that they are forked from.

Ray as well, which reads some of its settings when it is imported: the process must have those of a worker
(`fork_servers.ACTORS`).
"""

from contextlib import suppress
from importlib import import_module

MODULES = (
    "ray._private.workers.default_worker",
    "ray._common.pydantic_compat",
    "serving.cluster.actors",
    "serving.cluster.device_actor",
)
# What a worker of Ray's imports where it is installed, to know how to send it. But pyarrow, which starts a thread.
PACKAGES = ("pydantic.v1", "starlette.datastructures")

for _name in MODULES:
    import_module(_name)
for _name in PACKAGES:
    with suppress(ImportError):
        import_module(_name)
