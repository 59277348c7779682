"""Front ends of vLLM's before the emulated devices: how one joins, and the one in Rust, which is started here."""
