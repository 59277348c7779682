"""Does a start that takes long say what it waits for?"""

import time

from serving.cli.start_progress import StartProgress


def test_what_is_waited_for_is_said_again_and_again_until_all_is_ready() -> None:
    said: list[str] = []
    with StartProgress(said.append, every_s=0.01) as progress:
        progress("Starting Ray ...")
        while len(said) < 3:
            time.sleep(0.005)
        progress.waits_for("The devices ...")
        while not said[-1].endswith("The devices ..."):
            time.sleep(0.005)
        assert progress.done() > 0
        time.sleep(0.05)
        until = len(said)
        time.sleep(0.05)
    assert said[0] == "Starting Ray ..." and said[1].endswith(" s  Starting Ray ...") and len(said) == until


def test_a_quick_start_says_nothing_twice() -> None:
    said: list[str] = []
    with StartProgress(said.append) as progress:
        progress("Starting Ray ...")
        progress.done()
    assert said == ["Starting Ray ..."]


def test_seconds_before_it_was_there_count_too() -> None:
    said: list[str] = []
    with StartProgress(said.append, every_s=0.01, began_s=time.monotonic() - 70.0) as progress:
        progress.waits_for("The token source ...")
        while not said:
            time.sleep(0.005)
        assert progress.done() >= 70.0
    assert float(said[0].split()[0]) >= 70.0
