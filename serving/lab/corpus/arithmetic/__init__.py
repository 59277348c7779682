"""Sums with computed answers: drills of small numbers, sums in words, and sums of daily life."""
