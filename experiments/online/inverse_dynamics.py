"""How good an inverse dynamics model becomes on the way, and what its updates and the log's term do to it.

    python experiments/online/inverse_dynamics.py RUN POLICY LABELLED --out inverse_dynamics-hopper.csv

Lets a fresh model live through the first transitions of a finished `train` run again, and measures the mean absolute
error of its actions: on the 2,000 transitions that follow, and on LABELLED, the state policy's log with its actions,
which nothing learns from. The agent that fills in the log's actions is the run's last one.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import actionless
from actionless.data.log import Log
from actionless.guidance.guide import Guide, GuideConfig
from actionless.guidance.idm import IdmConfig
from actionless.guidance.schedule import Fixed
from actionless.offline.state_policy import StatePolicy
from actionless.online.agent_policy import AgentPolicy
from actionless.online.replay import Replay
from actionless.training.train import replay_of

TRANSITIONS, WARM_UP, TOGETHER, MEASURED_EVERY, AHEAD = 25_000, 1_000, 20, 5_000, 2_000
CONFIGS = [GuideConfig(IdmConfig(every=every), bootstrap) for bootstrap in (True, False) for every in (1, 2, 4)]


def measured(
    config: GuideConfig, replay: Replay, agent: AgentPolicy, policy: StatePolicy, log: Log
) -> Iterator[dict[str, float]]:
    """One row for each measurement."""
    chosen = np.sort(np.random.default_rng(0).integers(0, len(log), AHEAD))
    logged = [np.asarray(part[chosen]) for part in (log.states, log.next_states, log.actions)]
    guide = Guide.create(
        policy,
        action_dim=replay.actions.shape[1],
        steps=TRANSITIONS,
        log=log,
        schedule=Fixed(1.0),
        config=config,
    )

    def error(states: np.ndarray, next_states: np.ndarray, actions: np.ndarray) -> float:
        discretiser = policy.model.discretiser
        delta = discretiser.index(discretiser.difference(states, next_states))
        normalised = discretiser.normaliser.normalise(states).astype(np.float32)
        return float(np.abs(guide.state.learning.learner.act(normalised, delta) - actions).mean())

    for step in range(TRANSITIONS):
        guide.observe(replay.states[step], replay.actions[step], 0.0, replay.next_states[step], step)
        lived = step + 1
        if lived > WARM_UP and lived % TOGETHER == 0:
            guide.learn(lived - TOGETHER, lived, agent.act)
        if lived % MEASURED_EVERY == 0:
            ahead = slice(lived, lived + AHEAD)
            yield {
                "transitions": lived,
                "error_ahead": error(replay.states[ahead], replay.next_states[ahead], replay.actions[ahead]),
                "error_on_log": error(*logged),
                "from_agent_on_log": error(logged[0], logged[1], agent.act(logged[0])),
            }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("policy", type=Path)
    parser.add_argument("labelled", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    replay, agent = replay_of(asked.run), AgentPolicy.load(asked.run)
    policy, log = StatePolicy.load(asked.policy), actionless.read(asked.labelled, with_actions=True)
    same_action = np.abs(log.actions - np.median(log.actions, axis=0)).mean()
    print(f"one and the same action for the whole log: {same_action:.3f}")
    with asked.out.open("w", newline="") as file:
        writer = None
        for config in CONFIGS:
            for row in measured(config, replay, agent, policy, log):
                row = {"bootstrap": config.bootstrap, "steps_per_update": config.idm.every} | {
                    name: round(value, 3) for name, value in row.items()
                }
                if writer is None:
                    writer = csv.DictWriter(file, row, lineterminator="\n")
                    writer.writeheader()
                writer.writerow(row)
                print(row, flush=True)


if __name__ == "__main__":
    main()
