"""Elastic-SD that drafts half as deep: less is thrown away where few drafts are accepted."""

from device_model.drafts.elastic import Scheme as ElasticScheme
from device_model.step import DraftShape


class Scheme(ElasticScheme):
    """The same pool and the same passes, fewer of them."""

    @property
    def shape(self) -> DraftShape:
        whole = super().shape
        return DraftShape(max(1, whole.depth // 2), whole.width, whole.verify_tokens)
