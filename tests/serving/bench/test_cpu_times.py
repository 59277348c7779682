"""Is the processor time of each kind of a server's processes known?"""

from serving.bench.cpu_times import ACTORS, CLIENT, EDGE, cpu_times
from serving.process.server_process import ServerProcess


def test_each_kind_of_process_is_found(emulator: ServerProcess) -> None:
    taken = cpu_times(emulator)
    assert taken.keys() == {CLIENT, EDGE, *ACTORS.values()}
    assert all(seconds >= 0 for seconds in taken.values()) and taken["device_model"] and taken["source"]
