"""The way of tokens from a release to the clients that wait for them."""
