"""OpenAI's API over HTTP and gRPC, and vLLM's engine service; one path to the engine below."""
