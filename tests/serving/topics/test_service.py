"""The service: is each caller answered, the event loop left free, and the thread ended?"""

import asyncio
import threading

import pytest

from serving.topics.service import TopicService

PROMPTS = ["is a handshake a contract", "derivative of sin(x)", "hello you", "who was Plato"] * 10


class PartState:
    """The classifier, with the sizes of the batches that it was given; `gate` holds it up."""

    def __init__(self, classifier):
        self.classifier, self.batches, self.gate = classifier, [], threading.Event()
        self.gate.set()
        self.use_one_core = classifier.use_one_core

    def classify(self, prompts):
        self.batches.append(list(prompts))
        assert self.gate.wait(30)
        if "boom" in prompts:
            raise OSError("boom")
        return self.classifier.classify(prompts)


@pytest.fixture
def watched(classifier):
    return PartState(classifier)


async def until(true):
    while not true():
        await asyncio.sleep(0.005)


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "topics"]


def test_each_gets_the_topic_of_its_own_prompt(classifier):
    async def main():
        service = TopicService(classifier)
        found = await asyncio.gather(*map(service.classify, PROMPTS))
        await service.close()
        return found

    alone = classifier.classify(PROMPTS)
    assert [topic.name for topic in asyncio.run(main())] == [topic.name for topic in alone]


def test_what_waits_is_one_batch_and_a_bounded_one(watched):
    async def main():
        service = TopicService(watched, most=16)
        watched.gate.clear()
        waiting = [asyncio.create_task(service.classify(PROMPTS[0]))]
        await until(lambda: watched.batches)
        waiting += [asyncio.create_task(service.classify(prompt)) for prompt in PROMPTS]
        await asyncio.sleep(0)
        watched.gate.set()
        await asyncio.gather(*waiting)
        await service.close()

    asyncio.run(main())
    assert [len(batch) for batch in watched.batches] == [1, 16, 16, 8]
    assert [prompt for batch in watched.batches[1:] for prompt in batch] == PROMPTS


def test_the_loop_runs_on_while_a_batch_is_classified(watched):
    async def main():
        service = TopicService(watched)
        watched.gate.clear()
        waiting = asyncio.create_task(service.classify("hello"))
        await until(lambda: watched.batches)
        turns = 0
        for _ in range(100):
            await asyncio.sleep(0)
            turns += not waiting.done()
        watched.gate.set()
        await waiting
        await service.close()
        return turns

    assert asyncio.run(main()) == 100


def test_who_was_cancelled_costs_nothing(watched):
    async def main():
        service = TopicService(watched)
        watched.gate.clear()
        first = asyncio.create_task(service.classify("first"))
        await until(lambda: watched.batches)
        others = [asyncio.create_task(service.classify(prompt)) for prompt in ("gone", "stays", "gone")]
        await asyncio.sleep(0)
        others[0].cancel(), others[2].cancel()
        await asyncio.sleep(0)
        watched.gate.set()
        await asyncio.gather(first, *others, return_exceptions=True)
        await service.close()

    asyncio.run(main())
    assert watched.batches == [["first"], ["stays"]]


def test_an_error_reaches_who_waits_and_the_next_is_served(watched):
    async def main():
        service = TopicService(watched)
        with pytest.raises(OSError, match="boom"):
            await service.classify("boom")
        topic = await service.classify("what is 2 + 2")
        await service.close()
        return topic

    assert asyncio.run(main()).name == "math"


def test_closing_ends_the_thread_and_tells_who_waits(watched):
    others = threads()

    async def main():
        service = TopicService(watched, most=2)
        watched.gate.clear()
        waiting = [asyncio.create_task(service.classify(prompt)) for prompt in PROMPTS]
        await until(lambda: watched.batches)
        closing = asyncio.create_task(service.close())
        await asyncio.sleep(0)
        watched.gate.set()
        await closing
        found = await asyncio.gather(*waiting, return_exceptions=True)
        with pytest.raises(RuntimeError, match="closed"):
            await service.classify("too late")
        await service.close()
        return found

    found = asyncio.run(main())
    assert len(watched.batches) == 1
    assert [type(answer).__name__ for answer in found] == ["Topic"] * len(watched.batches[0]) + ["RuntimeError"] * (
        len(PROMPTS) - len(watched.batches[0])
    )
    assert threads() == others
