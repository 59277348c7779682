"""Keys, certificates, and what each lets in."""
