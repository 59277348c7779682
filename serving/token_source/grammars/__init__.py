"""Grammars of structured outputs as a small token model can follow them: merged, bounded and spaced."""
