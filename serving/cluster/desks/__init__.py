"""What actors hand on to the plain objects that they own: the methods that other processes call."""
