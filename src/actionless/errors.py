"""Errors that a user can fix: one line that says where the problem is and what to do."""

import importlib.util
import sys


class ActionlessError(Exception):
    """A problem with the user's input.

    The command line prints it as one line that starts with `actionless: ` and exits with status 2. The message
    names the file, the row or column if there is one, and what to do.
    """


TRACEBACK = "--traceback"
"""The option of every verb that shows the traceback of an error."""


def foreign_error(said: str, way_out: str) -> ActionlessError:
    """The error for an exception in the user's own code; raise it `from` that exception, its cause."""
    return ActionlessError(f"{said}: {way_out} (on the command line, {TRACEBACK} shows where it was raised)")


def require_supported_system() -> None:
    """Refuse Windows, which lacks what run directories and memory limits need (Python's `fcntl` and `resource`)."""
    if sys.platform == "win32":
        raise ActionlessError("Windows is not supported: use Linux or macOS, or the Windows Subsystem for Linux (WSL)")


def require_extra(module: str, extra: str, purpose: str) -> None:
    """Raise an error with the install command unless `module` can be imported."""
    if importlib.util.find_spec(module) is None:
        raise ActionlessError(
            f"{purpose} needs the package '{module}', which is not installed: pip install 'actionless[{extra}]'"
        )


def first_line(error: Exception) -> str:
    """The first line of an error message; the name of its type if the message is empty."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
