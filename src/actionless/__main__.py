"""`python -m actionless`, the same as the `actionless` command."""

from actionless.cli import main

main()
