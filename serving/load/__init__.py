"""`foreserve load`: load on any OpenAI endpoint, over HTTP or gRPC.

A run reads top to bottom: `options` -> `arrivals` and `workload` (what is asked, and when; or, of a workload file,
`planned` with its `texts`) -> `drive` (sends it) ->
`http` or `grpc` (one `Trace` a request) -> `summary` (figures) -> `report` (table and JSON). `emulator` asks our own
endpoint how late it was, so that a slow host is not mistaken for slow hardware.
"""
