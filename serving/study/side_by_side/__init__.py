"""Hardware side by side on one workload: `foreserve compare`, a study whose variants are pieces of hardware.

`hardware_study` makes the study, `comparison` its figures, with joules by the names that each hardware has for its
tiers; `verdict` says in sentences what comes out, `shown` in tables, and `picture` as a picture.
"""
