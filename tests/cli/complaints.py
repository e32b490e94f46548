"""What the command line says about a mistake of the user."""

from actionless import cli


def complaint(capsys, *arguments):
    """The one line on standard error that a command line ends with, exit 2."""
    assert cli.run([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("actionless: ")
    assert captured.err.count("\n") == 1
    return captured.err
