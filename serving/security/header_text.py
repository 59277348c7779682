"""Text that a header of HTTP, or gRPC's metadata, carries as it stands."""


def fits_header(text: str) -> bool:
    """Tell whether a text is printable ASCII throughout."""
    return text.isascii() and text.isprintable()
