"""The gRPC services: OpenAI's API, the admin's, vLLM's engine service, health. `grpc_server` puts them on one port."""
