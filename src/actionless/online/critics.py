"""Critics of states and continuous actions: what all agents with continuous actions share."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from actionless.errors import ActionlessError
from actionless.networks import Ensemble
from actionless.online.agent import Spec, Transitions
from actionless.updates import Metrics


class Critics(eqx.Module):
    """Independent estimates of Q(s, a), two unless more are asked for; the smallest of them is the safest target."""

    networks: Ensemble

    @classmethod
    def create(
        cls, spec: Spec, hidden: Sequence[int], key: PRNGKeyArray, *, count: int = 2, layer_norm: bool = False
    ) -> "Critics":
        """Critics that have learnt nothing."""
        if spec.bins is not None:
            raise ActionlessError(
                f"this agent needs continuous actions, and these have {spec.bins} choices: use an agent for discrete "
                "actions"
            )
        sizes = (spec.state_dim + spec.action_dim, *hidden, 1)
        return cls(Ensemble.create(count, sizes, key, layer_norm=layer_norm))

    @property
    def first(self) -> "Critics":
        """The first critic alone."""
        return Critics(jax.tree.map(lambda weights: weights[:1], self.networks))

    def __call__(
        self, states: Float[Array, "batch dim"], actions: Float[Array, "batch actions"]
    ) -> Float[Array, "critics batch"]:
        """Each critic's Q(s, a)."""
        return self.networks(jnp.concatenate([states, actions], axis=1))[..., 0]


def critic_loss(
    critics: Critics, batch: Transitions, target: Float[Array, " batch"]
) -> tuple[Float[Array, ""], Metrics]:
    """The squared error of each critic against the shared target."""
    q = critics(batch.states, batch.actions)
    loss = jnp.square(q - target[None]).mean(axis=1).sum()
    return loss, {"loss": loss, "q_mean": q.mean()}
