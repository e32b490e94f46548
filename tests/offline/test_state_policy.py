import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_learners import CONFIGS, SPEC, create_learner, random_discretiser

from actionless.discretise import Discretiser, Normaliser
from actionless.errors import ActionlessError
from actionless.networks import Ensemble
from actionless.offline import policy_files, state_policy
from actionless.offline.learner import PolicyLabel
from actionless.offline.state_policy import ActionPolicy, PolicyModel, StatePolicy

UNIT = Normaliser(np.zeros(2), np.ones(2))
THREE_BINS = Discretiser(UNIT, np.tile([-0.1, 0.1], (2, 1)), np.tile([-1.0, 0.0, 1.0], (2, 1)))
STATES = np.random.default_rng(0).normal(2, 3, (40, 3))


def constant_network(outputs):
    """One layer that ignores the state: row e of `outputs` is what member e says."""
    outputs = jnp.asarray(outputs, jnp.float32)
    members, width = outputs.shape
    return Ensemble(weights=(jnp.zeros((members, 2, width)),), biases=(outputs[:, None],))


def constant_policy(outputs, head, **options):
    discretiser = options.pop("discretiser", THREE_BINS)
    model = PolicyModel(constant_network(outputs), discretiser, head, options.pop("temperature", 1.0))
    return StatePolicy(model, "made-by-hand", ("x", "y"), **options)


def learnt(method, bins=3):
    learner = create_learner(SPEC, CONFIGS[method], jax.random.key(0))
    return learner.policy(random_discretiser(bins), PolicyLabel(method, ("x", "y", "z")))


class TestByHand:
    # Two members; outputs are (down x, down y), (same x, same y), (up x, up y).
    utilities = ((3.0, 0.0, 1.0, 1.0, 0.0, 5.0), (1.0, 0.0, 2.0, 1.0, 0.0, -1.0))
    state = np.array([7.0, -7.0])

    def test_utilities(self):
        policy = constant_policy(self.utilities, "utilities", value_scale=10.0)
        # Means: x (2, 1.5, 0), y (0, 1, 2).
        assert policy.propose(self.state).tolist() == [-1, 1]
        assert policy.values(self.state) == pytest.approx(10 * (2 + 2) / 2)
        assert policy.values(self.state, np.array([0, -1], np.int8)) == pytest.approx(10 * (1.5 + 0) / 2)
        expected = [np.exp([2, 1.5, 0]), np.exp([0, 1, 2])]
        expected = [row / row.sum() for row in expected]
        np.testing.assert_allclose(policy.probabilities(self.state), expected, rtol=1e-5)
        # The second member alone would say same for x and same for y.
        np.testing.assert_allclose(policy.disagreement(self.state), [0.5, 0.5])

    def test_the_temperature_flattens_probabilities(self):
        flat = constant_policy(self.utilities, "utilities", temperature=2.0).probabilities(self.state)
        expected = np.exp([1, 0.75, 0])
        np.testing.assert_allclose(flat[0], expected / expected.sum(), rtol=1e-5)

    def test_a_regressed_difference_is_discretised(self):
        policy = constant_policy([(0.5, 0.05), (0.5, -0.2), (0.3, 0.0)], "difference")
        assert policy.propose(self.state).tolist() == [1, 0]
        np.testing.assert_allclose(policy.probabilities(self.state), [[0, 0, 1], [1 / 3, 2 / 3, 0]], rtol=1e-5)
        np.testing.assert_allclose(policy.disagreement(self.state), [0, 1 / 3], rtol=1e-5)

    def test_a_regressed_next_state_is_compared_with_the_state(self):
        policy = constant_policy([(7.5, -8.0)], "next_state")
        assert policy.propose(self.state).tolist() == [1, -1]
        assert policy.propose(np.array([7.45, -8.0])).tolist() == [0, 0]

    def test_states_are_normalised(self):
        normaliser = Normaliser(np.array([1e6, 0.0]), np.array([2.0, 1.0]))
        discretiser = Discretiser(normaliser, THREE_BINS.edges, THREE_BINS.representatives)
        weights = jnp.zeros((1, 2, 2)).at[0, 0, 0].set(1.0)
        network = Ensemble(weights=(weights,), biases=(jnp.zeros((1, 1, 2)),))
        policy = StatePolicy(PolicyModel(network, discretiser, "difference", 1.0), "made-by-hand", ("x", "y"))
        states = np.array([[1e6 - 0.4, 0.0], [1e6 + 0.1, 0.0], [1e6 + 0.4, 0.0]])
        assert policy.propose(states)[:, 0].tolist() == [-1, 0, 1]


def test_labels_are_int8_and_probabilities_sum_to_one():
    policy = learnt("oso-decqn")
    assert policy.propose(STATES).dtype == np.int8
    np.testing.assert_allclose(policy.probabilities(STATES).sum(axis=-1), 1, rtol=1e-5)
    np.testing.assert_array_equal(policy.probabilities(STATES).argmax(axis=-1) - 1, policy.propose(STATES))


def test_values_of_the_proposal_are_the_best_values():
    policy = learnt("decqn")
    proposed = policy.values(STATES, policy.propose(STATES))
    np.testing.assert_allclose(policy.values(STATES), proposed, rtol=1e-4, atol=1e-6)
    # Rewards were scaled by 0.1 inside the learner: its utilities count ten times.
    np.testing.assert_allclose(policy.value_scale, 10.0)


@pytest.mark.parametrize("label", [5, -2])
def test_values_of_labels_that_do_not_exist(label):
    with pytest.raises(ActionlessError, match=r"needs one of \[-1, 0, 1\] for each variable"):
        learnt("decqn").values(STATES, np.full_like(STATES, label, np.int8))


def test_long_input_is_computed_in_blocks(monkeypatch):
    policy = learnt("oso-decqn")
    whole = policy.probabilities(STATES)
    monkeypatch.setattr(state_policy, "MOST_ROWS", 16)
    np.testing.assert_allclose(policy.probabilities(STATES), whole, rtol=1e-5)


class TestFiles:
    def test_everything_survives(self, tmp_path):
        policy = learnt("decqn")
        policy.save(tmp_path)
        loaded = StatePolicy.load(str(tmp_path))
        np.testing.assert_array_equal(loaded.values(STATES), policy.values(STATES))
        for ours, theirs in zip(jax.tree.leaves(loaded.model), jax.tree.leaves(policy.model), strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["policy.json", "policy.safetensors"]

    def test_missing(self, tmp_path):
        with pytest.raises(ActionlessError, match="nowhere: no saved policy here"):
            StatePolicy.load(tmp_path / "nowhere")

    def test_weights_missing(self, tmp_path):
        learnt("decqn").save(tmp_path)
        (tmp_path / policy_files.WEIGHTS).unlink()
        with pytest.raises(ActionlessError, match=r"policy.safetensors: missing"):
            StatePolicy.load(tmp_path)

    @pytest.mark.parametrize("content", [b'{"format": "something else"}', b"[]", b"\xff\xfe"])
    def test_foreign(self, tmp_path, content):
        (tmp_path / policy_files.DESCRIPTION).write_bytes(content)
        with pytest.raises(ActionlessError, match=r"policy.json: not a policy file"):
            StatePolicy.load(tmp_path)

    def test_another_version(self, tmp_path):
        learnt("decqn").save(tmp_path)
        path = tmp_path / policy_files.DESCRIPTION
        path.write_text(path.read_text().replace('"version": 1', '"version": 99'))
        with pytest.raises(ActionlessError, match="version 99"):
            StatePolicy.load(tmp_path)

    def test_truncated_description(self, tmp_path):
        learnt("decqn").save(tmp_path)
        path = tmp_path / policy_files.DESCRIPTION
        path.write_text(path.read_text()[:40])
        with pytest.raises(ActionlessError, match=r"policy.json: damaged at line"):
            StatePolicy.load(tmp_path)

    def test_one_flipped_bit(self, tmp_path):
        learnt("decqn").save(tmp_path)
        path = tmp_path / policy_files.WEIGHTS
        content = bytearray(path.read_bytes())
        content[-10] ^= 1
        path.write_bytes(content)
        with pytest.raises(ActionlessError, match=r"policy.safetensors: damaged"):
            StatePolicy.load(tmp_path)

    def test_the_other_kind(self, tmp_path):
        learnt("bc-action").save(tmp_path / "action")
        learnt("decqn").save(tmp_path / "state")
        with pytest.raises(ActionlessError, match="holds a policy of bc-action, which is no state policy"):
            StatePolicy.load(tmp_path / "action")
        with pytest.raises(ActionlessError, match="holds a policy of decqn, which is no action policy"):
            ActionPolicy.load(tmp_path / "state")


class TestRunDirectories:
    """A run directory stands for its policy, and where it has none says what to do."""

    @pytest.fixture
    def run(self, tmp_path):
        (tmp_path / "run.json").touch()
        (tmp_path / "result.json").touch()
        learnt("decqn").save(tmp_path / "policy")
        return tmp_path

    def test_finished(self, run):
        np.testing.assert_array_equal(StatePolicy.load(run).propose(STATES), learnt("decqn").propose(STATES))

    def test_unfinished(self, run):
        (run / "result.json").unlink()
        with pytest.raises(ActionlessError, match=f"{run}: not finished, .* `actionless resume {run}` resumes it"):
            StatePolicy.load(run)

    def test_several_seeds(self, run):
        for seed in (3, 4):
            (run / f"seed-{seed}").mkdir()
        with pytest.raises(ActionlessError, match=f"{run}: holds the runs of 2 seeds; .* such as {run}/seed-3$"):
            StatePolicy.load(run)

    def test_missing(self, run):
        shutil.rmtree(run / "policy")
        with pytest.raises(ActionlessError, match=f"its policy is missing; `actionless resume {run}` makes it again"):
            StatePolicy.load(run)

    @pytest.mark.parametrize("name", [policy_files.DESCRIPTION, policy_files.WEIGHTS])
    def test_damaged(self, run, name):
        content = (run / "policy" / name).read_bytes()
        (run / "policy" / name).write_bytes(content[: len(content) // 2])
        with pytest.raises(ActionlessError, match=f"{name}: damaged.*; `actionless resume {run}` makes it again"):
            StatePolicy.load(run / "policy")


class TestBadStates:
    def test_wrong_width(self):
        with pytest.raises(ActionlessError, match=r"shape \(5, 2\): the policy was trained on 3 variables .*x, y, z"):
            learnt("decqn").propose(np.zeros((5, 2)))

    def test_not_finite(self):
        states = STATES.copy()
        states[7, 1] = np.nan
        with pytest.raises(ActionlessError, match="row 7, variable 'y' is nan"):
            learnt("decqn").propose(states)
        with pytest.raises(ActionlessError, match="states: variable 'y' is nan"):
            learnt("decqn").propose(states[7])

    def test_values_of_a_method_without_values(self):
        with pytest.raises(ActionlessError, match="bc-delta learns no values"):
            learnt("bc-delta").values(STATES)
