"""Traces and log lines of requests, made from their stories."""
