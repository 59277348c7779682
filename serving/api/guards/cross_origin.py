"""Answers to pages from elsewhere: vLLM's CORS middleware, moved around the guards that answer by themselves.

Within the application it would leave out what they refuse, and a browser keeps such an answer from its page: a 429 or
413 would look like a broken connection. What lacks a key is refused outside of it, as by vLLM itself.
"""

from typing import Any

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware


def allow_origins(app: FastAPI, guards: Any) -> Any:
    """Take the CORS middleware out of `app`; return the ASGI application `guards`, which ends in `app`, within it."""
    added: list[Any] = app.user_middleware
    for middleware in added:
        if middleware.cls is CORSMiddleware:
            added.remove(middleware)
            return CORSMiddleware(guards, *middleware.args, **middleware.kwargs)
    return guards
