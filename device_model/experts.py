"""Which experts a batch touches, and how many of these reads the expert cache in HB serves.

ELMoE-3D models an LRU cache by a power law that is calibrated per model and loses locality as the batch grows (7,
Inference Framework), but prints neither the law nor its parameters; the one below is ours, fitted on its Table 3.
Its weak point, to be known before it is trusted: from batch 4 (4 GB) or 8 (8 GB) on, the speedups of Table 3 imply more
hits in a step than the cache holds experts. With each expert read once a step no LRU can do that, so this law
reproduces what is published and is no proof of it.
"""

from device_model.spec import Locality
from device_model.step import FloatArray


def touched_fraction(touch_share: float, tokens: float) -> float:
    """Expected share of a layer's experts that `tokens` tokens ask for, each for the share `touch_share` (top-k of E).

    Tokens choose independently and uniformly: an expert stays untouched with (1 - k / E) for each token.
    Tokens of one request follow similar routes and touch fewer (ELMoE-3D, Fig. 16b); that is not modelled here.
    """
    untouched: float = (1 - touch_share) ** tokens
    return 1 - untouched


def hit_rate(cached: FloatArray, touched: float, locality: Locality) -> FloatArray:
    """Share of the distinct experts of a step that HB serves, from f = `cached` and t = `touched`, each 0 to 1.

    h = f + (f^a - f) (1 - t^s). One token finds its experts with f^a, as the cache holds the popular ones; a step that
    touches every expert can only find the share f that the cache holds. `locality` has a and s.
    """
    popular: FloatArray = cached**locality.hit_exponent
    saturation: float = touched**locality.saturation_exponent
    return cached + (popular - cached) * (1 - saturation)
