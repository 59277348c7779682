"""Is nobody refused by an edge in a process of its own, but by what the engine core has said just now?"""

from hypothesis import given
from hypothesis import strategies as st

from serving.edge.front_ends.full_queue import FULL_S, FullQueue
from serving.refusals import Reason, Refusal

FULL = Refusal(Reason.QUEUE, "All 2 places of the queue are taken.", 3.0, slo="chat")
OTHER = Refusal(Reason.TOKENS, "The key has reached its limit of 5 a minute.", 1.0)


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.sampled_from(["full", "other", "place", "come"])), max_size=40))
def test_who_comes_is_refused_only_while_a_refusal_for_places_is_young_and_nobody_found_one_since(
    events: list[tuple[float, str]],
) -> None:
    queue, now_s, refused_s = FullQueue(), 1e5, float("-inf")
    for gap_s, what in events:
        now_s += gap_s
        if what == "come":
            found = queue.refusal(now_s)
            assert (found is not None) == (now_s - refused_s < FULL_S)
            assert found in (None, FULL._replace(slo=""))
            continue
        queue.note({"full": FULL, "other": OTHER, "place": None}[what], now_s)
        refused_s = {"full": now_s, "place": float("-inf")}.get(what, refused_s)


def test_at_first_nobody_is_refused() -> None:
    assert FullQueue().refusal(0.0) is None
