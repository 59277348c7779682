"""Random-SD: Elastic-SD with a pool of experts chosen at random (ELMoE-3D, 7.3 B): the measure of hotness.

It costs what Elastic-SD costs; fewer of its drafts are accepted (`acceptance`).
"""

from device_model.drafts.elastic import Scheme as ElasticScheme


class Scheme(ElasticScheme):
    """The same pool in size, and the same passes."""

    published = "Random-SD"
    chooses = True
