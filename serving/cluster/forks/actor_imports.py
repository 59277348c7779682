"""Actor imports: what the actors of devices and the device model import, for the process that they are forked from.

Ray as well, which reads its settings when it is imported: in a server's run they are those of a worker of its Ray, for
which this waits. But no actor class: to decorate one, Ray draws a random number, and whoever is forked from then
on would draw the same ones as all others. Two workers that draw the same ID for their first object end one of them.
"""

from contextlib import suppress
from importlib import import_module

from serving.cluster.session.ray_node import take_worker_settings

MODULES = (
    "ray._private.workers.default_worker",
    "ray._common.pydantic_compat",
    "serving.cluster.endpoints.device",
    "serving.cluster.endpoints.rpc_endpoint",
    "serving.cluster.endpoints.scheduler",
    "serving.cluster.endpoints.tier",
    "serving.cluster.release_packer",
    "serving.cluster.sources.progress_reports",
    "serving.cluster.streams.arrival_board",
    "serving.cluster.supervision.failed_restart",
    "serving.device.device_models",
    "serving.device.drafts.live_texts",
    "serving.device.live_routes",
    "serving.process.main_thread",
    "serving.process.process_priority",
)
# What a worker of Ray's imports where it is installed, to know how to send it. But pyarrow, which starts a thread.
PACKAGES = ("pydantic.v1", "starlette.datastructures")

take_worker_settings()
for _name in MODULES:
    import_module(_name)
for _name in PACKAGES:
    with suppress(ImportError):
        import_module(_name)
