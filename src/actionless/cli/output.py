"""Notes and warnings of every verb: on standard error, so that the result can be piped."""

import sys

from actionless.data.log import Log


def note(text: str) -> None:
    """Print a line that is neither a result nor an error."""
    print(text, file=sys.stderr)


def show_warnings(log: Log) -> None:
    """Print the warnings of the reader."""
    for warning in log.warnings:
        note(f"warning: {warning}")
