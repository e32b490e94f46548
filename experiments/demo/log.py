"""Makes the demo's log: states and rewards of a SAC agent of ours on HalfCheetah-v5, no actions.

    python experiments/demo/log.py FOLDER

FOLDER keeps the training run and the recording with its actions. The log is written to src/actionless/demo_log.parquet.
Seven minutes on one core.
"""

import argparse
import dataclasses
from pathlib import Path

import actionless
from actionless.data.convert import convert

TASK, SEED, TRAIN_STEPS, STEPS = "HalfCheetah-v5", 7, 80_000, 20_000
JOINTS = ("back_thigh", "back_shin", "back_foot", "front_thigh", "front_shin", "front_foot")
NAMES = ("height", "pitch", *JOINTS, "forward", "upward", "pitching", *(f"{joint}_turning" for joint in JOINTS))
"""Gymnasium's order: positions, then velocities."""
LOG = Path(__file__).parents[2] / "src" / "actionless" / "demo_log.parquet"


def main() -> None:
    """Train, record, leave out the actions, name the variables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    run, recording = folder / "agent", folder / "recording.hdf5"
    if not (run / "result.json").exists():
        actionless.train(
            TASK,
            run,
            agent="sac",
            steps=TRAIN_STEPS,
            batch_size=128,
            seed=SEED,
            hidden=(128, 128),
            learning_rate=1e-3,
            snapshots=True,
        )
    actionless.record(
        TASK, recording, level="expert", steps=STEPS, run=run, agent="sac", train_steps=TRAIN_STEPS, seed=SEED
    )
    log = dataclasses.replace(actionless.read(recording), state_names=NAMES)
    convert(log, LOG, overwrite=True)


if __name__ == "__main__":
    main()
