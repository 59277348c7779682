"""Self-speculation measured on a real, small Qwen3-MoE: drafts made of the target's own weights, and their acceptance.

weights.py     a checkpoint's weights, stacked by expert
model.py       the forward pass over ragged sequences; attention.py, experts.py and cache.py are its parts
drafts/        one file per family: elastic (ELMoE-3D), cassandra, first_layers (plain early exit)
pools.py       which experts a draft may use: the hot ones, or any
decode.py      draft and verify; rejection.py is how a sampled draft is judged
sweeps.py      what is measured, figure by figure; measure.py runs it
claims.py      what the papers say of shapes, held against the figures; report.py, plots.py
"""
