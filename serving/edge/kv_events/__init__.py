"""KV events: what devices' prefix caches store and evict, published as vLLM does, for routers that follow them."""
