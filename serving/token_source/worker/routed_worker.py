"""vLLM's CPU worker, which also tells the experts that its routers chose for every token that it computed.

vLLM's own `enable_return_routed_experts` needs its second model runner, and that needs Triton, which the CPU build does
without. So the choices are recorded here, and `RunAheadScheduler` passes them on in vLLM's own field for them.
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from vllm.model_executor.layers.fused_moe.layer import MoERunner
from vllm.v1.core.sched.output import SchedulerOutput

from serving.token_model.route_format import UINT8_EXPERTS
from serving.token_source.routes import ROUTES, Cut
from serving.token_source.worker.sampling_worker import SamplingWorker


class RoutedWorker(SamplingWorker):
    """A worker whose step outputs have the attribute `ROUTES`."""

    def load_model(self, **kwargs: Any) -> None:
        super().load_model(**kwargs)
        runners = [module for module in self.model_runner.model.modules() if isinstance(module, MoERunner)]
        self._chosen: list[torch.Tensor] = [torch.empty(0)] * len(runners)
        self._kind = np.uint8 if self.model_config.get_num_experts() <= UINT8_EXPERTS else np.uint16
        self._cuts: dict[str, Cut] = {}
        for layer, runner in enumerate(runners):
            runner.router._compute_routing = partial(self._route, layer, runner.router._compute_routing)

    def execute_model(self, scheduler_output: SchedulerOutput) -> Any:
        output = super().execute_model(scheduler_output)
        self._cuts = self._cut(scheduler_output) if scheduler_output.total_num_scheduled_tokens else {}
        return output if output is None else self._attach(output)

    def sample_tokens(self, grammar_output: Any) -> Any:
        return self._attach(super().sample_tokens(grammar_output))

    def _route(self, layer: int, compute: Any, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Record a router's choices, highest score first: the kernels need no order, a device may."""
        weights, ids = compute(*args, **kwargs)
        self._chosen[layer] = ids.gather(-1, weights.argsort(dim=-1, descending=True, stable=True))
        return weights, ids

    def _cut(self, scheduled: SchedulerOutput) -> dict[str, Cut]:
        """Return the rows of a step by request; they stand in the order of the runner's batch."""
        counts = scheduled.num_scheduled_tokens
        rows = torch.stack(self._chosen, dim=1).numpy().astype(self._kind)
        ids = [id for id in self.model_runner.input_batch.req_ids if counts.get(id)]
        ends = np.cumsum([counts[id] for id in ids]).tolist()
        return {id: rows[end - counts[id] : end] for id, end in zip(ids, ends, strict=True)}

    def _attach(self, output: Any) -> Any:
        setattr(output, ROUTES, self._cuts)
        return output
