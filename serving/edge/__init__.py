"""vLLM's front end on emulated devices: what clients send becomes flights, what devices release becomes outputs."""
