"""Workloads: the requests that arrive, and their instants. A workload is a TOML file, which `foreserve load` drives
live and a study virtually.

    seed = 1
    duration_s = 3600

    [arrivals]
    kind = "poisson"
    rate_per_s = 2.0

    [prompt]
    kind = "lognormal"
    mean = 300
    cv = 1.0

    [output]
    kind = "exponential"
    mean = 150

`load_workload` makes a `Workload` of it (`spec`), from which a `Source` makes one `Ask` a request:

    for ask in Source(load_workload(path)):               # those that wait for no other, in order of arrival
        ...
    source.next_after(ask, ended_at_s)                    # what comes because that one ended, or None

An open loop without sessions is all in the iteration. With sessions, and in a closed loop, whoever serves the requests
says when one has ended (or failed), and gets the next turn of its session, or the user's next session. What a request
asks for follows from the seed, the number of its session and the turn, and not from when others end; only topics,
classes and keys whose shares drift follow the time at which a session begins. Each aspect has a random stream of its
own (`seeded_chance`): other lengths leave the arrivals as they are.

A prompt is a tuple of `Segment`s: ids with a length. Equal ids are equal text. So a system prompt is shared, a turn
begins with what was said before it, and the `hash_ids` of a trace mean what they say; live, text is made of the ids
(`serving.load.texts`), and for virtual time hashes of blocks (`ask.block_hashes`; `virtual.request_of`). What an
assistant said in an earlier turn is made up too, so that prompts are the same whatever a server answers.

`arrivals`, `distributions` and `shares` are drawn in bulk (`plans`), a chunk of sessions at a time, so that a million
requests need no more memory than a thousand. `traces` reads what others have recorded. `table` reads TOML, and says in
a sentence what is wrong where. README.md has all keys.
"""

from serving.workload.ask import Ask, Segment
from serving.workload.source import Source
from serving.workload.spec import Workload, load_workload
from serving.workload.table import WorkloadError

__all__ = ["Ask", "Segment", "Source", "Workload", "WorkloadError", "load_workload"]
