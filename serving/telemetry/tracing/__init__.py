"""Traces and log lines of requests, made from what the edge hears of their calls."""
