"""This process and its children: their folder, priority, log lines, and end."""
