"""What stands before the application: who gets in, with what, and how much of it."""
