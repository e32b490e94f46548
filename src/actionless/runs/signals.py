"""Ctrl-C and SIGTERM, delayed until a run can stop without loss; and the end of the parent process."""

import os
import signal
import threading
from types import FrameType
from typing import Any


class StopRequest:
    """Within a `with`, the first SIGINT or SIGTERM is only noted; a second one has its usual effect."""

    def __init__(self) -> None:
        self._received: int | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __bool__(self) -> bool:
        return self._received is not None

    def obey(self) -> None:
        """Do what the signal asked for: KeyboardInterrupt after Ctrl-C, exit 143 after SIGTERM."""
        if self._received == signal.SIGINT:
            raise KeyboardInterrupt
        if self._received == signal.SIGTERM:
            raise SystemExit(128 + signal.SIGTERM)

    def __enter__(self) -> "StopRequest":
        # Python lets only the main thread set handlers; elsewhere the caller decides what stops a run.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._received = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}


STOP_WITH_PARENT = "ACTIONLESS_STOP_WITH_PARENT"
"""Set for a process whose standard input is a pipe that only its parent holds."""


def stop_with_parent() -> None:
    """If the parent asked for it, stop as after SIGTERM when the parent ends, even by a kill: its pipe then closes."""
    if STOP_WITH_PARENT not in os.environ:
        return

    def watch() -> None:
        # Not `sys.stdin`, whose lock a waiting thread would still hold when the process ends.
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
