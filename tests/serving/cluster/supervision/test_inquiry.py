"""A part that dies: who goes on at once, who apart, and who has to go."""

from serving.cluster.supervision.inquiry import Inquiry

REQUESTS = ["d", "c", "b", "a"]  # the youngest first


def allowed(inquiry: Inquiry) -> list[str]:
    return [id for id in REQUESTS if inquiry.allows(id)]


def test_one_death_from_outside_proves_nothing() -> None:
    inquiry = Inquiry()
    assert inquiry.death(REQUESTS, by_itself=False) is None
    assert allowed(inquiry) == REQUESTS
    inquiry.passed(REQUESTS)
    assert not inquiry.open
    assert inquiry.death(REQUESTS, by_itself=False) is None
    assert allowed(inquiry) == REQUESTS


def test_whoever_has_made_no_progress_is_suspect_when_it_dies_again() -> None:
    inquiry = Inquiry()
    inquiry.death(REQUESTS, by_itself=False)
    inquiry.passed(["a", "d"])
    assert inquiry.death(REQUESTS, by_itself=False) is None
    assert allowed(inquiry) == ["c"]
    assert inquiry.death(["c"], by_itself=False) is None, "somebody may have killed it again"
    assert allowed(inquiry) == ["c"]
    assert inquiry.death(["c"], by_itself=False) == "c"
    assert allowed(inquiry) == ["b"]
    inquiry.passed(["b"])
    assert allowed(inquiry) == REQUESTS and not inquiry.open


def test_an_error_of_its_own_condemns_at_once_who_is_alone() -> None:
    inquiry = Inquiry()
    assert inquiry.death(["b", "a"], by_itself=True) is None
    assert inquiry.death(["b"], by_itself=True) == "b"


def test_an_end_that_is_excused_accuses_nobody_and_the_next_one_does() -> None:
    inquiry = Inquiry()
    inquiry.expect_death()
    assert inquiry.death(REQUESTS, by_itself=True) is None
    assert allowed(inquiry) == REQUESTS and not inquiry.open
    inquiry.death(REQUESTS, by_itself=True)
    assert allowed(inquiry) == ["d", "c"]


def test_whoever_passes_alone_is_no_suspect_of_the_next_death() -> None:
    inquiry = Inquiry()
    inquiry.death(["b", "a"], by_itself=True)
    assert inquiry.death(["b"], by_itself=False) is None
    inquiry.passed(["b"])
    assert allowed(inquiry) == ["a"]
    inquiry.passed(["a"])
    assert not inquiry.open
    inquiry.death(["b"], by_itself=False)
    assert inquiry.death(["b"], by_itself=False) is None
    assert inquiry.death(["b"], by_itself=False) is None


def test_an_error_of_its_own_is_looked_into_at_once() -> None:
    inquiry = Inquiry()
    assert inquiry.death(REQUESTS, by_itself=True) is None
    assert allowed(inquiry) == ["d", "c"]
    inquiry.gone(["d", "c"])
    assert allowed(inquiry) == ["b", "a"]


def test_a_death_without_requests_accuses_nobody() -> None:
    inquiry = Inquiry()
    for _ in range(3):
        assert inquiry.death([], by_itself=True) is None
        assert allowed(inquiry) == REQUESTS


def test_an_end_that_was_excused_and_did_not_come_excuses_no_later_one() -> None:
    inquiry = Inquiry()
    inquiry.expect_death()
    inquiry.came_up()
    inquiry.death(REQUESTS, by_itself=True)
    assert allowed(inquiry) == ["d", "c"]


def test_requests_that_go_on_elsewhere_keep_nobody_from_going_on_here() -> None:
    inquiry = Inquiry()
    inquiry.death(REQUESTS, by_itself=True)
    for request in REQUESTS:
        inquiry.gone([request])
    assert inquiry.allows("new") and not inquiry.open
