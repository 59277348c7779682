"""Figures of Stratum (arXiv 2510.05245), predicted: `results.csv` has what is published, and the role of each."""
