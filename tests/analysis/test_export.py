import json
import os
from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from linear_environment import planner

import actionless
from actionless import cli
from actionless.analysis.export import NO_PROPOSAL, export, onnx_model
from actionless.discretise import Discretiser, Normaliser
from actionless.errors import ActionlessError
from actionless.networks import Ensemble
from actionless.offline.state_policy import MOST_ROWS, ActionPolicy, PolicyModel, StatePolicy

HEADS = ("utilities", "logits", "next_state", "difference")
DIM = 4
NAMES = ("level", "Δ pressure", "flow", "age")
# Far from zero and of very different spread: what float32 could not normalise.
NORMALISER = Normaliser(np.array([1e6, 0.0, -3.0, 40.0]), np.array([0.5, 1e-3, 2.0, 1e4]))


def random_network(members, sizes):
    """Random numbers from NumPy, which needs no compilation."""
    rng = np.random.default_rng(0)
    weights = [rng.uniform(-1, 1, (members, *pair)) * pair[0] ** -0.5 for pair in pairwise(sizes)]
    biases = [rng.uniform(-0.25, 0.25, (members, 1, size)) for size in sizes[1:]]
    return Ensemble(*(tuple(jnp.asarray(a, jnp.float32) for a in arrays) for arrays in (weights, biases)))


def policy(head, *, bins=3, members=3, **options):
    """A policy with random weights; regressed changes have the size of the bins, so that every bin occurs."""
    edges = np.linspace(-0.2, 0.2, bins - 1) if bins > 2 else np.zeros(1)
    discretiser = Discretiser(NORMALISER, np.tile(edges, (DIM, 1)), np.zeros((DIM, bins)))
    outputs = DIM * bins if head in ("utilities", "logits") else DIM
    network = random_network(members, (DIM, 16, 16, outputs))
    model = PolicyModel(network, discretiser, head, options.pop("temperature", 0.25))
    return StatePolicy(model, "made-by-hand", NAMES, **options)


def random_states(rows, seed=0):
    z = np.random.default_rng(seed).normal(size=(rows, DIM))
    return NORMALISER.denormalise(z)


def session(model):
    """One thread, because the tests run in parallel."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(model, states):
    runtime = session(model)
    names = [output.name for output in runtime.get_outputs()]
    return dict(zip(names, runtime.run(None, {"state": states}), strict=True))


class TestEqualToThePolicy:
    @pytest.mark.parametrize(
        ("head", "bins"), [*((head, 3) for head in HEADS), ("utilities", 2), ("difference", 2), ("difference", 5)]
    )
    def test_ten_thousand_states(self, head, bins):
        ours = policy(head, bins=bins)
        states = random_states(3 * MOST_ROWS)
        theirs = run(onnx_model(ours), states)
        delta = ours.propose(states)
        # Products are summed in another order: within this margin of a tie or an edge, either may win.
        assert ((theirs["delta"] == delta) | (margin(ours, states) < 1e-5)).all()
        assert (theirs["delta"] == delta).mean() > 0.9999
        assert theirs["delta"].dtype == np.int8
        assert set(np.unique(delta)) == set(ours.model.discretiser.labels(np.arange(bins)).tolist())

        same = margin(ours, states, of_members=True) > 1e-5
        tolerance = {"rtol": 1e-4, "atol": 1e-6}
        np.testing.assert_allclose(theirs["disagreement"][same], ours.disagreement(states)[same], **tolerance)
        if head in ("utilities", "logits"):
            same[:] = True
        np.testing.assert_allclose(theirs["probabilities"][same], ours.probabilities(states)[same], **tolerance)

    def test_values(self):
        ours = policy("utilities", value_scale=7.0)
        states = random_states(64)
        np.testing.assert_allclose(run(onnx_model(ours), states)["value"], ours.values(states), rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("head", HEADS[1:])
    def test_only_learners_of_values_have_one(self, head):
        assert list(run(onnx_model(policy(head)), random_states(1))) == ["delta", "probabilities", "disagreement"]

    @pytest.mark.parametrize("rows", [0, 1, 3])
    def test_any_number_of_rows(self, rows):
        ours = policy("utilities", members=1)
        outputs = run(onnx_model(ours), random_states(rows))
        shapes = {name: value.shape for name, value in outputs.items()}
        assert shapes == {
            "delta": (rows, DIM),
            "probabilities": (rows, DIM, 3),
            "disagreement": (rows, DIM),
            "value": (rows,),
        }


def margin(ours, states, *, of_members=False):
    """Margin of each variable's choice over the second best: the ensemble's, or its closest member's."""
    z = ours.model.discretiser.normaliser.normalise(states).astype(np.float32)
    outputs = z
    for weight, bias in zip(ours.model.network.weights, ours.model.network.biases, strict=True):
        outputs = (z if outputs is z else np.maximum(outputs, 0)) @ np.asarray(weight) + np.asarray(bias)
    if ours.model.head in ("utilities", "logits"):
        scores = np.sort(outputs.reshape(*outputs.shape[:2], -1, DIM), axis=2)
        mean = np.sort(outputs.reshape(*outputs.shape[:2], -1, DIM).mean(axis=0), axis=1)
        closest = mean[:, -1] - mean[:, -2]
        return np.minimum(closest, (scores[:, :, -1] - scores[:, :, -2]).min(axis=0)) if of_members else closest
    change = outputs - z if ours.model.head == "next_state" else outputs
    return np.abs(change[..., None] - ours.model.discretiser.edges).min(axis=(0, -1))


class TestByHand:
    UNIT = Normaliser(np.zeros(1), np.ones(1))

    def by_hand(self, edges, weight, head="difference", members=1):
        """One variable, one layer: each member's output is the state times `weight`."""
        discretiser = Discretiser(self.UNIT, np.array([edges]), np.zeros((1, len(edges) + 1)))
        network = Ensemble(weights=(jnp.full((members, 1, 1), weight),), biases=(jnp.zeros((members, 1, 1)),))
        return StatePolicy(PolicyModel(network, discretiser, head, 1.0), "made-by-hand", ("x",))

    def test_an_edge_belongs_to_the_bin_nearer_zero(self):
        # Exact in float32.
        ours = self.by_hand([-0.5, 0.5], 1.0)
        states = np.array([[-0.75], [-0.5], [0.0], [0.5], [0.75]])
        outputs = run(onnx_model(ours), states)
        assert outputs["delta"][:, 0].tolist() == [-1, 0, 0, 0, 1] == ours.propose(states)[:, 0].tolist()
        assert outputs["probabilities"][0].tolist() == [[1, 0, 0]]

    @pytest.mark.parametrize("edges", [[0.0], [0.0, 0.0], [-1.0, 0.0, 0.0, 1.0]])
    def test_edges_at_zero(self, edges):
        ours = self.by_hand(edges, 1.0)
        states = np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0]])
        assert run(onnx_model(ours), states)["delta"].tolist() == ours.propose(states).tolist()

    def test_the_next_state_is_compared_with_the_state(self):
        # The next state is twice the state.
        outputs = run(onnx_model(self.by_hand([-0.5, 0.5], 2.0, "next_state")), np.array([[-1.0], [0.25], [1.0]]))
        assert outputs["delta"][:, 0].tolist() == [-1, 0, 1]


class TestStatesThatAreNotFinite:
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("head", HEADS)
    def test_no_proposal(self, head, value):
        states = random_states(3)
        clean = run(onnx_model(policy(head)), states)
        states[1, 2] = value
        outputs = run(onnx_model(policy(head)), states)
        assert (outputs["delta"][1] == NO_PROPOSAL).all()
        assert all(np.isnan(output[1]).all() for name, output in outputs.items() if name != "delta")
        for name, output in outputs.items():
            np.testing.assert_array_equal(output[[0, 2]], clean[name][[0, 2]])


class TestFile:
    def test_it_says_what_it_is(self, tmp_path):
        provenance = {"data": {"fingerprint": "43cab866"}}
        path = actionless.export(policy("logits", provenance=provenance), tmp_path / "policy.onnx")
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
        metadata = {entry.key: entry.value for entry in model.metadata_props}
        assert json.loads(metadata["state_names"]) == list(NAMES)
        assert json.loads(metadata["labels"]) == [-1, 0, 1]
        assert metadata["method"] == "made-by-hand"
        assert metadata["fingerprint"] == "43cab866"
        assert metadata["actionless_version"] == actionless.__version__
        assert [p.name for p in tmp_path.iterdir()] == ["policy.onnx"]

    def test_the_same_policy_gives_the_same_bytes(self, tmp_path):
        first, second = (export(policy("utilities"), tmp_path / name) for name in ("a.onnx", "b.onnx"))
        assert first.read_bytes() == second.read_bytes()

    def test_a_state_of_another_width_is_refused_by_the_runtime(self):
        with pytest.raises(Exception, match="Got: 3 Expected: 4"):
            run(onnx_model(policy("logits")), np.zeros((2, 3)))

    def test_a_full_disk_leaves_what_was_there(self, tmp_path, monkeypatch):
        path = export(policy("logits"), tmp_path / "policy.onnx")
        before = path.read_bytes()

        def full(descriptor):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ActionlessError, match=r"policy.onnx: No space left on device; free some space"):
            export(policy("utilities"), path, overwrite=True)
        assert path.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == ["policy.onnx"]


class TestVerb:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        policy("utilities").save(tmp_path / "state")
        network = random_network(1, (DIM, 2))
        ActionPolicy(network, NORMALISER, "bc-action", NAMES).save(tmp_path / "action")
        return tmp_path

    def refusal(self, capsys, *arguments):
        """The one-line error of a refused command line."""
        assert cli.run(["export", *arguments]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        line = captured.err.removeprefix("actionless: ")
        assert line.count("\n") == 1
        return line.rstrip("\n")

    def test_written(self, capsys, folder):
        assert cli.run(["export", "state", "--out", "policy.onnx"]) == 0
        captured = capsys.readouterr()
        size = (folder / "policy.onnx").stat().st_size
        assert (captured.out, captured.err) == ("", f"wrote policy.onnx: {size:,} bytes\n")
        states = random_states(20)
        expected = StatePolicy.load("state").propose(states)
        np.testing.assert_array_equal(run(onnx.load("policy.onnx"), states)["delta"], expected)

    def test_a_file_that_exists(self, capsys, folder):
        (folder / "policy.onnx").write_text("something else")
        line = self.refusal(capsys, "state", "--out", "policy.onnx")
        assert line == "policy.onnx: already exists; choose another name, or replace it with --overwrite"
        assert (folder / "policy.onnx").read_text() == "something else"
        assert cli.run(["export", "state", "--out", "policy.onnx", "--overwrite"]) == 0
        onnx.checker.check_model("policy.onnx")

    @pytest.mark.parametrize(
        ("out", "line"),
        [
            ("policy.pt", "policy.pt: the output file must end in .onnx"),
            ("nowhere/policy.onnx", "nowhere/policy.onnx: the folder nowhere does not exist; create it first"),
            ("f.onnx", "f.onnx: is an existing folder, which is not overwritten; choose another name"),
        ],
    )
    def test_a_target_that_cannot_be(self, capsys, folder, out, line):
        (folder / "f.onnx").mkdir()
        assert self.refusal(capsys, "state", "--out", out, "--overwrite") == line

    def test_a_policy_of_actions(self, capsys, folder):
        line = self.refusal(capsys, "action", "--out", "policy.onnx")
        assert line.startswith("action: holds a policy of bc-action, which is no state policy: give one pre-trained")
        with pytest.raises(
            ActionlessError, match="bc-action gives actions, but only policies that propose Δs can be exported"
        ):
            export(ActionPolicy.load("action"), "policy.onnx")
        assert not (folder / "policy.onnx").exists()

    def test_a_planner(self, capsys, folder):
        planner().save(folder / "plans")
        line = self.refusal(capsys, "plans", "--out", "policy.onnx")
        assert line.startswith("plans: holds a policy of afdt, which is no state policy: give one pre-trained")
        with pytest.raises(
            ActionlessError, match="afdt plans from many steps, but only policies that propose Δs can be exported"
        ):
            export(planner(), "policy.onnx")
        assert not (folder / "policy.onnx").exists()

    def test_no_run(self, capsys):
        assert self.refusal(capsys, "missing", "--out", "p.onnx").startswith("missing: no saved policy here")

    def test_without_onnx(self, capsys, monkeypatch):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        assert self.refusal(capsys, "state", "--out", "policy.onnx") == (
            "writing an ONNX file needs the package 'onnx', which is not installed: pip install 'actionless[onnx]'"
        )
