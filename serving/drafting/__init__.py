"""A token model that drafts for itself, executed: its own MSB slices draft trees, its INT8 weights verify them.

    weights.py   a checkpoint's weights, as the target has them and as a draft reads them; bits.py is their format
    forward.py   one pass over the tokens of several sequences; attention.py is its larger half
    tree.py      the tree of a draft: what is kept of each level, what is verified, which path was right
    drafter.py   a draft from beginning to end

In numpy, so that a device needs neither torch nor vLLM. `serving.lab.self_speculation` does the same in torch, for
chains and at length, and a test holds the two together.
"""
