"""Is what was served live served again in virtual time as it was, whoever asked for it?"""

from serving.parity.replay import replay
from serving.scenario.scenario import Scenario
from serving.telemetry.flight_log import FlightRecord
from serving.types import Request


def test_a_key_is_known_again_by_the_name_that_the_log_has_of_it() -> None:
    requests = [Request(str(i), 0.0, 100, 20, key="0" if i < 40 else "1", seed=i) for i in range(50)]
    flights = [FlightRecord(each, "", place, 0, None, None, 0.0, 20, "length") for place, each in enumerate(requests)]
    scenario = Scenario(max_num_seqs=4, fairness="tokens", api_keys=("secret", "another"))
    outcomes, _ = replay(scenario, flights, {})
    last_s = [max(outcomes[each.id].last_s for each in requests if each.key == key) for key in "01"]
    assert last_s[1] < 0.7 * last_s[0]
