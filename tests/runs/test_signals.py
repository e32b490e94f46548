import os
import signal

import pytest
from toy_run import RandomWalk, new_run, work

from actionless.runs.checkpoints import Checkpoints
from actionless.runs.signals import StopRequest


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(("number", "end"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_first_signal_is_held_back_until_it_is_obeyed(number, end):
    with StopRequest() as stop:
        assert not stop
        stop.obey()
        send(number)
        assert stop
    with pytest.raises(end) as ended:
        stop.obey()
    assert number == signal.SIGINT or ended.value.code == 143


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with StopRequest():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_ignored_signals_stay_ignored():
    """As in a job that `nohup` or `&` started."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            send(signal.SIGINT)
            assert not stop
    finally:
        signal.signal(signal.SIGINT, before)


class InterruptedTwice(RandomWalk):
    """Ctrl-C, and once more before the dispatch has ended."""

    def advance(self, state, step):
        if step == 20:
            send(signal.SIGINT)
            send(signal.SIGINT)
            pytest.fail("the second Ctrl-C waited for the end of the dispatch")
        return super().advance(state, step)


def test_second_ctrl_c_stops_at_once(tmp_path, caplog):
    with new_run(tmp_path / "run") as run, pytest.raises(KeyboardInterrupt):
        work(run, InterruptedTwice())
    assert Checkpoints(tmp_path / "run" / "checkpoints").paths()[-1].name == "step-000000000020"
    assert "stopped at step" not in caplog.text
