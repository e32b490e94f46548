import jax
import pytest

from actionless.offline.imitation import Imitation, ImitationConfig
from actionless.offline.learner import Spec
from actionless.offline.oso_decqn import OsoDecqn, OsoDecqnConfig
from actionless.offline.presets import DEFAULT_ALPHA, PAPER_ALPHA, SCALES, create_learner, data_set, preset


@pytest.mark.parametrize(
    "name, expected",
    [
        ("hopper_medium-v2", "hopper-medium"),
        ("hopper-medium-replay-v2", "hopper-medium-replay"),
        ("hopper_medium_replay-v2", "hopper-medium-replay"),
        ("HalfCheetah_medium_expert-v0", "halfcheetah-medium-expert"),
        ("cheetah-run-medium-expert", "cheetah-run-medium-expert"),
        ("quadruped-walk-random-medium-expert", "quadruped-walk-random-medium-expert"),
        ("mujoco/hopper/expert-v0", None),
        ("patients", None),
    ],
)
def test_a_log_is_known_by_its_name(name, expected):
    assert data_set(name) == expected


def test_the_paper_has_twenty_data_sets():
    assert len(PAPER_ALPHA) == 20
    assert sum(PAPER_ALPHA.values()) == 3 + 8 + 10 + 8 + 2 + 3 + 8 + 8 + 10 + 8 + 8 + 8 + 8 * 5


@pytest.mark.parametrize(
    "method, name, alpha, loss",
    [
        ("oso-decqn", "walker2d_medium_replay-v2", 10.0, "mse"),
        ("oso-decqn", "cheetah-run-medium", 5.0, "huber"),
        ("oso-decqn", "patients", DEFAULT_ALPHA, "mse"),
        ("decqn", "walker2d_medium_replay-v2", 0.0, "mse"),
    ],
)
def test_value_methods(method, name, alpha, loss):
    config = preset(method, SCALES["paper"], name)
    assert isinstance(config, OsoDecqnConfig)
    assert (config.alpha, config.loss) == (alpha, loss)


def test_the_paper_scale_is_the_papers():
    scale = SCALES["paper"]
    config = preset("oso-decqn", scale)
    assert isinstance(config, OsoDecqnConfig)
    assert (scale.steps, scale.batch_size) == (3_000_000, 256)
    assert (config.ensemble, config.hidden, config.learning_rate) == (5, (512, 512, 512), 1e-4)
    assert (config.discount, config.target_rate) == (0.99, 1e-3)


@pytest.mark.parametrize("method", ["bc-delta", "bc-next", "bc-diff", "bc-action"])
def test_imitation_methods(method):
    config = preset(method, SCALES["smoke"])
    assert isinstance(config, ImitationConfig)
    assert config.target == {"bc-next": "next_state", "bc-diff": "difference"}.get(method, method[3:])


def test_a_config_knows_its_learner():
    spec, key = Spec(2, 3), jax.random.key(0)
    assert isinstance(create_learner(spec, preset("decqn", SCALES["smoke"]), key), OsoDecqn)
    assert isinstance(create_learner(spec, preset("bc-delta", SCALES["smoke"]), key), Imitation)


def test_a_short_run_takes_a_stronger_penalty():
    config = preset("oso-decqn", SCALES["cpu"], "hopper_medium_replay-v2")
    assert isinstance(config, OsoDecqnConfig)
    assert config.alpha == 5 * PAPER_ALPHA["hopper-medium-replay"]
