"""The HTTP header that carries an API key."""


def bearer(api_key: str | None) -> dict[str, str]:
    """Return the Authorization header, or no header without a key."""
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}
