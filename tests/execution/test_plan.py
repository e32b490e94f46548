"""The order of jobs, and what happens after a failure, without any process."""

import pytest
from stand_in import RESULT, Recorder, job

from actionless.errors import ActionlessError
from actionless.execution.executor import Plan
from actionless.execution.outcome import ProcessKilledError, exit_error, what_is_left, worst_error
from actionless.execution.watch import Lines


def finish(plan, asked):
    plan.begin(asked)
    asked.out.mkdir()
    (asked.out / "result.json").write_text(RESULT)
    plan.ended(asked, None)


def names(jobs):
    return [job.out.name for job in jobs]


def states(plan):
    return [outcome.state for outcome in plan.outcomes]


def test_a_job_is_ready_when_all_before_it_are_done(tmp_path):
    a, b, c = job(tmp_path, "a"), job(tmp_path, "b"), job(tmp_path, "c", "a", "b")
    plan = Plan([c, b, a], Recorder())
    assert names(plan.ready()) == ["b", "a"]
    finish(plan, a)
    assert names(plan.ready()) == ["b"]
    finish(plan, b)
    assert names(plan.ready()) == ["c"]
    finish(plan, c)
    assert plan.ready() == []
    assert states(plan) == ["done", "done", "done"]


def test_what_is_done_is_left_alone(tmp_path):
    a, b = job(tmp_path, "a"), job(tmp_path, "b", "a")
    finish(Plan([a], Recorder()), a)
    plan = Plan([a, b], recorder := Recorder())
    assert recorder.events == [("already done", "a")]
    assert names(plan.ready()) == ["b"]


def test_jobs_after_a_failure_are_skipped_and_the_others_are_not(tmp_path):
    jobs = [job(tmp_path, *names) for names in ("a", "ba", "cb", "d", "ed")]
    plan = Plan(jobs, recorder := Recorder())
    plan.begin(jobs[0])
    plan.ended(jobs[0], ActionlessError("the disk is full"))
    assert recorder.events[1:] == [("failed", "a"), ("skipped", "b"), ("skipped", "c")]
    finish(plan, jobs[3])
    finish(plan, jobs[4])
    assert states(plan) == ["failed", "skipped", "skipped", "done", "done"]
    assert str(plan.outcomes[1].error) == f"it needs {tmp_path / 'a'}, which is not done"
    assert str(plan.outcomes[2].error) == f"it needs {tmp_path / 'b'}, which is not done"
    assert str(worst_error(plan.outcomes)) == "the disk is full"
    assert what_is_left(plan.outcomes) == "1 of 5 jobs failed, 2 skipped; start again to resume them"


def test_what_a_job_needs_may_be_made_elsewhere(tmp_path):
    elsewhere = job(tmp_path, "elsewhere")
    needs = job(tmp_path, "needs", "elsewhere")
    plan = Plan([needs], Recorder())
    assert (plan.ready(), states(plan)) == ([], ["skipped"])
    finish(Plan([elsewhere], Recorder()), elsewhere)
    assert names(Plan([needs], Recorder()).ready()) == ["needs"]


def test_paths_may_be_written_in_several_ways(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    a = job(tmp_path, "a")
    plan = Plan([a, job(tmp_path / ".." / tmp_path.name, "b", "a")], Recorder())
    finish(plan, a)
    assert names(plan.ready()) == ["b"]


def test_a_job_that_leaves_no_result_has_failed(tmp_path):
    a = job(tmp_path, "a")
    plan = Plan([a], Recorder())
    plan.begin(a)
    plan.ended(a, None)
    error = plan.outcomes[0].error
    assert isinstance(error, RuntimeError)
    assert str(error) == f"{tmp_path / 'a'}: it ended without a whole result.json there, see {tmp_path}/a.output.txt"


def test_jobs_that_wait_for_each_other(tmp_path):
    with pytest.raises(ValueError, match="jobs wait for each other: "):
        Plan([job(tmp_path, "a", "b"), job(tmp_path, "b", "a")], Recorder())


def test_two_jobs_for_one_directory(tmp_path):
    with pytest.raises(ValueError, match=f"several jobs for {tmp_path / 'a'}: each needs a directory of its own"):
        Plan([job(tmp_path, "a"), job(tmp_path, "a", "b")], Recorder())


@pytest.mark.parametrize(
    ("code", "said", "kind", "words"),
    [
        (-9, "", ProcessKilledError, "OUT: its process was killed by SIGKILL (out of memory?)"),
        (-11, "", ProcessKilledError, "OUT: its process was killed by SIGSEGV"),
        (143, "", ProcessKilledError, "OUT: its process was stopped by SIGTERM"),
        (2, "step 1\nactionless: old\nactionless: a.npz: no such file\n", ActionlessError, "a.npz: no such file"),
        (2, "", RuntimeError, "OUT: its process met a bug, see FILE"),
        (255, "", RuntimeError, "OUT: its process met a bug, see FILE"),  # no signal has the number 127
        (1, "actionless: this is a bug", RuntimeError, "OUT: its process met a bug, see FILE"),
    ],
)
def test_exit_codes_in_words(tmp_path, code, said, kind, words):
    asked = job(tmp_path, "a")
    error = exit_error(asked, code, said, tmp_path / "output")
    assert type(error) is kind
    assert str(error) == words.replace("OUT", str(asked.out)).replace("FILE", str(tmp_path / "output"))


def test_lines(tmp_path, capsys):
    """What is said by default: a line for every start and end, with what failed and where to look."""
    a, b, c = job(tmp_path, "a"), job(tmp_path, "b", "a"), job(tmp_path, "c")
    plan = Plan([a, b, c], Lines([a, b, c]))
    plan.begin(a).write_text("actionless: the disk is full: make room\n")
    plan.exited(a, 2)
    finish(plan, c)
    assert capsys.readouterr().err.splitlines() == [
        f"a: started, output in {tmp_path}/a.output.txt",
        f"a: failed (1 of 3): the disk is full: make room; see {tmp_path}/a.output.txt",
        f"b: skipped (2 of 3): it needs {tmp_path}/a, which is not done",
        f"c: started, output in {tmp_path}/c.output.txt",
        "c: done in 0 s (3 of 3)",
    ]


def test_only_what_was_said_since_the_start_is_quoted(tmp_path):
    a = job(tmp_path, "a")
    plan = Plan([a], Recorder())
    a.output.write_text("actionless: of an earlier call\n")
    plan.begin(a)
    plan.exited(a, 2)
    assert "its process met a bug" in str(plan.outcomes[0].error)
