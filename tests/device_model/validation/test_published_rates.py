"""Are the acceptance rates that steps are priced with those of ELMoE-3D's Table 3?"""

from device_model.specs.published_rates import read_published
from device_model.validation.table3 import read_cells


def test_published_rates_are_the_acceptance_cells_of_table_3_and_no_others():
    of_cells = {(cell.model, cell.draft, cell.hb_gb, cell.batch): cell.alpha for cell in read_cells()}
    assert read_published() == of_cells and len(of_cells) == 128
