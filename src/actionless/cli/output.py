"""What every verb says besides its result: on standard error, so that the result can be piped."""

import sys

from actionless.data.log import Log


def note(text: str) -> None:
    """Say something that is neither result nor error."""
    print(text, file=sys.stderr)


def show_warnings(log: Log) -> None:
    """Say what the reader noticed."""
    for warning in log.warnings:
        note(f"warning: {warning}")
