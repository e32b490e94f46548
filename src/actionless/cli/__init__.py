"""The `actionless` command: one thin module per verb, loaded when it is called."""

import contextlib
import errno
import importlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin

from actionless.errors import TRACEBACK, ActionlessError, require_supported_system
from actionless.runs.signals import stop_with_parent
from actionless.version import __version__

VERBS = {
    "demo": "run every step on a small bundled log, in about five minutes",
    "inspect": "show what is in a log: sizes, returns, scales, Δs shares, warnings",
    "pretrain": "learn a state policy from a log",
    "train": "train an agent in an environment, with or without a guide",
    "finetune": "learn from a log with actions, then in its environment, as a comparison",
    "evaluate": "measure how good a policy is, with or without an environment",
    "recommend": "show in which direction each variable should move from a state",
    "record": "make a log with an agent trained in an environment",
    "resume": "resume a run that stopped",
    "reproduce": "make a table or figure of the paper, or run a sweep of your own",
    "report": "write runs as one HTML page of charts and tables, and as figures",
    "export": "write a state policy as an ONNX file, for deployment",
    "convert": "write a log as Parquet, npz or a Minari data set",
    "doctor": "print what a bug report needs: versions, devices, threads, extras, speed",
}

TRACEBACK_VARIABLE = "ACTIONLESS_TRACEBACK"

_ABOUT_TRACEBACK = f"{TRACEBACK} (or {TRACEBACK_VARIABLE}=1) shows the traceback of an error."

EXIT_BUG, EXIT_USER, EXIT_INTERRUPTED = 1, 2, 130


def main() -> None:
    """Entry point of the console script."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Δ shows a question mark
    stop_with_parent()
    if TRACEBACK in sys.argv:
        os.environ[TRACEBACK_VARIABLE] = "1"  # for the processes that it starts, one for each of several seeds
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code.

    0: done; 2: an error that the user can fix, printed in one line; 130: interrupted; 1: a bug, with its traceback.
    A run that SIGTERM stops exits with 143, the usual code for that signal.
    """
    show_traceback = TRACEBACK in arguments or os.environ.get(TRACEBACK_VARIABLE, "") not in ("", "0")
    try:
        require_supported_system()
        call([word for word in arguments if word != TRACEBACK])
        sys.stdout.flush()  # here, where an error can still be reported
        return 0
    except ActionlessError as error:
        if show_traceback:
            traceback.print_exc()
        print(f"actionless: {' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_USER
    except KeyboardInterrupt:
        print("actionless: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed the pipe, as `head` does. That is not an error.
        _forget_output()
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return _bug()
        _forget_output()
        print(
            "actionless: the output cannot be written: the disk is full; make room or write elsewhere", file=sys.stderr
        )
        return EXIT_USER
    except Exception:
        return _bug()


def _forget_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _bug() -> int:
    traceback.print_exc()
    print("actionless: this is a bug; please report it with the lines above", file=sys.stderr)
    return EXIT_BUG


def call(arguments: Sequence[str]) -> None:
    """Run one command line and raise its errors; `run` turns them into exit codes."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_help())
        return
    if arguments[0] == "--version":
        print(f"actionless {__version__}")
        return
    verb = arguments[0]
    if verb not in VERBS:
        raise ActionlessError(f"no verb '{verb}'{_closest(verb)} (the verbs: {', '.join(VERBS)})")
    command = _parse(verb, list(arguments[1:]))
    if command is not None:
        command.run()


def _help() -> str:
    verbs = "\n".join(f"  {verb:<10} {about}" for verb, about in VERBS.items())
    return (
        "usage: actionless VERB ...\n\n"
        "Learn from logs that never recorded the actions, then speed up an agent that can act.\n\n"
        f"{verbs}\n\n"
        "`actionless VERB --help` explains a verb, with examples.\n"
        f"{_ABOUT_TRACEBACK}\n"
        "Exit codes: 0 done, 2 an error you can fix (printed in one line), 130 interrupted (143 by SIGTERM), 1 a bug."
    )


def _closest(verb: str) -> str:
    import difflib

    close = difflib.get_close_matches(verb, VERBS, n=1)
    return f", did you mean '{close[0]}'?" if close else ""


def _parse(verb: str, arguments: list[str]) -> Any:
    """The verb's command object, or None where only help was asked for."""
    import tyro

    module = importlib.import_module(f"actionless.cli.{verb}")
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                module.Command,
                prog=f"actionless {verb}",
                description=f"{(module.__doc__ or '').rstrip()}\n\n{_ABOUT_TRACEBACK}",
                args=arguments,
                registry=_registry(),
                config=(tyro.conf.FlagCreatePairsOff,),
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            return None
        raise ActionlessError(
            f"{_complaint_line(complaint.getvalue()).rstrip('.')}; see `actionless {verb} --help`"
        ) from None


def _registry() -> Any:
    """Lists on the command line are written a,b,c; help shows `int | None` as INT."""
    import tyro
    from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

    registry = ConstructorRegistry()
    optional = {
        str | None: ("TEXT", str, str, "none"),
        int | None: ("INT", int, int, "auto"),
        float | None: ("FLOAT", float, float, "auto"),
        bool | None: ("TRUE|FALSE", bool, _truth, "auto"),
        tuple[int, ...] | None: ("INT,INT", tuple, _whole_numbers, "auto"),
    }

    @registry.primitive_rule
    def comma_separated(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
        if info.type not in (tuple[str, ...], tuple[str, ...] | None) or tyro.conf.Positional in info.markers:
            return None
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar="A,B,C",
            instance_from_str=lambda words: tuple(part.strip() for part in words[0].split(",") if part.strip()),
            is_instance=lambda value: value is None or isinstance(value, tuple),
            str_from_instance=lambda value: [",".join(value or ())],
        )

    @registry.primitive_rule
    def choice_may_be_left_out(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
        choices = _choices(info.type)
        if choices is None:
            return None
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar=f"{{{','.join(choices)}}}",
            choices=choices,
            instance_from_str=lambda words: words[0],
            is_instance=lambda value: value is None or value in choices,
            str_from_instance=lambda value: ["auto" if value is None else value],
        )

    @registry.primitive_rule
    def may_be_left_out(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
        if info.type not in optional:
            return None
        metavar, kind, convert, unset = optional[info.type]
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar=metavar,
            instance_from_str=lambda words: convert(words[0]),
            is_instance=lambda value: value is None or isinstance(value, kind),
            str_from_instance=lambda value: [unset if value is None else str(value)],
        )

    return registry


def _choices(hint: Any) -> tuple[str, ...] | None:
    """The words of an annotation `Literal[...] | None`."""
    literals = [part for part in get_args(hint) if get_origin(part) is Literal]
    return get_args(literals[0]) if len(literals) == 1 and set(get_args(hint)) == {literals[0], type(None)} else None


def _truth(word: str) -> bool:
    if word.lower() not in ("true", "false"):
        raise ValueError(f"'{word}' is neither true nor false")
    return word.lower() == "true"


def _whole_numbers(words: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in words.split(","))
    except ValueError:
        raise ValueError(f"'{words}' is not a list of whole numbers such as 256,256") from None


def _complaint_line(box: str) -> str:
    """The parser's boxed complaint as one line: its first section, and the suggestion if there is one."""
    sections: list[list[str]] = [[]]
    for line in box.splitlines()[1:]:
        text = line.strip("│| ")
        if text.strip("╰╯─+-"):
            sections[-1].append(text)
        else:
            sections.append([])
    filled = [section for section in sections if section]
    line = " ".join(filled[0]) if filled else "the arguments could not be read"
    if len(filled) > 1 and filled[1][0].startswith("Perhaps you meant"):
        line += f"; perhaps you meant {filled[1][1].split()[0]}"
    return line[0].lower() + line[1:]
