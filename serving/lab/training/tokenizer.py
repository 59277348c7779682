"""The tokenizer: byte-level BPE, so that no text is beyond it, with single digits, which makes sums easier to learn."""

from collections.abc import Iterable, Iterator
from itertools import islice, repeat
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from serving.lab.corpus.corpus import DialogueTurn, Document, documents
from serving.load.texts import WORDS

END_OF_TEXT, TURN, END_OF_TURN = SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEXT = "text"  # the role of a plain text
CHAT_TEMPLATE = (Path(__file__).parent / "chat_template.jinja").read_text()
"""How a chat is written, with tools as Hermes has them."""
SAMPLE = 20_000  # documents that it is trained on
FREQUENT = 1000  # how often the words of random load are added, so that each of them is one token


def train_tokenizer(seed: int, vocabulary: int, sample: int = SAMPLE, asked: float = 0.0) -> Tokenizer:
    """Train a tokenizer for the first documents of the training stream, of which a share of `asked` is on anything that
    people ask, and for the words of random load."""
    texts = (turn.content for document in islice(documents(seed, "train", asked), sample) for turn in document.turns)
    return bpe(_and_words(texts), vocabulary)


def bpe(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """Byte-level BPE of `texts`."""
    tokenizer = Tokenizer(models.BPE())
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _and_words(texts: Iterable[str]) -> Iterator[str]:
    yield from texts
    yield from repeat(" " + " ".join(WORDS), FREQUENT)


def save_tokenizer(tokenizer: Tokenizer, context: int, folder: Path) -> None:
    """Write it in Hugging Face format, with the chat template."""
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END_OF_TURN, pad_token=END_OF_TEXT, model_max_length=context
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)


def rendered(document: Document) -> Iterator[tuple[str, str]]:
    """Each turn's role and text as the model reads it: as the chat template has it."""
    for turn in document.turns:
        yield turn.role, rendered_turn(turn)


def rendered_turn(turn: DialogueTurn) -> str:
    """Return one turn as the chat template has it; a plain text begins as a prompt does that is no chat.

    There is no beginning-of-text token: the server gives the model such a prompt as it is.
    """
    if turn.role == TEXT:
        return f"{turn.content}{END_OF_TURN}\n"
    return f"{TURN}{turn.role}\n{turn.content}{END_OF_TURN}\n"
