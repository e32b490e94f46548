import jax
import pytest

from actionless.errors import ActionlessError
from actionless.online.agent import Spec
from actionless.online.agents import SCALES, create_agent, preset
from actionless.online.decqn import Decqn, DecqnConfig
from actionless.online.sac import Sac, SacConfig
from actionless.online.td3 import Td3, Td3Config


def test_the_paper_scale_is_the_papers():
    scale = SCALES["paper"]
    assert (scale.steps, scale.batch_size) == (1_000_000, 256)
    td3 = Td3Config(
        hidden=(512, 512, 512),
        learning_rate=5e-4,
        discount=0.99,
        n_step=1,
        target_rate=1e-3,
        policy_noise=0.2,
        policy_noise_limit=0.5,
        policy_delay=2,
        exploration_noise=0.1,
    )
    decqn = DecqnConfig(
        ensemble=5,
        hidden=(512, 512, 512),
        learning_rate=5e-4,
        discount=0.99,
        n_step=3,
        target_rate=1e-3,
        epsilon=1.0,
        epsilon_decay=0.999,
        epsilon_floor=0.05,
    )
    assert preset("td3", "paper") == td3
    assert preset("decqn", "paper") == decqn
    assert preset("sac", "paper") == SacConfig((512, 512, 512), 3e-4, 0.99, 1, 1e-3)


@pytest.mark.parametrize("name, bins, kind", [("td3", None, Td3), ("sac", None, Sac), ("decqn", 3, Decqn)])
def test_a_config_knows_its_agent(name, bins, kind):
    agent = create_agent(Spec(2, 1, bins), preset(name, "smoke"), jax.random.key(0))
    assert isinstance(agent, kind)
    assert agent.config.hidden == (32, 32)


@pytest.mark.parametrize("name", ["td3", "sac"])
def test_continuous_agents_refuse_bins(name):
    with pytest.raises(ActionlessError, match="these have 3 choices: use an agent for discrete actions"):
        create_agent(Spec(2, 1, 3), preset(name, "smoke"), jax.random.key(0))
