"""`python -m serving.cli` is `foreserve`."""

from serving.cli.main import main

main()
