import ast
from pathlib import Path

import jax
import numpy as np
import pytest

from actionless.errors import ActionlessError
from actionless.offline.data_sets import DATA_SETS, data_set
from actionless.offline.imitation import Imitation, ImitationConfig
from actionless.offline.learner import LogFacts, Spec
from actionless.offline.methods import METHODS, method_named
from actionless.offline.oso_decqn import DEFAULT_ALPHA, PAPER_ALPHA, OsoDecqn, OsoDecqnConfig


def config_for(method, scale, name):
    return METHODS[method].config_at(scale, LogFacts(name, np.zeros(1)))


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
    assert PAPER_ALPHA.keys() == set(DATA_SETS) and len(DATA_SETS) == 20
    assert sum(PAPER_ALPHA.values()) == 3 + 8 + 10 + 8 + 2 + 3 + 8 + 8 + 10 + 8 + 8 + 8 + 8 * 5


@pytest.mark.parametrize(
    "method, name, alpha, loss",
    [
        ("oso-decqn", "walker2d_medium_replay-v2", 10.0, "mse"),
        ("oso-decqn", "cheetah-run-medium", 5.0, "huber"),
        ("oso-decqn", "patients", DEFAULT_ALPHA, "mse"),
        ("decqn", "walker2d_medium_replay-v2", 0.0, "mse"),
        ("decqn", "cheetah-run-medium", 0.0, "huber"),
    ],
)
@pytest.mark.parametrize("scale", ["smoke", "cpu", "paper"])
def test_value_methods(method, name, alpha, loss, scale):
    config = config_for(method, scale, name)
    assert isinstance(config, OsoDecqnConfig)
    assert (config.alpha, config.loss) == (alpha, loss)


def test_the_paper_scale_is_the_papers():
    method = METHODS["oso-decqn"]
    size, config = method.size("paper"), method.config_at("paper")
    assert isinstance(config, OsoDecqnConfig)
    assert (size.steps_for(""), size.batch_size) == (3_000_000, 256)
    assert (config.ensemble, config.hidden, config.learning_rate) == (5, (512, 512, 512), 1e-4)
    assert (config.discount, config.target_rate) == (0.99, 1e-3)


@pytest.mark.parametrize("method", ["bc-delta", "bc-next", "bc-diff", "bc-action"])
def test_imitation_methods(method):
    config = METHODS[method].config_at("smoke")
    assert isinstance(config, ImitationConfig)
    assert config.target == {"bc-next": "next_state", "bc-diff": "difference"}.get(method, method[3:])
    assert METHODS[method].gives == (("action policy",) if method == "bc-action" else ("state policy",))


def test_a_method_knows_its_learner():
    spec, key = Spec(2, 3), jax.random.key(0)
    for name, learner in (("decqn", OsoDecqn), ("bc-delta", Imitation)):
        method = METHODS[name]
        assert type(method.learner.create(spec, method.config_at("smoke"), key)) is learner


@pytest.mark.parametrize("scale, weight", [("smoke", 3.0), ("cpu", 15.0), ("paper", 3.0)])
def test_a_short_run_takes_a_stronger_penalty_of_the_same_alpha(scale, weight):
    config = config_for("oso-decqn", scale, "hopper_medium_replay-v2")
    assert isinstance(config, OsoDecqnConfig)
    assert config.alpha == PAPER_ALPHA["hopper-medium-replay"]
    assert config.penalty_weight == weight


def test_what_the_table_lacks_is_refused():
    with pytest.raises(ActionlessError, match=r"method='bc_delta': choose 'oso-decqn', 'decqn', 'iql-delta'"):
        method_named("bc_delta")
    small = METHODS["afdt"].__class__(**{**vars(METHODS["afdt"]), "sizes": {"smoke": METHODS["afdt"].size("smoke")}})
    with pytest.raises(ActionlessError, match=r"scale='cpu': choose 'smoke'"):
        small.config_at("cpu")


LEARNERS = {"afdt", "imitation", "oso_decqn"}


def imported(file):
    """The last parts of the names of the modules that a file imports anywhere."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (node.module.split(".")[-1], *(alias.name for alias in node.names))
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[-1] for alias in node.names)


def test_no_learner_is_imported_outside_its_own_package():
    sources = Path(__file__).parents[2] / "src" / "actionless"
    folders = ("training", "cli", "analysis", "guidance", "reporting", "runs", "execution")
    files = [file for folder in folders for file in (sources / folder).rglob("*.py")]
    assert len(files) > 50
    assert [file.name for file in files if LEARNERS & set(imported(file))] == []
