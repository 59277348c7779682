"""Devices that hold a whole model in one tier of memory, GPUs among them."""
