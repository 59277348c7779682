"""Routes on their way: the experts that the token model's routers chose, from its worker to the device's cache."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from device_model.experts.route_map import Routers
from device_model.specs.hf_config import read_config
from device_model.step import IntArray
from serving.token_source.vllm_args import config_file
from serving.usage_error import UsageError

ROUTES = "foreserve_routes"
"""The attribute of the output of a step of vLLM's worker that has them: a `Cut` by request id."""

Cut = NDArray[np.unsignedinteger[Any]]
"""Expert ids [tokens of one request in one step, layers that have experts, top-k], in falling order of their scores."""

UINT8_EXPERTS = 256  # vLLM takes the narrowest type: one byte an id up to so many experts, else two


@dataclass(frozen=True, slots=True)
class RouteFormat:
    """How the bytes of `Chunk.routes` are to be read."""

    routers: Routers

    def read(self, routes: bytes) -> IntArray:
        """Expert ids [tokens, layers, top_k]. Raises ValueError if these are none."""
        kind = np.uint8 if self.routers.experts <= UINT8_EXPERTS else np.uint16
        shape = (-1, self.routers.layers, self.routers.top_k)
        ids = np.frombuffer(routes, dtype=kind).reshape(shape).astype(np.int64)
        if ids.size and ids.max() >= self.routers.experts:
            raise ValueError(f"there is no expert {ids.max()}: {self.routers.experts} are there")
        return ids


def is_routed(token_model: str) -> bool:
    """Tell whether a token model has experts whose choice is known."""
    try:
        format_of(token_model)
    except UsageError:
        return False
    return True


def format_of(token_model: str) -> RouteFormat:
    """That of a token model. UsageError for one that has no experts, or whose family is not known."""
    figures = {key: figure.value for key, figure in read_config(config_file(token_model)).items()}
    if not figures.get("experts"):
        raise UsageError(f"{token_model} has no experts; allowed for traced residency is a token model that routes.")
    layers = figures["layers"] - figures.get("dense_layers", 0)
    return RouteFormat(Routers(layers, figures["experts"], figures["top_k"]))
