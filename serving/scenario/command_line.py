"""A scenario as the command line says it."""

from serving.scenario.key import key_fields
from serving.scenario.listen_options import KEYS
from serving.scenario.options import option_of
from serving.scenario.scenario import Scenario
from serving.scenario.slo import NO_CLASS


def options_of(scenario: Scenario) -> list[str]:
    """Return the command-line options of `foreserve serve` that make this scenario; a port that was not chosen is any
    free. Keys are not for the command line: `environment_of` has them."""
    options = []
    for field in key_fields(Scenario):
        value = getattr(scenario, field.name)
        if value == field.default or field.name in KEYS:
            continue
        if isinstance(value, bool):
            options.append(option_of(field.name) if value else option_of(field.name).replace("--", "--no-", 1))
            continue
        # An empty list that is not the default has to be said: there is one of SLO classes alone.
        for each in (value or (NO_CLASS,)) if isinstance(value, tuple) else (value,):
            options.append(f"{option_of(field.name)}={each}")
    return options
