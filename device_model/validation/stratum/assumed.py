"""Assumed conditions: batches and lengths that Stratum's text leaves open, each declared with its reason."""

from dataclasses import dataclass
from pathlib import Path

from device_model.specs.spec import Count, Series
from device_model.specs.spec_file import read_spec


@dataclass(frozen=True, slots=True)
class Assumed:
    """Sequences of a batch, and tokens of a prompt, of which an output has as many; ratios over several are means, or
    the least and the most of them."""

    batch: Count  # Fig. 16
    lengths: Series
    hit_batch: Count  # Fig. 17
    hit_lengths: Series
    scaled_batches: Series  # Fig. 18a
    scaled_lengths: Series


ASSUMED = read_spec(Assumed, Path(__file__).with_name("assumed.toml"))
