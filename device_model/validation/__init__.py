"""Predictions beside the papers' tables: nothing that a step is priced by imports it."""
