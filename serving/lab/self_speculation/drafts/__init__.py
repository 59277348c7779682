"""The families of drafts: one file each, from the target's weights to a `Draft`."""
