"""Are published rates read as they stand, and a file refused by name where it means nothing?"""

import pytest

from device_model.specs.published_rates import COLUMNS, read_published
from device_model.specs.spec import SpecError

GIVEN = """# of nothing in particular
model,scheme,hb_gb,batch,alpha
mixtral,EAGLE3,4,1,0.4
mixtral,EAGLE3,6.5,1,0.5
"""


def test_a_good_file_is_read_as_it_stands(tmp_path):
    (tmp_path / "rates.csv").write_text(GIVEN)
    assert read_published(tmp_path / "rates.csv") == {
        ("mixtral", "EAGLE3", 4.0, 1): 0.4,
        ("mixtral", "EAGLE3", 6.5, 1): 0.5,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model,alpha\nmixtral,1\n", f"required are {', '.join(COLUMNS)}"),
        (GIVEN.replace("0.5", "1.5"), "point 2: alpha is '1.5'"),
        (GIVEN.replace("0.5", "nan"), "point 2: alpha is 'nan'"),
        (GIVEN.replace("4,1", "0,1"), "point 1: hb_gb is '0'"),
        (GIVEN.replace("4,1", "inf,1"), "point 1: hb_gb is 'inf'"),
        (GIVEN.replace("4,1", "4,1.5"), "point 1: batch is '1.5'"),
        (GIVEN.replace("4,1", "4,inf"), "point 1: batch is 'inf'"),
        (GIVEN.replace("6.5,1", "6.5,2"), "2 points; required is one for each"),
        (",".join(COLUMNS), "0 points; required is one for each"),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path, text, said):
    (tmp_path / "rates.csv").write_text(text)
    with pytest.raises(SpecError, match=said) as caught:
        read_published(tmp_path / "rates.csv")
    assert "rates.csv" in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(SpecError, match="can't be read"):
        read_published(tmp_path / "none.csv")
