"""The physics of monolithic 3D DRAM over near-memory processors, as Stratum has them (arXiv 2510.05245).

`row_times` and `tiles` say how long weights take to read, `layout` where they lie (Algorithm 1), `expert_reads` and
`topic_ranks` which experts a step reads from where, `near_parts`, `attention`, `exchanges` and `xpu_parts` what a step
consists of, `row_swap` what another topic costs.
"""
