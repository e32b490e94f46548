"""What training gives: the part of an agent that acts, on disk and back."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Real, Shaped

from actionless.errors import ActionlessError
from actionless.offline import policy_files
from actionless.old_runs import upgraded_policy
from actionless.online.action_translation import Translation
from actionless.online.agent import Agent, AgentSettings, Behaviour, Spec, best_actions
from actionless.online.agents import create_agent
from actionless.online.environments import Environment
from actionless.settings import from_json, to_json
from actionless.trees import pack, unpack


@dataclass(frozen=True, eq=False)
class AgentPolicy:
    """Acts as a trained agent does at its best, in the environment's own actions: no exploration, no guide."""

    behaviour: Behaviour
    exploration: Any
    """What exploration remembers, for those who want the agent to go on exploring."""
    agent: str
    config: AgentSettings
    spec: Spec
    environment: str
    translation: Translation
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        agent: Agent,
        exploration: Any,
        name: str,
        config: AgentSettings,
        environment: Environment,
        provenance: Mapping[str, Any],
    ) -> "AgentPolicy":
        """What an agent has learnt so far."""
        translation = environment.translation
        return cls(agent.behaviour, exploration, name, config, agent.spec, environment.name, translation, provenance)

    def act(self, states: Real[np.ndarray, "*batch dim"]) -> Shaped[np.ndarray, "..."] | np.integer:
        """The best action for one state or a batch, as the environment's `step` takes it."""
        if states.shape[-1:] != (self.spec.state_dim,):
            raise ActionlessError(
                f"states of shape {states.shape}: the agent was trained on {self.spec.state_dim} numbers per state"
            )
        actions = best_actions(self.behaviour, states.reshape(-1, self.spec.state_dim))
        return self.translation(actions.reshape(*states.shape[:-1], self.spec.action_dim))

    def save(self, directory: str | Path) -> None:
        """Write the agent so that it loads without the environment."""
        arrays, _ = pack((self.behaviour, self.exploration))
        description = {
            "kind": "agent",
            "method": self.agent,
            "config": to_json(self.config),
            "spec": dataclasses.asdict(self.spec),
            "environment": self.environment,
            "translation": to_json(self.translation),
            "provenance": dict(self.provenance),
        }
        policy_files.write(Path(directory), description, arrays)

    @classmethod
    def load(cls, directory: str | Path) -> "AgentPolicy":
        """The agent that was saved there, or that a run directory holds."""
        description, arrays = policy_files.read(Path(directory))
        description = upgraded_policy(description)
        if description["kind"] != "agent":
            raise ActionlessError(
                f"{directory}: holds a policy of {description['method']}, no agent: "
                "give a run of `actionless train` or `finetune`"
            )
        spec = Spec(**description["spec"])
        config = from_json(AgentSettings, description["config"], str(directory))
        template = create_agent(spec, config, jax.random.key(0))
        behaviour, exploration = unpack((template.behaviour, template.exploration()), arrays, {}, Path(directory))
        return cls(
            behaviour=behaviour,
            exploration=exploration,
            agent=description["method"],
            config=config,
            spec=spec,
            environment=description["environment"],
            translation=from_json(Translation, description["translation"], str(directory)),
            provenance=description["provenance"],
        )
