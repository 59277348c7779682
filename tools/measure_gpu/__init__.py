"""Measures a GPU under vLLM, for `foreserve calibrate --measured`: how long passes of a MoE model take, and loads.

    python -m tools.measure_gpu --popular STEPS.csv --even STEPS.csv --load TRACE.csv --out FOLDER

It needs vLLM's build for the GPU and what comes with it, no weights, no network and nothing of foreserve's. One follows
it from `popularity.py` (which experts tokens are to choose) by `dressing.py` (weights by which they do), `engine.py`,
`steps.py` and `loads.py` to `tables.py`.
"""
