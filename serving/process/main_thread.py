"""Main thread of a Ray worker: its looks for signals, which cost more than an idle actor does anything else."""

import signal
import time
from typing import Any

# Ray's main thread wakes every 10 ms to look for signals, and takes Python's lock for it: 5 to 7 ms of processor time a
# second, of each worker. No setting changes that. So it rests between its looks, in a signal's handler. Ray hands all
# calls of an actor to the threads of their groups on this one, so that each call may wait for so long.
REST_S = 0.25
# Real seconds from the end of a rest to the next signal: time for what has come meanwhile.
AWAKE_S = 0.001
# Real seconds after which a worker rests for the first time: until then it is asked much by whoever starts it.
START_S = 10.0


def rest_between_looks() -> None:
    """Let this process's main thread, which must be the caller, sleep `REST_S` between its looks for signals.

    Ray's calls of the actor wait for as long, whichever thread carries them out: what is urgent goes by rpc.
    """

    def rest(*_: Any) -> None:
        time.sleep(REST_S)
        # Once, not at intervals: a signal within a rest would nest another one in it.
        signal.setitimer(signal.ITIMER_REAL, AWAKE_S)

    signal.signal(signal.SIGALRM, rest)
    # System calls that it interrupts, of whichever thread, go on.
    signal.siginterrupt(signal.SIGALRM, False)
    signal.setitimer(signal.ITIMER_REAL, START_S)
