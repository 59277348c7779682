"""How a key is shown over HTTP."""


def bearer(api_key: str | None) -> dict[str, str]:
    """The header that authorizes; none without a key."""
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}
