"""`foreserve top`: the view of a running emulation in a terminal."""
