"""Device models of a fleet: how many are kept, whatever conditions its devices have been in?"""

import pytest

from device_model.condition import Condition
from device_model.step import StepPlan
from serving.admission.expected_device import _pace_of
from serving.device import device_models
from serving.device.device_models import DeviceModels
from serving.device.device_spec import DeviceSpec
from serving.scenario.fleet import MOST_DEVICES
from serving.scenario.scenario import Scenario
from serving.telemetry.metrics.devices import device_of

SCENARIO = Scenario()
SPEC = DeviceSpec.of(SCENARIO, SCENARIO.members[0])


def test_models_of_conditions_long_past_are_loaded_again_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_models, "KEPT", 2)
    models, plan = DeviceModels([SPEC]), StepPlan.of((1, 100))
    first = models.price(SPEC, plan, 1, None, (0,))
    conditions = [SPEC.in_condition(Condition(ext_share=share)) for share in (0.4, 0.6, 0.8)]
    slower = [models.price(each, plan, 1, None, (0,))[0].tokens_per_s for each in conditions]
    assert slower == sorted(slower) and len(set(slower)) == len(slower)
    assert models._load.cache_info().currsize == 2
    assert models.price(SPEC, plan, 1, None, (0,)) == first


def test_so_many_are_kept_as_a_whole_fleet_needs_and_no_more() -> None:
    kept = [device_models.KEPT, *(each.cache_info().maxsize for each in (_pace_of, device_of))]
    assert kept == [2 * MOST_DEVICES] * 3
