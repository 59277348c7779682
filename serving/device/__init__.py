"""An emulated device: the loop of its steps, what they cost, and its buffers."""
