"""Is the end of one of Ray's processes seen, also where the kernel does not tell of it?"""

import asyncio
import errno
import os
import subprocess
import sys

import psutil
import pytest

from serving.cluster.supervision import ray_watch
from serving.cluster.supervision.ray_watch import RAYLET, RayLost, _watch_process

PATIENCE_S = 20.0


def forbidden(pid: int, flags: int = 0) -> int:
    raise OSError(errno.ENOSYS, "Function not implemented")


@pytest.mark.parametrize("allowed", [True, False])
def test_an_end_is_seen_and_nothing_before_it(allowed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_watch, "LOOK_S", 0.05)
    if not allowed:
        monkeypatch.setattr(os, "pidfd_open", forbidden)

    async def watch(child: "subprocess.Popen[bytes]") -> None:
        watching = asyncio.create_task(_watch_process(RAYLET, psutil.Process(child.pid)))
        await asyncio.sleep(0.3)
        assert not watching.done()
        child.kill()
        with pytest.raises(RayLost, match="has ended"):
            async with asyncio.timeout(PATIENCE_S):
                await watching

    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        asyncio.run(watch(child))
