"""Is a number what it is, in a few digits that anybody reads?"""

import pytest

from serving.presentation.digits import digits


@pytest.mark.parametrize(
    ("value", "told"),
    [(0.0, "0"), (1.2345, "1.23"), (-0.00001234, "-0.0000123"), (999.6, "1000"), (1e6, "1000000"), (0.5, "0.5")],
)
def test_no_number_is_in_scientific_notation(value: float, told: str) -> None:
    assert digits(value, 3) == told
