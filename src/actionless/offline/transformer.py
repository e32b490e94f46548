"""The network of AFDT: a causal transformer over states and the returns still wanted of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray


class Linear(eqx.Module):
    """A layer of rows."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    @classmethod
    def create(cls, inputs: int, outputs: int, key: PRNGKeyArray) -> "Linear":
        """Uniform in ±1/√inputs, as every other network here."""
        draw = jax.random.uniform(key, (inputs + 1, outputs), minval=-1.0, maxval=1.0) * inputs**-0.5
        return cls(draw[:-1], draw[-1])

    def __call__(self, x: Float[Array, "windows tokens inputs"]) -> Float[Array, "windows tokens outputs"]:
        """x W + b. As one product: XLA takes many times as long for the gradient of a batch of them."""
        rows = x.reshape(-1, x.shape[2]) @ self.weight + self.bias[None]
        return rows.reshape(*x.shape[:2], len(self.bias))


class LayerNorm(eqx.Module):
    """Each token shifted and scaled to mean 0 and spread 1, then as is learnt."""

    scale: Float[Array, " width"]
    shift: Float[Array, " width"]

    @classmethod
    def create(cls, width: int) -> "LayerNorm":
        """Mean 0 and spread 1."""
        return cls(jnp.ones(width), jnp.zeros(width))

    def __call__(self, x: Float[Array, "windows tokens width"]) -> Float[Array, "windows tokens width"]:
        """The tokens, each by itself."""
        return jax.nn.standardize(x, axis=2) * self.scale[None, None] + self.shift[None, None]


class Block(eqx.Module):
    """Attention with one head, then a layer four times as wide; each adds to what it is given."""

    before_attention: LayerNorm
    attended: Linear
    mixed: Linear
    before_widening: LayerNorm
    widened: Linear
    narrowed: Linear

    @classmethod
    def create(cls, width: int, key: PRNGKeyArray) -> "Block":
        """A block that has learnt nothing."""
        keys = jax.random.split(key, 4)
        return cls(
            before_attention=LayerNorm.create(width),
            attended=Linear.create(width, 3 * width, keys[0]),
            mixed=Linear.create(width, width, keys[1]),
            before_widening=LayerNorm.create(width),
            widened=Linear.create(width, 4 * width, keys[2]),
            narrowed=Linear.create(4 * width, width, keys[3]),
        )

    def __call__(
        self,
        x: Float[Array, "windows tokens width"],
        visible: Bool[Array, "windows tokens tokens"],
        dropout: float,
        key: PRNGKeyArray | None,
    ) -> Float[Array, "windows tokens width"]:
        """Tokens after they have looked at those they may look at."""
        keys = (None, None) if key is None else jax.random.split(key)
        query, looked_at, told = jnp.split(self.attended(self.before_attention(x)), 3, axis=2)
        closeness = jnp.einsum("wtd,wsd->wts", query, looked_at) * x.shape[2] ** -0.5
        share = jax.nn.softmax(jnp.where(visible, closeness, jnp.finfo(jnp.float32).min), axis=2)
        x = x + dropped(self.mixed(jnp.einsum("wts,wsd->wtd", share, told)), dropout, keys[0])
        wide = jax.nn.gelu(self.widened(self.before_widening(x)))
        return x + dropped(self.narrowed(wide), dropout, keys[1])


class PlanNetwork(eqx.Module):
    """Reads s₁ R₁ s₂ R₂ … and says at each R what the next change of state will be, in units of the log's spread."""

    state: Linear
    to_go: Linear
    time: Float[Array, "times width"]
    """What is added to the tokens of a step, for the number that the step has in its episode."""
    entry: LayerNorm
    blocks: tuple[Block, ...]
    exit: LayerNorm
    change: Linear

    @classmethod
    def create(cls, state_dim: int, longest: int, width: int, blocks: int, key: PRNGKeyArray) -> "PlanNetwork":
        """A network that has learnt nothing, for episodes of up to `longest` steps; later ones count as the last."""
        keys = jax.random.split(key, 4 + blocks)
        return cls(
            state=Linear.create(state_dim, width, keys[0]),
            to_go=Linear.create(1, width, keys[1]),
            time=0.02 * jax.random.normal(keys[2], (longest, width)),
            entry=LayerNorm.create(width),
            blocks=tuple(Block.create(width, block_key) for block_key in keys[4:]),
            exit=LayerNorm.create(width),
            change=Linear.create(width, state_dim, keys[3]),
        )

    def __call__(
        self,
        z: Float[Array, "windows steps dim"],
        to_go: Float[Array, "windows steps"],
        times: Int[Array, "windows steps"],
        dropout: float = 0.0,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "windows steps dim"]:
        """The next change at each step, from that step and those before it.

        Steps before an episode's first fill a window up to its length: nobody looks at them. With a key, a share
        `dropout` of what each layer adds is left out.
        """
        windows, steps, _ = z.shape
        when = self.time[jnp.clip(times, 0, len(self.time) - 1)]
        tokens = jnp.stack([self.state(z) + when, self.to_go(to_go[:, :, None]) + when], axis=2)
        keys = [None] * (1 + len(self.blocks)) if key is None else list(jax.random.split(key, 1 + len(self.blocks)))
        x = dropped(self.entry(tokens.reshape(windows, 2 * steps, len(self.exit.scale))), dropout, keys[0])
        visible = visible_tokens(times)
        for block, block_key in zip(self.blocks, keys[1:], strict=True):
            x = block(x, visible, dropout, block_key)
        return self.change(self.exit(x[:, 1::2]))


def is_step(times: Int[Array, "windows steps"]) -> Bool[Array, "windows steps"]:
    """False for padding before the episode starts."""
    steps = times.shape[1]
    before_last = jnp.arange(steps - 1, -1, -1, dtype=times.dtype)
    return times[:, -1:] >= before_last[None]


def visible_tokens(times: Int[Array, "windows steps"]) -> Bool[Array, "windows tokens tokens"]:
    """Who may look at whom: at itself and at what was there before, within the episode."""
    inside = jnp.repeat(is_step(times), 2, axis=1)
    tokens = inside.shape[1]
    causal = jnp.tril(jnp.ones((tokens, tokens), bool))
    # Every token sees itself, or one outside the episode would see nothing and have no number at all.
    return (causal[None] & inside[:, None]) | jnp.eye(tokens, dtype=bool)[None]


def dropped(x: Float[Array, "..."], share: float, key: PRNGKeyArray | None) -> Float[Array, "..."]:
    """Without a random share of its numbers, the others larger for it; all of them where there is no key."""
    if key is None or share == 0:
        return x
    return jnp.where(jax.random.bernoulli(key, 1 - share, x.shape), x / (1 - share), 0.0)
