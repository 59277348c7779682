"""The root path (`--root-path`): a proxy's prefix of our paths, which it may leave on what it passes on to us.

Routers take a path with it for that without it. So must whoever is asked before them, or a path would be another one to
guards than it is to routers.
"""

from typing import Any


class WithoutRoot:
    """ASGI middleware, the outermost: takes the root path off paths, as routers do."""

    def __init__(self, app: Any, root: str) -> None:
        self._app, self._root = app, root

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on by its route's path."""
        path = scope.get("path", "")
        if self._root and (path + "/").startswith(self._root + "/"):
            scope = scope | {"path": path[len(self._root) :]}
        await self._app(scope, receive, send)


class WithRoot:
    """ASGI middleware, the innermost: puts it before each path, so that routers take no other part of one for it."""

    def __init__(self, app: Any, root: str) -> None:
        self._app, self._root = app, root

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on by the path that routers know."""
        if self._root and "path" in scope:
            scope = scope | {"path": self._root + scope["path"]}
        await self._app(scope, receive, send)
