"""Accelerators of the kind hb-xpu: an xPU with HB beside external memory, and what runs on them."""
