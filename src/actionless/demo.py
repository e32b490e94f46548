"""The demo: pre-train on a small bundled log, train agents alone and guided, write a report."""

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

ENVIRONMENT = "HalfCheetah-v5"
LOG = Path(__file__).with_name("demo_log.parquet")

Say = Callable[[str], None]
SAY = partial(print, flush=True)
"""Flushed at once, to keep the order with the runs' progress, which goes to another stream."""


@dataclass(frozen=True)
class Size:
    """Sizes of the demo; experiments/demo/README.md says how they were chosen."""

    updates: int
    """Updates of the state policy and its values."""
    steps: int
    """Steps of each agent."""
    random_steps: int
    """Random steps at the start."""
    seeds: int
    """Number of agents of each kind."""
    evaluations: int
    """Evaluations of each agent, evenly spaced."""
    episodes: int
    """Episodes of each evaluation."""


FULL = Size(updates=3_000, steps=20_000, random_steps=1_000, seeds=4, evaluations=10, episodes=3)
QUICK = Size(updates=300, steps=1_000, random_steps=100, seeds=2, evaluations=4, episodes=1)


def demo(out: Path, size: Size = FULL, *, overwrite: bool = False, say: Say = SAY) -> Path:
    """Run the demo in `out` and return the path of the report."""
    if out.exists() and not overwrite:
        raise ActionlessError(f"{out} already exists: choose another --out, or replace it with --overwrite")
    policy, alone, guided, page = out / "state-policy", out / "alone", out / "guided", out / "report.html"
    for run in (policy, alone, guided):
        remove_run(run)
    log = read(LOG)
    say(f"1/4 A log of {ENVIRONMENT}: {len(log):,} steps of {log.state_dim} variables and a reward, no actions.\n")
    pretraining = ("--out", str(policy), "--method", "iql-delta", "--hidden", "128,128", "--steps", str(size.updates))
    # One after the other: if one fails, the others make no sense. All see states in the log's units, so that they
    # differ in guidance alone.
    jobs = [
        Job(policy, ("pretrain", str(LOG), *pretraining)),
        Job(alone, (*_training(alone, size, policy), "--guidance=normalise"), after=(policy,)),
        Job(guided, (*_training(guided, size, policy), "--inverse-hidden=64,64"), after=(policy, alone)),
    ]
    headings = {
        policy: "2/4 Pre-training: what is each state worth, and in which direction should each variable move?",
        alone: f"3/4 Training {size.seeds} agents (SAC) without the log, {size.steps:,} steps each",
        guided: f"\n4/4 Training {size.seeds} agents, guided by the log's values and by its steps",
    }
    error = worst_error(Inline().run(jobs, _Story(headings, policy, np.asarray(log.states[:1]), say)))
    if error is not None:
        raise error
    report([policy, alone, guided], page, overwrite=overwrite)
    say(f"\n{_outcome(returns(alone), returns(guided), size)}\nReport: {page}")
    return page


def _training(out: Path, size: Size, policy: Path) -> tuple[str, ...]:
    evaluate_every = size.steps // size.evaluations
    options = {
        "out": out,
        "guide": policy,
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
    return ("train", ENVIRONMENT, *(f"--{name}={value}" for name, value in options.items()))


@dataclass(frozen=True)
class _Story(Watch):
    """Prints a heading when a job starts, and an example when the state policy is trained."""

    headings: dict[Path, str]
    policy: Path
    state: Float[np.ndarray, "1 dim"]
    say: Say

    def started(self, job: Job) -> None:
        """Print the heading of this part."""
        self.say(self.headings[job.out])

    def ended(self, outcome: Outcome) -> None:
        """Print an example of a proposal."""
        if outcome.job.out == self.policy and outcome.is_done:
            self.say(_example(StatePolicy.load(self.policy), self.state))

    def waiting(self) -> None:
        """The runs show their own progress."""


def returns(run: Path) -> Float[np.ndarray, "seeds evaluations"]:
    """Return of each seed of a run at each evaluation."""
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
    """The table of results, with one sentence that compares the two groups."""
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
