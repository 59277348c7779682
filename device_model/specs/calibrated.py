"""The figures that `foreserve calibrate` fits. They are kept apart from published ones, each with what it was fitted
on; at most 8 of a model and 10 of the device."""

from dataclasses import dataclass

from device_model.specs.spec import Count, Exponent, Positive, Share


@dataclass(frozen=True, slots=True)
class Locality:
    """How a model's tokens choose among its experts; `touched.Experts` says what the exponents mean."""

    hit_exponent: Positive
    saturation_exponent: Positive
    batch_exponent: Exponent
    draft_exponent: Exponent
    eagle_weights_gb: Positive  # what its EAGLE head takes of HB: the paper gives no size, and public heads differ

    @property
    def eagle_bytes(self) -> float:
        return self.eagle_weights_gb * 1e9


@dataclass(frozen=True, slots=True)
class Speculation:
    """How ELMoE-3D drafts, for all models: the paper gives neither depth nor width nor verify budget."""

    draft_depth: Count  # of EAGLE-SD and SLM-SD
    quant_depth: Count
    elastic_depth: Count
    draft_width: Count  # tokens of a request in one draft pass
    elastic_width: Count
    verify_tokens: Count  # of a request, in one verification
    eagle_read_share: Share  # of an EAGLE head's weights: the rest is its embedding table
    least_share_of_top_k: Positive  # experts of a layer in the cache over top-k: with fewer it serves none
    decode_saturation: Positive
