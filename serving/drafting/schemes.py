"""The draft schemes that a token model can execute: those that draft with the target's own weights."""

EXECUTABLE = ELASTIC, RANDOM, QUANT = ("elastic", "random", "quant")
