"""The card beside the weights: its text, and the picture of their loss."""
