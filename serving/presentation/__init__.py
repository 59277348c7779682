"""The toolkit of all reports: tables and records of figures, and pictures in one style."""
