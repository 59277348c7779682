"""Routes: the experts that the token model's routers chose, on their way from its worker to the device's cache."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

ROUTES = "foreserve_routes"
"""The attribute of a step's output of vLLM's worker that has the routes: a `Cut` by request id."""

Cut = NDArray[np.unsignedinteger[Any]]
"""Expert ids [tokens of one request in one step, layers that have experts, top-k], in falling order of their scores."""
