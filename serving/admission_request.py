"""A request as admission judges it: its size, and what is asked for beside its text."""

from dataclasses import dataclass

from serving.types import NEVER, Count


@dataclass(slots=True)
class AdmissionRequest:
    """A request to be judged: `n` sequences of at most `max_tokens` each, on `device` if it names one.

    `slo`, `ttft_s`, `tpot_s`, `priority` and `topic` are its options (`admission/request_options.py`), completed by its
    SLO class, and by what its prompt was found to be about; `waited_s` have passed since it arrived. `charged` counts
    the tokens that the key was charged for other prompts of the same call, which then counts as no further request. One
    that `continues` goes on with a beam search that was admitted. Of an admitted one, `places` in the queue are
    reserved for sequences still to come, and the forecast knows it as `aside` until the last of them is in flight.
    """

    prompt_tokens: Count
    max_tokens: Count
    n: Count = 1
    device: int | None = None
    key: str = ""
    slo: str = ""
    ttft_s: float = NEVER
    tpot_s: float = NEVER
    priority: int = 0
    topic: str = ""
    waited_s: float = 0.0
    charged: int = 0
    continues: bool = False
    aside: str = ""
    places: int = 0

    @property
    def tokens(self) -> int:
        """The tokens that the key is charged for: the prompt, and all that the request may generate."""
        return self.new_prompt_tokens + self.n * self.max_tokens

    @property
    def new_prompt_tokens(self) -> int:
        """The tokens of the prompt that the key was not charged for in an earlier round of a beam search."""
        return 0 if self.continues else self.prompt_tokens
