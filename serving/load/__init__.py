"""`foreserve load`: load on any OpenAI endpoint, over HTTP or gRPC.

A run reads top to bottom: `options` -> `own_workload` (or a workload file) -> `plan` with its `prompts` or `texts`
(requests, each at its instant) -> `drive` (sends them) -> `http` or `grpc` (one `RequestTimes` a request) -> `summary`
(figures) -> `report` (table and JSON). `emulator` asks our own endpoint how late it was, so that a slow host is not
mistaken for slow hardware.
"""
