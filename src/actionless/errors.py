"""What a user can mend: one line that names the place and the way out."""


class ActionlessError(Exception):
    """A problem in what the user handed in.

    The command line prints it as one line behind `actionless: ` and exits with 2. The message names
    the file, the row or column where there is one, and what to do.
    """


def require_extra(module: str, extra: str, purpose: str) -> None:
    """Raise an error with the install command unless `module` can be imported."""
    import importlib.util

    if importlib.util.find_spec(module) is None:
        raise ActionlessError(
            f"{purpose} needs the package '{module}', which is not installed: pip install 'actionless[{extra}]'"
        )


def first_line(error: Exception) -> str:
    """What another library said, cut to one line."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
