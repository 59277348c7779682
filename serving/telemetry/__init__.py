"""Telemetry of an emulation: metrics, traces, logs of steps and requests, status."""
