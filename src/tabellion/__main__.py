"""`python -m tabellion` is the command line."""

from tabellion.cli import main

main()
