"""Are the rates that `--acceptance measured` reads those of the token model that ships?"""

from device_model.specs.measured_rates import BUNDLED
from serving.lab.self_speculation.weights import digest
from serving.scenario.scenario import BUNDLED_MODEL


def test_measured_acceptance_is_of_the_weights_that_ship() -> None:
    rates = BUNDLED.read_text(encoding="utf-8")
    assert rates == (BUNDLED_MODEL / "speculation" / "rates.csv").read_text(encoding="utf-8")
    assert f"model {digest(BUNDLED_MODEL)[:16]}." in rates
