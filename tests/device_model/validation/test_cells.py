"""Are the cells of a table read as they stand, and a bad one refused by file, line and column?"""

import pytest

from device_model.load import load_setup
from device_model.specs.law import Law
from device_model.specs.spec import SpecError
from device_model.validation.cells import predicted
from device_model.validation.judgement import judge
from device_model.validation.table3 import COLUMNS, TABLE3, Cell, read_cells

HEAD = ",".join(COLUMNS)
GOOD = "4,Qwen3-30B-A3B,EAGLE3,1,0.33,2.83,2.66"


def written(tmp_path, *lines):
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def refusal(path):
    with pytest.raises(SpecError) as caught:
        read_cells(path)
    message = str(caught.value)
    assert message.startswith(str(path)) and message.endswith(".") and "\n" not in message
    return message.removeprefix(str(path))


def test_a_good_file_is_read_as_it_stands(tmp_path):
    path = written(tmp_path, HEAD, GOOD, "6.5,GLM-4.7-Flash,Random-SD,16,1,,3.1")
    assert read_cells(path) == [
        Cell(4.0, "Qwen3-30B-A3B", "EAGLE3", 1, 0.33, 2.83, 2.66),
        Cell(6.5, "GLM-4.7-Flash", "Random-SD", 16, 1.0, None, 3.1),
    ]


def test_a_cell_knows_its_model_and_its_hardware(tmp_path):
    first, second = read_cells(written(tmp_path, HEAD, GOOD, GOOD.replace("4", "6.25", 1)))
    assert (first.model, first.hardware) == ("qwen3-30b-a3b", "elmoe3d-4gb")
    assert second.hardware == "elmoe3d-6.25gb"


def test_columns_may_stand_in_any_order_among_others(tmp_path):
    path = written(tmp_path, "page,phi_sd,phi_ar,alpha,batch,draft,target,hb_gb", "9,2.66,2.83,0.33,1,EAGLE3,A,4")
    assert read_cells(path) == [Cell(4.0, "A", "EAGLE3", 1, 0.33, 2.83, 2.66)]


def test_the_table_itself_has_all_cells_and_withholds_some():
    cells = read_cells()
    assert len(cells) == 128 and len({(c.hb_gb, c.target, c.draft, c.batch) for c in cells}) == 128
    withheld = [cell for cell in cells if cell.phi_ar is None]
    assert len(withheld) == 32
    assert all(cell.phi_sd is None for cell in withheld) and all(0 < cell.alpha < 1 for cell in withheld)
    assert all(cell.phi_sd is not None for cell in cells if cell.phi_ar is not None)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_missing_column_is_named_with_all_that_are_required(tmp_path, column):
    head = ",".join(name for name in COLUMNS if name != column)
    said = f", line 1: no column {column}; required are {', '.join(COLUMNS)}."
    assert refusal(written(tmp_path, head, "1,2,3,4,5,6")) == said


@pytest.mark.parametrize(
    ("column", "text"),
    [
        *((column, text) for column in ("hb_gb", "batch", "alpha", "phi_ar", "phi_sd") for text in ("four", "-1")),
        *((column, "") for column in ("hb_gb", "batch", "alpha")),
        *((column, "nan") for column in ("hb_gb", "batch", "alpha", "phi_ar", "phi_sd")),
        *((column, "0") for column in ("hb_gb", "batch", "phi_ar", "phi_sd")),
        ("batch", "1.5"),
        ("alpha", "1.01"),
        ("alpha", "33 %"),
        ("hb_gb", "4GB"),
    ],
)
def test_what_is_no_number_of_its_range_is_refused_by_line_and_column(tmp_path, column, text):
    values = dict(zip(COLUMNS, GOOD.split(","), strict=True)) | {column: text}
    message = refusal(written(tmp_path, HEAD, GOOD, GOOD, ",".join(values.values())))
    assert message.startswith(f", line 4: {column} is {text!r}; allowed is a number in its range")


@pytest.mark.parametrize("draft", ["Medusa", "eagle", ""])
def test_an_unknown_draft_is_refused_with_those_that_are_known(tmp_path, draft):
    message = refusal(written(tmp_path, HEAD, GOOD.replace("EAGLE3", draft)))
    assert message == f", line 2: draft is {draft!r}; allowed are EAGLE3, SLM-SD, Quant-SD, Elastic-SD, Random-SD."


def test_a_row_that_ends_early_is_refused(tmp_path):
    assert refusal(written(tmp_path, HEAD, "4,Qwen3-30B-A3B,EAGLE3")).startswith(", line 2: batch is ''")


def test_a_file_that_is_not_there_a_folder_and_one_that_is_no_text_are_refused(tmp_path):
    assert " can't be read; allowed is a CSV file in UTF-8: " in refusal(tmp_path / "none.csv")
    assert " can't be read; allowed is a CSV file in UTF-8: " in refusal(tmp_path)
    path = tmp_path / "latin.csv"
    path.write_bytes(f"{HEAD}\n{GOOD}".replace("Qwen", "Qw\xe9n").encode("latin-1"))
    assert " can't be read; allowed is a CSV file in UTF-8: " in refusal(path)


def test_an_empty_file_lacks_its_columns_and_a_head_alone_has_no_cells(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("")
    assert refusal(path).startswith(", line 1: no column hb_gb; required are ")
    assert read_cells(written(tmp_path, HEAD)) == []


@pytest.mark.parametrize("column", ["batch", "phi_ar", "phi_sd", "hb_gb"])
def test_infinity_is_no_number_of_a_table(tmp_path, column):
    values = dict(zip(COLUMNS, GOOD.split(","), strict=True)) | {column: "inf"}
    assert f"{column} is 'inf'" in refusal(written(tmp_path, HEAD, ",".join(values.values())))


def test_empty_lines_are_counted_as_an_editor_counts_them(tmp_path):
    message = refusal(written(tmp_path, HEAD, GOOD, "", "", GOOD.replace("0.33", "x")))
    assert message.startswith(", line 5: alpha is 'x'")


PUBLISHED = [cell for cell in read_cells(TABLE3) if cell.phi_ar is not None]


@pytest.mark.parametrize("cell", PUBLISHED[::8], ids=lambda c: f"{c.hb_gb:g}gb-{c.model}-{c.draft}-batch{c.batch}")
@pytest.mark.parametrize("law", Law)
def test_a_published_cell_is_predicted_nearly_unless_no_cache_reaches_it(law, cell):
    (judged,) = judge([cell], law)
    if judged.resists and law is Law.REALISABLE:
        assert judged.row.phi_ar <= judged.bound.highest_phi_ar < cell.phi_ar
        return
    assert judged.row.phi_ar == pytest.approx(cell.phi_ar, rel=0.15)
    assert judged.row.phi_sd == pytest.approx(cell.phi_sd, rel=0.30)


def test_the_speedup_of_speculation_grows_with_alpha_and_that_of_decoding_does_not():
    setup = load_setup("elmoe3d-8gb", "qwen3-30b-a3b")
    none, all_ = (predicted(Cell(8, "Qwen3-30B-A3B", "Elastic-SD", 4, alpha), setup) for alpha in (0.0, 1.0))
    assert none.phi_ar == all_.phi_ar
    assert all_.phi_sd / none.phi_sd == pytest.approx(1 + setup.speculation.elastic_depth)
