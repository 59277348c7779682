"""A model's spec from the `config.json` that Hugging Face has of it.

What a family of models calls things, and what it takes a missing key for, is as in transformers' class of that family.
Parts that have no place in a spec are left out: biases, multi-token-prediction layers, the gate of Qwen2-MoE's shared
expert. How the device will serve the model is in no `config.json`; INT8 is assumed, and MXFP4 kept if the file has it.
"""

from collections.abc import Callable
from pathlib import Path

from device_model.specs.config_file import ConfigFile, SpecValue
from device_model.specs.spec import GQA, MLA, Contradiction, Model

SpecValues = dict[str, SpecValue]
Part = Callable[[ConfigFile, int], SpecValues]
"""Reads a part of a model that has so many layers."""

SLIDING, FULL = "sliding_attention", "full_attention"
DENSE, SPARSE = "dense", "sparse"
SAYS_NOTHING = "config.json does not say"
INT8 = SpecValue(8.5, f"Assumed: INT8 in groups of 32 with an FP16 scale, as in ELMoE-3D, 7; {SAYS_NOTHING}")
KV = SpecValue(8.0, f"Assumed: a KV cache in INT8, as ELMoE-3D's Table 3 implies; {SAYS_NOTHING}")
MXFP4 = SpecValue(4.25, "config.json: quantization_config, MXFP4: 32 weights of 4 bits share a scale of 8 bits")


def read_config(path: Path) -> SpecValues:
    """Read the figures of a `Model`, by key, from the `config.json` at `path`: all but `calibration`. Raise SpecError
    for a file that does not give them."""
    config = ConfigFile(path)
    known = ", ".join(sorted(FAMILIES))
    family = config.get("model_type", str, f"one of {known}")
    if family not in FAMILIES:
        config.refuse(f"model_type is {family!r}; allowed are {known}")
    figures = _common(config)
    for part in FAMILIES[family]:
        figures |= part(config, figures["layers"].value)
    figures |= _bits(config, "experts" in figures)
    _check(config, figures)
    return {key: figures[key] for key in Model.__dataclass_fields__ if key in figures}


def _check(config: ConfigFile, figures: SpecValues) -> None:
    """Each figure is allowed by itself; here, whether they can stand beside each other."""
    try:
        Model(calibration="any", **{key: figure.value for key, figure in figures.items()})
    except Contradiction as error:
        figure = figures.get(error.key, SpecValue("missing", "config.json"))
        config.refuse(f"{error.key} ({figure.source}) is {figure.value!r}; allowed is {error.allowed}")


def _common(config: ConfigFile) -> SpecValues:
    return {
        "layers": config.count("num_hidden_layers"),
        "hidden_size": config.count("hidden_size"),
        "q_heads": config.count("num_attention_heads"),
        "vocab_size": config.count("vocab_size"),
        "tied_embeddings": config.flag("tie_word_embeddings"),
        "max_context_tokens": config.count("max_position_embeddings"),
    }


def _bits(config: ConfigFile, has_experts: bool) -> SpecValues:
    bits = {"static_weight_bits": INT8, "kv_bits": KV}
    if has_experts:
        given = config.get("quantization_config", dict, "an object") if config.has("quantization_config") else {}
        bits["expert_weight_bits"] = MXFP4 if given.get("quant_method") == "mxfp4" else INT8
    if config.has("quantization_config"):
        passed_over = "config.json's quantization_config is not read for these"
        return {
            key: figure._replace(source=figure.source.replace(SAYS_NOTHING, passed_over))
            for key, figure in bits.items()
        }
    return bits


def _gqa(*may_lack: str) -> Part:
    """Return the part for grouped queries; `may_lack` are the keys that the family works out from others when they are
    missing."""

    def figures(config: ConfigFile, layers: int) -> SpecValues:
        heads, hidden = config.count("num_attention_heads").value, config.count("hidden_size").value
        kv_heads = SpecValue(heads, "config.json: num_attention_heads, as there is no num_key_value_heads")
        head_dim = SpecValue(hidden // heads, "config.json: hidden_size / num_attention_heads, as there is no head_dim")
        defaults = {"num_key_value_heads": kv_heads, "head_dim": head_dim}
        found = {
            key: default if key in may_lack and not config.has(key) else config.count(key)
            for key, default in defaults.items()
        }
        return {
            "attention": SpecValue(GQA, ""),
            "kv_heads": found["num_key_value_heads"],
            "head_dim": found["head_dim"],
        }

    return figures


def _mla(config: ConfigFile, layers: int) -> SpecValues:
    """Latents, in the keys of DeepSeek-V2; without `q_lora_rank` queries are projected at full rank."""
    widths = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    figures = {"attention": SpecValue(MLA, ""), "q_lora_rank": config.count_or_none("q_lora_rank")}
    return figures | {key: config.count(key) for key in widths}


def _window(layers_with: Callable[[ConfigFile, int], int], on: Callable[[ConfigFile], bool]) -> Part:
    """Sliding windows if they are `on`, in the layers that `layer_types` lists, or else in `layers_with` of them."""

    def figures(config: ConfigFile, layers: int) -> SpecValues:
        if not on(config):
            return {}
        window = config.count("sliding_window")
        if config.has("layer_types"):
            kinds = config.kinds("layer_types", (SLIDING, FULL), layers)
            count = SpecValue(kinds.count(SLIDING), f"config.json: layer_types, those that are {SLIDING}")
        else:
            count = SpecValue(
                layers_with(config, layers), "config.json has no layer_types; as in transformers by default"
            )
        return {"sliding_window": window, "sliding_window_layers": count} if count.value else {}

    return figures


def _given(config: ConfigFile) -> bool:
    return config.has("sliding_window")


def _not_null(config: ConfigFile) -> bool:
    """For families that have a window of their own without the key, so that it must be there."""
    return config.has("sliding_window") or not config.mentions("sliding_window")


def _switched(config: ConfigFile) -> bool:
    return bool(config.flag("use_sliding_window").value)


def _all_layers(config: ConfigFile, layers: int) -> int:
    return layers


def _every_other_layer(config: ConfigFile, layers: int) -> int:
    return (layers + 1) // 2


def _last_layers(config: ConfigFile, layers: int) -> int:
    return max(layers - int(config.count("max_window_layers", least=0).value), 0)


def _listed_layers(config: ConfigFile, layers: int) -> int:
    """For a family in which releases of transformers differ."""
    config.refuse("the key layer_types is missing; required is a list, as use_sliding_window is true")


def _dense(config: ConfigFile, layers: int) -> SpecValues:
    """Return the figures of a model without experts."""
    count = SpecValue(layers, "config.json: num_hidden_layers, as there are no experts")
    return {"dense_layers": count, "dense_intermediate_size": config.count("intermediate_size")}


def _experts(count: str, size: str, shared: str | None = None) -> Part:
    """Routed experts, with the keys of their number and size; `shared` is the key of a number of as large ones."""

    def figures(config: ConfigFile, layers: int) -> SpecValues:
        # Under this name transformers 5 saves what others call `num_experts`.
        renamed = config.has("num_local_experts") and not config.has(count)
        figures = {
            "experts": config.count("num_local_experts" if renamed else count),
            "top_k": config.count("num_experts_per_tok"),
            "expert_intermediate_size": config.count(size),
        }
        return figures | ({"shared_experts": config.count_or_none(shared)} if shared else {})

    return figures


def _one_shared_expert(config: ConfigFile, layers: int) -> SpecValues:
    one = SpecValue(1, "config.json has shared_expert_intermediate_size; transformers makes it one expert")
    return {"shared_experts": one, "shared_expert_intermediate_size": config.count("shared_expert_intermediate_size")}


def _some_dense(counted: Callable[[ConfigFile, int], SpecValue]) -> Part:
    """Return the part for a model with experts, some layers of which have none."""

    def figures(config: ConfigFile, layers: int) -> SpecValues:
        count = counted(config, layers)
        if not count.value:
            return {}
        return {"dense_layers": count, "dense_intermediate_size": config.count("intermediate_size")}

    return figures


def _first_layers(config: ConfigFile, layers: int) -> SpecValue:
    """Count the dense layers: the first, and of the others those whose number is no multiple of `moe_layer_freq`."""
    first = config.count("first_k_dense_replace", least=0)
    every = config.count("moe_layer_freq").value if config.has("moe_layer_freq") else 1
    if every == 1:
        return first
    dense = sum(layer < first.value or layer % every != 0 for layer in range(layers))
    return SpecValue(dense, "config.json: first_k_dense_replace and moe_layer_freq")


def _glm_layers(config: ConfigFile, layers: int) -> SpecValue:
    """`mlp_layer_types`, which replaced `first_k_dense_replace`; without either, the first layer."""
    if config.has("mlp_layer_types"):
        kinds = config.kinds("mlp_layer_types", (DENSE, SPARSE), layers)
        return SpecValue(kinds.count(DENSE), f"config.json: mlp_layer_types, those that are {DENSE}")
    if config.has("first_k_dense_replace"):
        return config.count("first_k_dense_replace", least=0)
    return SpecValue(1, "config.json has no mlp_layer_types; the first layer is dense in transformers by default")


def _layers_between(config: ConfigFile, layers: int) -> SpecValue:
    """Those of `mlp_only_layers`, and all but each `decoder_sparse_step`th."""
    only = config.numbers("mlp_only_layers")
    every = config.count("decoder_sparse_step").value if config.has("decoder_sparse_step") else 1
    dense = sum(layer in only or (layer + 1) % every != 0 for layer in range(layers))
    return SpecValue(dense, "config.json: mlp_only_layers and decoder_sparse_step")


_DEEPSEEK_EXPERTS = _experts("n_routed_experts", "moe_intermediate_size", shared="n_shared_experts")
_QWEN_EXPERTS = _experts("num_experts", "moe_intermediate_size")
_MIXTRAL_EXPERTS = _experts("num_local_experts", "intermediate_size")

FAMILIES: dict[str, tuple[Part, ...]] = {
    "llama": (_gqa("num_key_value_heads", "head_dim"), _dense),
    "mistral": (_gqa("head_dim"), _dense, _window(_all_layers, _not_null)),
    "qwen2": (_gqa("head_dim"), _dense, _window(_last_layers, _switched)),
    "qwen3": (_gqa(), _dense, _window(_last_layers, _switched)),
    "mixtral": (_gqa("head_dim"), _MIXTRAL_EXPERTS, _window(_all_layers, _given)),
    "phimoe": (_gqa("head_dim"), _MIXTRAL_EXPERTS, _window(_all_layers, _given)),
    "olmoe": (_gqa("num_key_value_heads", "head_dim"), _experts("num_experts", "intermediate_size")),
    "qwen2_moe": (
        _gqa("head_dim"),
        _QWEN_EXPERTS,
        _one_shared_expert,
        _some_dense(_layers_between),
        _window(_listed_layers, _switched),
    ),
    "qwen3_moe": (_gqa("head_dim"), _QWEN_EXPERTS, _some_dense(_layers_between), _window(_all_layers, _switched)),
    "deepseek_v2": (_mla, _DEEPSEEK_EXPERTS, _some_dense(_first_layers)),
    "deepseek_v3": (_mla, _DEEPSEEK_EXPERTS, _some_dense(_first_layers)),
    "glm4_moe": (_gqa("head_dim"), _DEEPSEEK_EXPERTS, _some_dense(_first_layers)),
    "glm4_moe_lite": (_mla, _DEEPSEEK_EXPERTS, _some_dense(_glm_layers)),
    "gpt_oss": (_gqa(), _MIXTRAL_EXPERTS, _window(_every_other_layer, _not_null)),
}
