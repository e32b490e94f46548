"""Guidance for the off-policy agents of Stable-Baselines3 (TD3, SAC, DDPG and similar agents).

The model's own loop stays in charge. `GuideCallback` is the switch: what changes while the model learns is
`_sample_action`, the one method through which an action reaches the environment and the replay buffer alike; a callback
alone sees an action only after it was taken. `RelabelBuffer` is a replay buffer whose samples hold rows of the log. The
potential is a wrapper of the environment, `actionless.PotentialReward`, and goes with both.
"""

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import NormalizeObservation
from jaxtyping import Float, Real

from actionless.data.environment_match import warn_if_unfamiliar
from actionless.data.log import Log
from actionless.errors import ActionlessError, require_extra
from actionless.guidance.guide import Guide, GuideConfig
from actionless.guidance.interface import Draw, LogRows, OwnSteps
from actionless.guidance.potential import NEXT_POTENTIAL, POTENTIAL
from actionless.guidance.potential_reward import TRUE_REWARD, PotentialReward, Shaping
from actionless.guidance.relabel import Relabel, RelabelSettings
from actionless.guidance.schedule import Schedule
from actionless.offline.log_origin import log_of, require_log_of
from actionless.offline.state_policy import StatePolicy
from actionless.online.agent import Spec
from actionless.online.replay import Column

require_extra("stable_baselines3", "sb3", "guiding an agent of Stable-Baselines3")
from stable_baselines3.common.buffers import ReplayBuffer  # noqa: E402  # pyright: ignore[reportMissingImports]
from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402  # pyright: ignore[reportMissingImports]
from stable_baselines3.common.off_policy_algorithm import (  # noqa: E402  # pyright: ignore[reportMissingImports]
    OffPolicyAlgorithm,
)
from stable_baselines3.common.type_aliases import (  # noqa: E402  # pyright: ignore[reportMissingImports]
    ReplayBufferSamples,
)
from stable_baselines3.common.vec_env import (  # noqa: E402  # pyright: ignore[reportMissingImports]
    VecNormalize,
    unwrap_vec_normalize,
)


class GuideCallback(BaseCallback):
    """Guides a model of Stable-Baselines3 while it learns.

        model = SAC("MlpPolicy", "HalfCheetah-v5")
        model.learn(50_000, callback=GuideCallback("runs/halfcheetah"))

    `policy` is the run (or the directory) of a state policy, whose log is read again unless given. Without a schedule
    β falls as in the paper over the steps that `learn` is asked for, and guidance ends halfway. Without a seed, the
    model's. While the model takes its first, random steps the guide is silent.

    A callback that is used again continues with its guide where `learn` continues (`reset_num_timesteps=False`), and
    begins a new one where `learn` begins anew. In an environment inside `PotentialReward` the guide sees the states
    and rewards of the environment itself.
    """

    guide: Guide | None = None
    """What guides: there once `learn` has begun."""

    def __init__(
        self,
        policy: str | Path | StatePolicy,
        *,
        schedule: Schedule | None = None,
        log: Log | None = None,
        config: GuideConfig | None = None,
        seed: int | None = None,
    ):
        super().__init__()
        self._where = "the state policy" if isinstance(policy, StatePolicy) else str(policy)
        self._policy = policy if isinstance(policy, StatePolicy) else StatePolicy.load(policy)
        if config is not None and config.choice is not None:
            raise ActionlessError(
                f"choice={config.choice}: the critic's choice needs an agent of `actionless train`; leave it out here"
            )
        self._schedule, self._log, self._config, self._seed = schedule, log, config or GuideConfig(), seed
        self._shaping: Shaping | None = None

    def _init_callback(self) -> None:
        """Refuse a model that cannot be guided, before it does anything."""
        _check(self.model, self._policy, self._where)
        environment = self.model.get_env()
        shaped = all(environment.env_is_wrapped(PotentialReward))
        self._shaping = environment.get_attr("shaping", 0)[0] if shaped else None

    def _on_training_start(self) -> None:
        if self.guide is None or self.model.num_timesteps == 0:
            self.guide = self._begin()
        self._follow()

    def _on_training_end(self) -> None:
        self._leave()

    def _on_step(self) -> bool:
        """Take in what happened in each environment, which the model has yet to store."""
        assert self.guide is not None
        first, states = self.model.num_timesteps - self.model.n_envs, self._states()
        # Scaling to the limits and back may end one rounding beyond them.
        actions, rewards = np.clip(self.locals["buffer_actions"], -1, 1), self._rewards()
        for i in range(self.model.n_envs):
            next_state = self._next_state(i)
            if next_state is None:
                continue
            if self.model.n_envs > 1:
                # The guide knows one proposal at a time: asked again, it gives the same.
                self._propose(states[i], first, i)
            self.guide.observe(states[i], actions[i], float(rewards[i]), next_state, first + i)
        self._learn(first)
        if self.locals["dones"].any():
            self._report()
        return True

    def _begin(self) -> Guide:
        log = self._log
        if self._config.bootstrap and log is None:
            log = log_of(self._policy, self._where)
        seed = self.model.seed if self._seed is None else self._seed
        guide = Guide.create(
            self._policy,
            action_dim=self.model.action_space.shape[0],
            steps=self.locals["total_timesteps"],
            log=log if self._config.bootstrap else None,
            schedule=self._schedule,
            config=self._config,
            seed=0 if seed is None else seed,
        )
        if guide.log is not None:
            warn_if_unfamiliar(guide.log, self._states()[0], "the model's environment")
        return guide

    def _follow(self) -> None:
        """Let the model take the guide's actions until this call of `learn` is over."""
        self._leave()
        model, began = self.model, self.model.start_time
        sample, excluded = model._sample_action, model._excluded_save_params

        def guided(*arguments: Any, **named: Any) -> tuple[np.ndarray, np.ndarray]:
            # The model draws its own actions first, so its random numbers are those of a model without a guide.
            actions, scaled = sample(*arguments, **named)
            # A call of `learn` that an error or Ctrl-C cut short never says that it ended.
            return (actions, scaled) if model.start_time != began else self._guided(actions, scaled)

        model._sample_action = guided
        # A model saves all its attributes but these.
        model._excluded_save_params = lambda: [*excluded(), "_sample_action", "_excluded_save_params"]

    def _leave(self) -> None:
        """The model as its class made it."""
        vars(self.model).pop("_sample_action", None)
        vars(self.model).pop("_excluded_save_params", None)

    def _guided(self, actions: np.ndarray, scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The actions for the environments and for the replay buffer, the guide's where it is the guide's turn."""
        for i, state in enumerate(self._states()):
            proposal = self._propose(state, self.model.num_timesteps, i)
            if proposal is not None:
                scaled[i], actions[i] = proposal, self.model.policy.unscale_action(proposal)
        return actions, scaled

    def _propose(
        self, state: Real[np.ndarray, " dim"], first: int, environment: int
    ) -> Float[np.ndarray, " actions"] | None:
        """The guide's action in one of the environments, of which the first takes step `first`."""
        assert self.guide is not None
        return None if first < self.model.learning_starts else self.guide.propose(state, first + environment)

    def _learn(self, first: int) -> None:
        """Let the inverse dynamics model learn from these steps, once the model's random steps are over."""
        assert self.guide is not None
        self.guide.learn(max(first, self.model.learning_starts), self.model.num_timesteps, self._best_actions)

    def _states(self) -> Real[np.ndarray, "environments dim"]:
        """As the environment gives them: VecNormalize keeps them beside what it makes of them."""
        normalised = self.model.get_vec_normalize_env() is not None
        return self._unseen(self.model._last_original_obs if normalised else self.model._last_obs)

    def _unseen(self, states: Real[np.ndarray, "*batch dim"]) -> Real[np.ndarray, "*batch dim"]:
        return states if self._shaping is None else self._shaping.unseen(states)

    def _next_state(self, environment: int) -> Real[np.ndarray, " dim"] | None:
        """What the environment gave in this step; None where that cannot be known."""
        normaliser = self.model.get_vec_normalize_env()
        if not self.locals["dones"][environment]:
            next_states = self.locals["new_obs"] if normaliser is None else normaliser.get_original_obs()
            return self._unseen(next_states[environment])
        # The environment already shows the first state of its next episode.
        last = self.locals["infos"][environment].get("terminal_observation")
        if last is None:
            return None
        if normaliser is None:
            return self._unseen(last)
        clipped = normaliser.norm_obs and (np.abs(last) >= normaliser.clip_obs).any()
        return None if clipped else self._unseen(normaliser.unnormalize_obs(last))

    def _rewards(self) -> Real[np.ndarray, " environments"]:
        if self._shaping is not None:
            return np.array([info[TRUE_REWARD] for info in self.locals["infos"]])
        normaliser = self.model.get_vec_normalize_env()
        return self.locals["rewards"] if normaliser is None else normaliser.get_original_reward()

    def _best_actions(self, states: Real[np.ndarray, "batch dim"]) -> Float[np.ndarray, "batch actions"]:
        """What the model would do in these states of the environment, scaled to [-1, 1]."""
        normaliser = self.model.get_vec_normalize_env()
        seen = states if self._shaping is None else self._shaping.seen(states)
        seen = seen if normaliser is None else normaliser.normalize_obs(seen)
        actions, _ = self.model.predict(seen, deterministic=True)
        return np.clip(self.model.policy.scale_action(actions), -1, 1)

    def _report(self) -> None:
        """To the model's own logger, which averages over the episodes of a row."""
        assert self.guide is not None
        for name, value in self.guide.metrics().items():
            # Tables in the terminal have no room for a row per variable, and stop at names that look alike when cut.
            self.logger.record_mean(name, value, exclude="stdout" if name.startswith("guide/realised/") else None)


class RelabelBuffer(ReplayBuffer):
    """A replay buffer whose samples hold rows of a log too, with the actions that the log lacks.

        env = actionless.PotentialReward(gymnasium.make("HalfCheetah-v5"), "runs/halfcheetah")
        model = SAC("MlpPolicy", env, replay_buffer_class=RelabelBuffer, replay_buffer_kwargs={"guide": env})

    `guide` is the run (or the directory) of a state policy, whose log is read again unless given; or the
    `PotentialReward` that the model's environment is wrapped in, whose units and part of the reward the log's rows
    then have too. The actions are recovered by models that learn from the steps that are added.
    """

    def __init__(
        self,
        *arguments: Any,
        guide: str | Path | StatePolicy | PotentialReward,
        log: Log | None = None,
        settings: RelabelSettings | None = None,
        seed: int = 0,
        **named: Any,
    ):
        super().__init__(*arguments, **named)
        self._shaping = guide.shaping if isinstance(guide, PotentialReward) else None
        if isinstance(guide, PotentialReward):
            policy = guide.shaping.policy
        else:
            policy = guide if isinstance(guide, StatePolicy) else StatePolicy.load(guide)
        where = str(guide) if isinstance(guide, str | Path) else "the state policy"
        spec = _spec(self.observation_space, self.action_space, policy, where)
        log = log_of(policy, where) if log is None else log
        require_log_of(policy, log)
        steps = self.buffer_size * self.n_envs
        self.relabel = Relabel(log, policy.model, spec, settings or RelabelSettings(), steps=steps, seed=seed)
        self.relabel.begin({} if self._shaping is None else {POTENTIAL: Column(), NEXT_POTENTIAL: Column()})
        # Of a discount there is only whether it is 0, at terminals: the model applies its own.
        self.relabel.discount = 1.0
        self._observed = self._learnt = self._samples = 0

    def add(
        self,
        obs: np.ndarray,
        next_obs: np.ndarray,
        action: np.ndarray,
        reward: np.ndarray,
        done: np.ndarray,
        infos: list[dict[str, Any]],
    ) -> None:
        """A step of each environment."""
        super().add(obs, next_obs, action, reward, done, infos)
        actions = np.asarray(action).reshape(self.n_envs, self.action_dim)
        if self._shaping is not None:
            obs, next_obs = self._shaping.unseen(obs), self._shaping.unseen(next_obs)
        paid = np.array([info.get(TRUE_REWARD, own) for info, own in zip(infos, reward, strict=True)], np.float64)
        self.relabel.observe_together(OwnSteps(self._observed, obs, actions, paid, next_obs, done.astype(bool)))
        self._observed += len(infos)

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> ReplayBufferSamples:
        """Own steps, of which the first make room for rows of the log."""
        own = super().sample(batch_size, env=env)
        self.relabel.learn(self._learnt, self._observed, _no_actions)
        self._learnt = self._observed
        rows = self.relabel.rows(Draw(self._samples, 1, batch_size, self._columns_of))
        self._samples += 1
        if rows is None:
            return own
        rewards, states, next_states = rows.rewards, rows.states, rows.next_states
        if self._shaping is not None:
            after, before = rows.extra[NEXT_POTENTIAL], rows.extra[POTENTIAL]
            rewards = rewards + np.float32(self._shaping.discount) * rows.discounts * after - before
            states, next_states = self._shaping.seen(states), self._shaping.seen(next_states)
        theirs = ReplayBufferSamples(
            observations=self._normalize_obs(states, env),
            actions=rows.actions,
            next_observations=self._normalize_obs(next_states, env),
            dones=1 - rows.discounts[:, None],
            rewards=self._normalize_reward(rewards[:, None], env),
        )
        for mine, given in zip(own[:5], theirs[:5], strict=True):
            mine[: len(given)] = self.to_torch(given)
        return own

    def _columns_of(self, rows: LogRows) -> dict[str, np.ndarray]:
        if self._shaping is None:
            return {}
        potential = self._shaping.potential
        return {POTENTIAL: potential(rows.states), NEXT_POTENTIAL: potential(rows.next_states)}


def _no_actions(states: np.ndarray) -> np.ndarray:
    """What an agent would do in the log's states, which these models are never asked."""
    raise NotImplementedError(len(states))


def _spec(observations: spaces.Space, actions: spaces.Space, policy: StatePolicy, where: str) -> Spec:
    """What the inverse models must know; whatever they cannot work with is refused."""
    names = policy.state_names
    if not (isinstance(observations, spaces.Box) and observations.shape == (len(names),)):
        raise ActionlessError(
            f"{where}: its log has {len(names)} variables, and the model observes {observations}: "
            "pre-train on a log of this environment"
        )
    if isinstance(actions, spaces.Discrete):
        return Spec(len(names), 1, int(actions.n))
    if isinstance(actions, spaces.Box) and len(actions.shape) == 1:
        return Spec(len(names), actions.shape[0], None)
    raise ActionlessError(
        f"the model's actions are {actions}: to recover them they must be one vector of bounded numbers (Box) or "
        "one choice (Discrete)"
    )


def _check(model: Any, policy: StatePolicy, where: str) -> None:
    kind = type(model).__name__
    if not isinstance(model, OffPolicyAlgorithm):
        raise ActionlessError(
            f"{kind} learns from what it did itself, and a guide acts in its place: "
            "guide an agent that has a replay buffer, such as SAC or TD3"
        )
    if not (isinstance(model.action_space, spaces.Box) and len(model.action_space.shape) == 1):
        raise ActionlessError(
            f"the model's actions are {model.action_space}: a guide of {kind} needs one vector of bounded numbers (Box)"
        )
    if not (isinstance(model.observation_space, spaces.Box) and len(model.observation_space.shape) == 1):
        raise ActionlessError(
            f"the model observes {model.observation_space}: the guide needs the state as one vector (Box), "
            "flatten it (gymnasium.wrappers.FlattenObservation)"
        )
    normaliser = model.get_vec_normalize_env()
    if any(model.get_env().env_is_wrapped(NormalizeObservation)) or (
        normaliser is not None and unwrap_vec_normalize(normaliser.venv) is not None
    ):
        raise ActionlessError(
            "the environment's own states, which the guide needs, are hidden by NormalizeObservation or by a second "
            "VecNormalize: normalise with one VecNormalize, which keeps them"
        )
    dim, names = model.observation_space.shape[0], policy.state_names
    if dim != len(names):
        raise ActionlessError(
            f"{where}: proposes changes of {len(names)} variables ({', '.join(names[:8])}"
            f"{', …' if len(names) > 8 else ''}), and the model observes {dim}: pre-train on a log of this environment"
        )
