"""Log probabilities of a batch in which some requests name their tokens, and others want the likeliest.

vLLM gathers for all rows what the former name, if there is one of them: the others get padding.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from vllm.v1.outputs import LogprobsTensors
from vllm.v1.sample.sampler import Sampler


class RowSampler(Sampler):  # type: ignore[misc]
    """vLLM's sampler, with each row's log probabilities as its own request asks for them."""

    _most: int | None = None

    def forward(self, logits: torch.Tensor, sampling_metadata: Any, *arguments: Any, **named: Any) -> Any:
        """Sample as vLLM does."""
        self._most = sampling_metadata.max_num_logprobs
        return super().forward(logits, sampling_metadata, *arguments, **named)

    def gather_specific_token_logprobs(
        self, logprobs: torch.Tensor, logprob_token_ids: Mapping[int, Sequence[int]], sampled: torch.Tensor
    ) -> LogprobsTensors | None:
        """Gather, from `logprobs` [rows, vocabulary], those of the tokens that rows name, and of the likeliest in the
        other rows; each after that of the token `sampled` [rows]."""
        named: LogprobsTensors | None = super().gather_specific_token_logprobs(logprobs, logprob_token_ids, sampled)
        if named is None or self._most is None:
            return named
        most = logprobs.shape[1] if self._most < 0 else self._most
        likeliest = self.gather_logprobs(logprobs, most, sampled)
        width = max(tensors.logprobs.shape[1] for tensors in (named, likeliest))
        rows = list(logprob_token_ids)
        tokens, named_tokens = (_widened(each.logprob_token_ids, width, 0) for each in (likeliest, named))
        values, named_values = (_widened(each.logprobs, width, float("-inf")) for each in (likeliest, named))
        tokens[rows], values[rows] = named_tokens[rows], named_values[rows]
        return LogprobsTensors(tokens, values, likeliest.selected_token_ranks)


def _widened(table: torch.Tensor, width: int, padding: float) -> torch.Tensor:
    """Return a table [rows, columns] with columns of padding, up to a width."""
    return torch.nn.functional.pad(table, (0, width - table.shape[1]), value=padding)
