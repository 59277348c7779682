"""Random-SD: Elastic-SD with a pool of experts chosen at random (ELMoE-3D, 7.3 B): the measure of hotness.

It costs what Elastic-SD costs; fewer of its drafts are accepted (`acceptance`). At trace fidelity its members are drawn
once, and their slices come into HB as verification reads them.
"""

from device_model.drafts.elastic import Scheme as ElasticScheme


class Scheme(ElasticScheme):
    """The same pool in size, and the same passes."""

    published = "Random-SD"
    chooses = True
    drawn = True
