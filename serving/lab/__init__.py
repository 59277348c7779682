"""How the bundled models and classifiers came about, and what was measured on them. Only commands import it."""
