"""Errors that a user can fix: one line that says where the problem is and what to do."""


class ActionlessError(Exception):
    """A problem with the user's input.

    The command line prints it as one line that starts with `actionless: ` and exits with status 2. The message
    names the file, the row or column if there is one, and what to do.
    """


def require_extra(module: str, extra: str, purpose: str) -> None:
    """Raise an error with the install command unless `module` can be imported."""
    import importlib.util

    if importlib.util.find_spec(module) is None:
        raise ActionlessError(
            f"{purpose} needs the package '{module}', which is not installed: pip install 'actionless[{extra}]'"
        )


def first_line(error: Exception) -> str:
    """The first line of an error message; the name of its type if the message is empty."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
