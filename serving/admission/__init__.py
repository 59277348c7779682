"""Admission: judges requests, reserves what they will take up, and refuses with a reason."""
