import pytest

from actionless.errors import ActionlessError
from actionless.runs.threads import threads_here, use_threads


def test_what_was_asked_for_is_used(monkeypatch):
    monkeypatch.setenv("NPROC", "5")
    assert threads_here() == 5
    use_threads(3)
    assert threads_here() == 3


def test_cores_are_counted_where_nothing_was_asked_for(monkeypatch):
    monkeypatch.delenv("NPROC", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 4, 7}, raising=False)
    assert threads_here() == 3


@pytest.mark.parametrize("said", ["two", "0", "-1", "1.5"])
def test_no_number(monkeypatch, said):
    monkeypatch.setenv("NPROC", said)
    with pytest.raises(ActionlessError, match=f"NPROC={said}: give the number of threads, at least 1, or unset it"):
        threads_here()
