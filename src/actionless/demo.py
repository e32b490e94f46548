"""The whole way on a small bundled log: pre-train, train agents alone and guided, report."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float

from actionless.analysis.statistics import mean_and_error
from actionless.data.read import read
from actionless.errors import ActionlessError
from actionless.execution.inline import Inline
from actionless.execution.job import Job
from actionless.execution.outcome import Outcome, worst_error
from actionless.execution.watch import Watch
from actionless.offline.state_policy import StatePolicy
from actionless.reporting.report import report
from actionless.runs.directory import remove_run
from actionless.runs.sinks import read_rows

TASK = "HalfCheetah-v5"
LOG = Path(__file__).with_name("demo_log.parquet")

Say = Callable[[str], None]
SAY = partial(print, flush=True)
"""At once: the runs' progress goes to another stream, which would overtake it in a pipe."""


@dataclass(frozen=True)
class Size:
    """How much of everything; experiments/demo/README.md says how it was picked."""

    updates: int
    """Of the state policy."""
    steps: int
    """Of each agent."""
    random_steps: int
    """Of these, the first: at random, and without the guide, whose half of the run they must leave room in."""
    seeds: int
    """Agents of each kind."""
    evaluations: int
    """Of each agent, evenly spaced."""
    episodes: int
    """Of each evaluation."""


FULL = Size(updates=5_000, steps=25_000, random_steps=1_000, seeds=4, evaluations=10, episodes=3)
QUICK = Size(updates=300, steps=1_000, random_steps=100, seeds=2, evaluations=4, episodes=1)


def demo(out: Path, size: Size = FULL, *, overwrite: bool = False, say: Say = SAY) -> Path:
    """Go the whole way in `out`; the report's path is returned."""
    if out.exists() and not overwrite:
        raise ActionlessError(f"{out} exists: --overwrite runs the demo in it anew, another --out leaves it alone")
    policy, alone, guided, page = out / "state-policy", out / "alone", out / "guided", out / "report.html"
    for run in (policy, alone, guided):
        remove_run(run)
    log = read(LOG)
    say(f"1/4 A log of {TASK}: {len(log):,} steps of {log.state_dim} variables and a reward. No actions are in it.\n")
    # One after the other: where one fails, there is no point in those that follow.
    jobs = [
        Job(policy, ("pretrain", str(LOG), "--out", str(policy), "--steps", str(size.updates), "--hidden", "128,128")),
        Job(alone, _training(alone, size), after=(policy,)),
        Job(guided, (*_training(guided, size), "--guide", str(policy)), after=(policy, alone)),
    ]
    headings = {
        policy: "2/4 Pre-training a state policy: which way should each variable move from here?",
        alone: f"3/4 Training {size.seeds} agents (SAC) that know nothing of the log, {size.steps:,} steps each",
        guided: f"\n4/4 Training {size.seeds} agents that the state policy guides in the first half of their steps",
    }
    error = worst_error(Inline().run(jobs, _Story(headings, policy, np.asarray(log.states[:1]), say)))
    if error is not None:
        raise error
    report([policy, alone, guided], page, overwrite=overwrite)
    say(f"\n{_outcome(returns(alone), returns(guided), size)}\nReport: {page}")
    return page


def _training(out: Path, size: Size) -> tuple[str, ...]:
    evaluate_every = size.steps // size.evaluations
    options = {
        "out": out,
        "agent": "sac",
        "steps": size.steps,
        "seeds": size.seeds,
        "batch-size": 128,
        "warm-up": size.random_steps,
        "hidden": "64,64",
        "learning-rate": 5e-4,
        "log-every": evaluate_every // 10,
        "evaluate-every": evaluate_every,
        "episodes": size.episodes,
    }
    return ("train", TASK, *(f"--{name}={value}" for name, value in options.items()))


@dataclass(frozen=True)
class _Story(Watch):
    """What is said as the jobs start, and what the state policy proposes once it is there."""

    headings: dict[Path, str]
    policy: Path
    state: Float[np.ndarray, "1 dim"]
    say: Say

    def started(self, job: Job) -> None:
        """The heading of this part."""
        self.say(self.headings[job.out])

    def ended(self, outcome: Outcome) -> None:
        """An example of what was learnt."""
        if outcome.job.out == self.policy and outcome.is_done:
            self.say(_example(StatePolicy.load(self.policy), self.state))

    def waiting(self) -> None:
        """The runs show their own progress."""


def returns(run: Path) -> Float[np.ndarray, "seeds evaluations"]:
    """What the agents of a run returned at each of their evaluations."""
    return np.array(
        [
            [row["eval/return"] for row in read_rows(seed / "metrics.jsonl") if "eval/return" in row]
            for seed in sorted(run.glob("seed-*"))
        ]
    )


def _example(policy: StatePolicy, state: Float[np.ndarray, "1 dim"]) -> str:
    arrows = {-1: "↓", 0: "=", 1: "↑"}
    moves = zip(policy.state_names, policy.propose(state)[0].tolist(), strict=True)
    return f"From the log's first state: {' '.join(f'{name}{arrows[move]}' for name, move in moves)}\n"


def _outcome(
    alone: Float[np.ndarray, "seeds evaluations"], guided: Float[np.ndarray, "seeds evaluations"], size: Size
) -> str:
    """What came out, whatever it is."""
    lines = [f"{f'return in evaluation, mean ± s.e. of {size.seeds}':<40}{'alone':>14}{'guided':>14}"]
    for title, part in (("all evaluations", slice(None)), ("last three evaluations", slice(-3, None))):
        shown = [mean_and_error(runs[:, part].mean(axis=1)) for runs in (alone, guided)]
        lines.append(f"{title:<40}" + "".join(f"{f'{mean:,.0f} ± {error:,.0f}':>14}" for mean, error in shown))
    return "\n".join([*lines, f"Over all evaluations, {_compared(alone.mean(axis=1), guided.mean(axis=1))}."])


def _compared(alone: Float[np.ndarray, " seeds"], guided: Float[np.ndarray, " seeds"]) -> str:
    if guided.min() > alone.max():
        return "every guided agent is above every one alone"
    if guided.max() < alone.min():
        return "every guided agent is below every one alone"
    return f"the seeds overlap: in {(guided[:, None] > alone).mean():.0%} of pairs the guided agent is above"
