"""The classifier for an event loop: a thread of its own, which takes all waiting prompts as one batch when it is free.

numpy gives up Python's lock while it computes, so the loop goes on meanwhile; README.md has its measured cost to the
loop.
"""

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from serving.topics.classifier import Classifier, Topic

# Prompts in a batch: they take about as long as a person notices, and the next ones wait for them.
MOST = 16
NICENESS = 10


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A prompt, and the future of its topic."""

    prompt: str
    topic: asyncio.Future[Topic]


class TopicService:
    """A classifier for coroutines. Create it in a running loop, use it in that loop only, and close it."""

    def __init__(self, classifier: Classifier, most: int = MOST) -> None:
        """`most`: the most prompts of a batch."""
        self._classifier = classifier
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="topics", daemon=True)
        self._thread.start()

    async def classify(self, prompt: str) -> Topic:
        """Return the prompt's topic. Raise RuntimeError if the service is closed before it is known."""
        if self._closed:
            raise RuntimeError("The topic service is closed.")
        waiting = _Waiting(prompt, self._loop.create_future())
        self._waiting.put(waiting)
        return await waiting.topic

    async def close(self) -> None:
        """End the thread after its present batch; calls that still wait raise RuntimeError. May be called again."""
        if not self._closed:
            self._closed = True
            self._waiting.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        with contextlib.suppress(OSError):  # Tokens go first.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        self._classifier.use_one_core()
        batch = self._batch()
        while not self._closed:
            # Reading a future's state needs no loop: at worst, what was cancelled just now is classified in vain.
            wanted = [waiting for waiting in batch if not waiting.topic.done()]
            if wanted:
                self._answer(wanted)
            batch = self._batch()
        while not self._waiting.empty():
            batch += self._batch()
        self._tell(batch, RuntimeError("The topic service was closed."))

    def _batch(self) -> list[_Waiting]:
        """Return the waiting prompts, as soon as there are any; empty when woken by `close`."""
        taken = [self._waiting.get()]
        while len(taken) < self._most:
            try:
                taken.append(self._waiting.get_nowait())
            except queue.Empty:
                break
        return [waiting for waiting in taken if waiting is not None]

    def _answer(self, batch: Sequence[_Waiting]) -> None:
        try:
            topics = self._classifier.classify([waiting.prompt for waiting in batch])
        except Exception as error:  # The waiting calls get it, and the next ones are served.
            self._tell(batch, error)
        else:
            self._tell(batch, topics)

    def _tell(self, batch: Sequence[_Waiting], what: Sequence[Topic] | Exception) -> None:
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            self._loop.call_soon_threadsafe(_settle, batch, what)


def _settle(batch: Sequence[_Waiting], what: Sequence[Topic] | Exception) -> None:
    """Hand each call its topic, or all of them the error, in the loop. A cancelled call gets nothing."""
    for i, waiting in enumerate(batch):
        if waiting.topic.done():
            continue
        if isinstance(what, Exception):
            waiting.topic.set_exception(what)
        else:
            waiting.topic.set_result(what[i])
