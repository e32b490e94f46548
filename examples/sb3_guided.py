"""The same agent of Stable-Baselines3 twice, alone and guided by a state policy; prints both returns.

    pip install 'actionless[sb3]'
    actionless pretrain hopper_medium-v2.hdf5 --out runs/hopper
    python examples/sb3_guided.py Hopper-v5 runs/hopper --steps 50000

One seed says little: compare several before you believe a difference.
"""

import argparse

from stable_baselines3 import SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

from actionless.guidance.sb3 import GuideCallback


def main() -> None:
    """Train both and print their returns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", help="a Gymnasium id")
    parser.add_argument("policy", help="the run of a state policy, from `actionless pretrain`")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=10, help="of the evaluation, without the guide")
    asked = parser.parse_args()

    for name, callback in {"alone": None, "guided": GuideCallback(asked.policy)}.items():
        model = SAC("MlpPolicy", asked.environment, seed=asked.seed)
        model.learn(asked.steps, callback=callback)
        mean, std = evaluate_policy(model, make_vec_env(asked.environment, seed=asked.seed), asked.episodes)
        print(f"{name:6}  return {mean:.1f} ± {std:.1f} over {asked.episodes} episodes")


if __name__ == "__main__":
    main()
