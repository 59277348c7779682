"""Does a `config.json` become the spec that was written by hand, and is a bad one refused in a sentence?"""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_model.specs.hf_config import FAMILIES, read_config
from device_model.specs.spec import Model, SpecError
from device_model.specs.spec_file import SPECS, names_in, read_named

CONFIGS = {path.stem: json.loads(path.read_text()) for path in (Path(__file__).parent / "configs").glob("*.json")}


def read(folder, config):
    folder.joinpath("config.json").write_text(json.dumps(config))
    return read_config(folder / "config.json")


def model(folder, config):
    figures = read(folder, config)
    return Model(calibration="any", **{key: figure.value for key, figure in figures.items()})


def refusal(folder, config):
    with pytest.raises(SpecError) as caught:
        read(folder, config)
    return str(caught.value)


# Of these nobody has put a `config.json` here: their files say that their figures are from memory, or from a copy.
FROM_MEMORY = ["llama-4-scout", "mixtral-8x7b", "olmoe-1b-7b", "qwen2.5-32b"]


def test_there_is_a_config_of_every_bundled_model():
    assert sorted([*CONFIGS, *FROM_MEMORY]) == names_in(SPECS / "models")


@pytest.mark.parametrize("name", FROM_MEMORY)
def test_what_is_from_memory_says_so(name):
    text = (SPECS / "models" / f"{name}.toml").read_text().replace("text_config.", "")
    assert re.search(r"config.json: num_hidden_layers \((from memory|as in github.com/)", text)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_published_config_gives_the_bundled_spec(tmp_path, name):
    """The architecture from the file; the bits, which are assumed, happen to be the same."""
    bundled = read_named(Model, "model", name, SPECS / "models")
    made = model(tmp_path, CONFIGS[name])
    fields = set(Model.__dataclass_fields__) - {"calibration"}
    assert {key: getattr(made, key) for key in fields} == {key: getattr(bundled, key) for key in fields}


GQA = {
    "num_hidden_layers": 8,
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 96,
    "intermediate_size": 1000,
    "vocab_size": 3000,
    "max_position_embeddings": 4096,
}
DENSE = {"dense_layers": 8, "dense_intermediate_size": 1000, "experts": 0, "head_dim": 96, "kv_heads": 2}
MIXTRAL = GQA | {"num_local_experts": 8, "num_experts_per_tok": 2}
QWEN_MOE = GQA | {"num_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
SHARED = QWEN_MOE | {"shared_expert_intermediate_size": 300}
DEEPSEEK = {**GQA, **CONFIGS["deepseek-v2-lite"], "num_hidden_layers": 8}
WINDOWED = {"sliding_window": 64}
TYPES = ["sliding_attention"] * 3 + ["full_attention"] * 5

# (family, config, what the spec says)
RULES = [
    ("llama", GQA, DENSE),
    (
        "llama",
        {k: v for k, v in GQA.items() if k not in ("head_dim", "num_key_value_heads")},
        {"head_dim": 64, "kv_heads": 8},
    ),
    ("llama", GQA | {"head_dim": None, "tie_word_embeddings": True}, {"head_dim": 64, "tied_embeddings": True}),
    ("mistral", GQA | WINDOWED, DENSE | {"sliding_window": 64, "sliding_window_layers": 8}),
    ("mistral", GQA | {"sliding_window": None}, DENSE | {"sliding_window": 0, "sliding_window_layers": 0}),
    ("qwen2", GQA | WINDOWED | {"use_sliding_window": False}, {"sliding_window": 0}),
    ("qwen2", GQA | WINDOWED, {"sliding_window": 0}),
    ("qwen2", GQA | WINDOWED | {"use_sliding_window": True, "max_window_layers": 6}, {"sliding_window_layers": 2}),
    ("qwen3", GQA | WINDOWED | {"use_sliding_window": True, "layer_types": TYPES}, {"sliding_window_layers": 3}),
    ("qwen3", GQA | WINDOWED | {"use_sliding_window": True, "max_window_layers": 9}, {"sliding_window": 0}),
    ("mixtral", MIXTRAL, {"experts": 8, "top_k": 2, "expert_intermediate_size": 1000, "sliding_window": 0}),
    ("mixtral", MIXTRAL | WINDOWED, {"sliding_window": 64, "sliding_window_layers": 8}),
    ("phimoe", MIXTRAL | WINDOWED, {"experts": 8, "sliding_window_layers": 8}),
    ("olmoe", GQA | {"num_experts": 16, "num_experts_per_tok": 2}, {"experts": 16, "expert_intermediate_size": 1000}),
    ("qwen2_moe", SHARED, {"shared_experts": 1, "shared_expert_intermediate_size": 300, "dense_layers": 0}),
    ("qwen2_moe", SHARED | {"mlp_only_layers": [0, 5, 5]}, {"dense_layers": 2, "dense_intermediate_size": 1000}),
    ("qwen3_moe", QWEN_MOE | {"decoder_sparse_step": 2, "mlp_only_layers": [1]}, {"dense_layers": 5}),
    ("qwen3_moe", QWEN_MOE | WINDOWED | {"use_sliding_window": True}, {"sliding_window_layers": 8}),
    ("qwen3_moe", {**QWEN_MOE, "num_experts": None, "num_local_experts": 4}, {"experts": 4}),
    ("deepseek_v2", DEEPSEEK | {"q_lora_rank": 77}, {"q_lora_rank": 77, "attention": "mla", "kv_heads": 0}),
    ("deepseek_v3", DEEPSEEK | {"first_k_dense_replace": 3, "moe_layer_freq": 2}, {"dense_layers": 6}),
    ("deepseek_v3", DEEPSEEK | {"first_k_dense_replace": 0}, {"dense_layers": 0, "dense_intermediate_size": 0}),
    ("glm4_moe", GQA | DEEPSEEK, {"attention": "gqa", "kv_heads": 16, "shared_experts": 2, "dense_layers": 1}),
    ("glm4_moe_lite", DEEPSEEK | {"mlp_layer_types": ["dense"] * 2 + ["sparse"] * 6}, {"dense_layers": 2}),
    ("glm4_moe_lite", {**DEEPSEEK, "first_k_dense_replace": None}, {"dense_layers": 1}),
    ("gpt_oss", MIXTRAL | WINDOWED, {"sliding_window_layers": 4, "expert_weight_bits": 8.5}),
    ("gpt_oss", MIXTRAL | {"sliding_window": None}, {"sliding_window_layers": 0}),
]


@pytest.mark.parametrize(("family", "config", "said"), RULES)
def test_each_family_is_read_by_its_own_rules(tmp_path, family, config, said):
    made = model(tmp_path, config | {"model_type": family})
    assert {key: getattr(made, key) for key in said} == said


def test_every_family_has_a_rule_here():
    assert {family for family, _, _ in RULES} == set(FAMILIES)


REFUSED = [
    (
        "gpt-oss-20b",
        {"model_type": "gemma3"},
        "model_type is 'gemma3'; allowed are deepseek_v2, deepseek_v3, glm4_moe,",
    ),
    ("gpt-oss-20b", {"model_type": None}, "the key model_type is missing; required is one of deepseek_v2,"),
    ("gpt-oss-20b", {"num_hidden_layers": None}, "the key num_hidden_layers is missing; required is a whole number of"),
    ("gpt-oss-20b", {"num_hidden_layers": "24"}, "num_hidden_layers is '24'; allowed is a whole number of at least 1."),
    ("gpt-oss-20b", {"num_hidden_layers": True}, "num_hidden_layers is True; allowed is a whole number of at least 1."),
    ("gpt-oss-20b", {"hidden_size": -1}, "hidden_size is -1; allowed is a whole number of at least 1."),
    ("gpt-oss-20b", {"tie_word_embeddings": 1}, "tie_word_embeddings is 1; allowed is true or false."),
    (
        "gpt-oss-20b",
        {"layer_types": ["full_attention"]},
        "layer_types has 1 entries, 'full_attention'; allowed is a list of 24",
    ),
    ("gpt-oss-20b", {"num_experts_per_tok": 33}, "top_k (config.json: num_experts_per_tok) is 33; allowed is at most"),
    (
        "gpt-oss-20b",
        {"num_key_value_heads": 7},
        "kv_heads (config.json: num_key_value_heads) is 7; allowed is a divisor of",
    ),
    ("gpt-oss-20b", {"quantization_config": "mxfp4"}, "quantization_config is 'mxfp4'; allowed is an object."),
    ("deepseek-v2-lite", {"kv_lora_rank": None}, "the key kv_lora_rank is missing; required is a whole number"),
    (
        "deepseek-v2-lite",
        {"first_k_dense_replace": 27},
        "dense_layers (config.json: first_k_dense_replace) is 27; allowed",
    ),
    ("qwen3-30b-a3b", {"mlp_only_layers": ["a"]}, "mlp_only_layers is 'a'; allowed is a list of whole numbers."),
    (
        "qwen2.5-1.5b",
        {"use_sliding_window": True, "sliding_window": None},
        "the key sliding_window is missing; required",
    ),
]


@pytest.mark.parametrize(("name", "changed", "said"), REFUSED)
def test_a_bad_config_is_refused_by_file_and_key(tmp_path, name, changed, said):
    message = refusal(tmp_path, CONFIGS[name] | changed)
    assert message.startswith(f"{tmp_path.name}/config.json: {said}")
    assert message.endswith(".")


def test_gpt_oss_without_a_word_on_its_window_is_refused(tmp_path):
    config = {key: value for key, value in CONFIGS["gpt-oss-20b"].items() if key != "sliding_window"}
    assert "the key sliding_window is missing" in refusal(tmp_path, config)


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"a": \xff}', "[" * 100_000])
def test_what_is_no_json_object_is_refused(tmp_path, text):
    tmp_path.joinpath("config.json").write_text(text, encoding="latin-1")
    with pytest.raises(SpecError, match=rf"^{tmp_path.name}/config\.json[: ]"):
        read_config(tmp_path / "config.json")


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 70),
    st.floats(),
    st.text(max_size=3),
    st.just({}),
    st.lists(st.integers(0, 3)),
)


@given(st.sampled_from(sorted(CONFIGS)), st.data())
def test_whatever_a_key_holds_the_answer_is_a_model_or_one_sentence(tmp_path_factory, name, data):
    config = dict(CONFIGS[name])
    for key in data.draw(st.lists(st.sampled_from(sorted(config)), min_size=1, max_size=3)):
        config[key] = data.draw(anything)
    try:
        model(tmp_path_factory.mktemp("any"), config)
    except SpecError as error:
        assert str(error).endswith(".") and "\n" not in str(error)
