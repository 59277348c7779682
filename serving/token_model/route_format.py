"""Format of routes: the experts that a token model's routers chose, as bytes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from device_model.experts.route_map import Routers
from device_model.specs.hf_config import read_config
from device_model.specs.spec import SpecError
from device_model.step import IntArray
from serving.token_model.config_file import config_file
from serving.usage_error import UsageError

UINT8_EXPERTS = 256  # vLLM takes the narrowest type: one byte an id up to so many experts, else two


@dataclass(frozen=True, slots=True)
class RouteFormat:
    """The format of the bytes of `Chunk.routes`."""

    routers: Routers

    @property
    def kind(self) -> type[np.uint8] | type[np.uint16]:
        """The type of an expert's id."""
        return np.uint8 if self.routers.experts <= UINT8_EXPERTS else np.uint16

    def fits(self, ids: NDArray[np.integer]) -> bool:
        """Tell whether expert ids [tokens, layers, top_k] are of these routers."""
        layers, experts, top_k = self.routers
        return ids.shape[1:] == (layers, top_k) and bool(ids.max(initial=0) < experts)

    def read(self, routes: bytes) -> IntArray:
        """Return expert ids [tokens, layers, top_k]. Raise ValueError if the bytes are not of this format."""
        shape = (-1, self.routers.layers, self.routers.top_k)
        ids = np.frombuffer(routes, dtype=self.kind).reshape(shape).astype(np.int64)
        if ids.size and ids.max() >= self.routers.experts:
            raise ValueError(f"there is no expert {ids.max()}: {self.routers.experts} are there")
        return ids


def is_routed(token_model: str) -> bool:
    """Tell whether a token model has experts, in a format that is known."""
    try:
        format_of(token_model)
    except UsageError:
        return False
    return True


def format_of(token_model: str) -> RouteFormat:
    """Return the format of a token model. Raise UsageError if it has no experts, or its family is not known."""
    try:
        figures = {key: figure.value for key, figure in read_config(config_file(token_model)).items()}
    except SpecError as error:
        raise UsageError(f"Of {token_model} it isn't known how it routes. {error}", "token_model") from error
    if not figures.get("experts"):
        raise UsageError(f"{token_model} has no experts; allowed for traced residency is a token model that routes.")
    layers = figures["layers"] - figures.get("dense_layers", 0)
    return RouteFormat(Routers(layers, figures["experts"], figures["top_k"]))
