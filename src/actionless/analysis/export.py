"""Export a state policy as one ONNX file: normaliser, network and argmax in a graph that runs without this package.

The graph computes the same as `PolicyModel`, in the same precision: states are normalised in float64, everything
after that is float32. Nodes are written one by one, so neither tracing nor another framework is needed.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from actionless.discretise import at_edge_is_above
from actionless.errors import ActionlessError, require_extra
from actionless.files import disk_trouble, require_free_file, write_durably
from actionless.offline.learner import Policy
from actionless.offline.state_policy import PolicyModel, StatePolicy
from actionless.version import __version__

if TYPE_CHECKING:
    import onnx

NO_PROPOSAL = -128
"""Δs of a state that is not finite: a value that is never a label, because a graph cannot raise an error."""

# From 2022: old enough for runtimes in use, new enough to have the axes of reductions as inputs.
_OPSET, _IR_VERSION = 18, 8


def export(policy: Policy | str | Path, out: str | Path, *, overwrite: bool = False) -> Path:
    """Write a state policy, or the policy of a run, to `FILE.onnx`; return its path.

    Input `state`: float64, batch × variables, in the log's own units. Outputs, as from the methods of `StatePolicy`:
    `delta` (int8 labels), `probabilities` (lowest bin first), `disagreement`, and `value` if the method learns values.
    For a state that is not finite, Δs is -128 and everything else is NaN.
    """
    target = Path(out)
    require_free_file(target, ".onnx", overwrite=overwrite)
    require_extra("onnx", "onnx", "writing an ONNX file")
    if isinstance(policy, str | Path):
        policy = StatePolicy.load(policy)
    if not isinstance(policy, StatePolicy):
        raise ActionlessError(
            f"{policy.method} {policy.does}, but only policies that propose Δs can be exported: pre-train with a "
            "method that gives a state policy (`actionless pretrain --help` says which do)"
        )
    model = onnx_model(policy)
    with disk_trouble(target, "free some space, or choose a writable folder"):
        write_durably(target, model.SerializeToString())
    return target


def onnx_model(policy: StatePolicy) -> "onnx.ModelProto":
    """The policy as an ONNX model in memory, with metadata."""
    from onnx import TensorProto, checker, helper

    graph = _Graph()
    outputs = _write(graph, policy)
    dim, bins = policy.model.discretiser.dim, policy.model.discretiser.bins
    types = {
        "delta": (TensorProto.INT8, ["batch", dim]),
        "probabilities": (TensorProto.FLOAT, ["batch", dim, bins]),
        "disagreement": (TensorProto.FLOAT, ["batch", dim]),
        "value": (TensorProto.FLOAT, ["batch"]),
    }
    graph_proto = helper.make_graph(
        graph.nodes,
        "state_policy",
        [helper.make_tensor_value_info("state", TensorProto.DOUBLE, ["batch", dim])],
        [helper.make_tensor_value_info(name, *types[name]) for name in outputs],
        graph.constants,
    )
    model = helper.make_model(
        graph_proto,
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="actionless",
        producer_version=__version__,
    )
    helper.set_model_props(model, _metadata(policy))
    checker.check_model(model, full_check=True)
    return model


def _metadata(policy: StatePolicy) -> dict[str, str]:
    labels = policy.model.discretiser.labels(np.arange(policy.model.discretiser.bins))
    return {
        "method": policy.method,
        "state_names": json.dumps(policy.state_names, ensure_ascii=False),
        "labels": json.dumps(labels.tolist()),
        "fingerprint": policy.provenance.get("data", {}).get("fingerprint", ""),
        "actionless_version": __version__,
    }


class _Graph:
    """Collects nodes and constants. Each node has one output and the same name as that output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: np.ndarray | np.generic) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(value, order="C"), name))
        return name

    def node(self, kind: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        name = f"{kind.lower()}_{len(self.nodes)}" if name is None else name
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def cast(self, value: str, kind: type[np.generic], name: str | None = None) -> str:
        from onnx import helper

        return self.node("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(kind)), name=name)

    def reduce(self, kind: str, value: str, axis: int, *, keepdims: bool = False) -> str:
        return self.node(kind, value, self.constant(np.array([axis])), keepdims=int(keepdims))

    def unsqueeze(self, value: str, axis: int) -> str:
        return self.node("Unsqueeze", value, self.constant(np.array([axis])))


def _write(graph: _Graph, policy: StatePolicy) -> list[str]:
    """Write all outputs of the policy into the graph; return their names."""
    model = policy.model
    z = _normalised(graph, model)
    scores = _scores(graph, model, z)
    mean = graph.reduce("ReduceMean", scores, 0)
    # 0 for a finite state, else NaN. Added to the outputs, because layers such as ReLU may hide a NaN.
    taint = graph.reduce("ReduceSum", graph.node("Mul", z, graph.constant(np.float32(0))), 1, keepdims=True)

    proposed = graph.node("ArgMax", mean, axis=1, keepdims=0)
    lowest = model.discretiser.labels(np.array([0])).astype(np.int64)
    labels = graph.node("Add", proposed, graph.constant(lowest))
    no_proposal = graph.constant(np.int64(NO_PROPOSAL))
    graph.cast(graph.node("Where", graph.node("IsNaN", taint), no_proposal, labels), np.int8, "delta")

    likely = mean
    if model.head in ("utilities", "logits"):
        heated = graph.node("Div", mean, graph.constant(np.float32(model.temperature)))
        likely = graph.node("Softmax", heated, axis=1)
    by_variable = graph.node("Transpose", likely, perm=[0, 2, 1])
    graph.node("Add", by_variable, graph.unsqueeze(taint, 2), name="probabilities")

    agrees = graph.node("Equal", graph.node("ArgMax", scores, axis=2, keepdims=0), proposed)
    differs = graph.cast(graph.node("Not", agrees), np.float32)
    graph.node("Add", graph.reduce("ReduceMean", differs, 0), taint, name="disagreement")
    if model.head != "utilities":
        return ["delta", "probabilities", "disagreement"]

    best = graph.reduce("ReduceMean", graph.reduce("ReduceMax", mean, 1), 1)
    scaled = graph.node("Mul", best, graph.constant(np.float32(policy.value_scale)))
    graph.node("Add", scaled, graph.node("Squeeze", taint, graph.constant(np.array([1]))), name="value")
    return ["delta", "probabilities", "disagreement", "value"]


def _normalised(graph: _Graph, model: PolicyModel) -> str:
    """Batch × dim."""
    normaliser = model.discretiser.normaliser
    centred = graph.node("Sub", "state", graph.constant(normaliser.mean))
    return graph.cast(graph.node("Div", centred, graph.constant(normaliser.scale)), np.float32)


def _scores(graph: _Graph, model: PolicyModel, z: str) -> str:
    """Members × batch × bins × dim, as in `PolicyModel.scores`."""
    dim, bins = model.discretiser.dim, model.discretiser.bins
    outputs = _network(graph, model, z)
    if model.head in ("utilities", "logits"):
        # In ONNX, 0 means: keep this size.
        return graph.node("Reshape", outputs, graph.constant(np.array([0, 0, bins, dim])))
    change = graph.node("Sub", outputs, z) if model.head == "next_state" else outputs
    index = graph.unsqueeze(_bin_index(graph, model, change), 2)
    return graph.cast(graph.node("Equal", index, graph.constant(np.arange(bins)[:, None])), np.float32)


def _network(graph: _Graph, model: PolicyModel, z: str) -> str:
    """Members × batch × outputs. Weights are stacked, so the first product broadcasts the batch to all members."""
    x = z
    layers = list(zip(model.network.weights, model.network.biases, strict=True))
    for depth, (weight, bias) in enumerate(layers):
        product = graph.node("MatMul", x, graph.constant(np.asarray(weight)))
        x = graph.node("Add", product, graph.constant(np.asarray(bias)))
        if depth < len(layers) - 1:
            x = graph.node("Relu", x)
    return x


def _bin_index(graph: _Graph, model: PolicyModel, change: str) -> str:
    """Members × batch × dim: the number of edges below a change, as in `Discretiser.index`."""
    edges = model.discretiser.edges.T.astype(np.float32)
    change = graph.unsqueeze(change, 2)
    above = graph.node("Greater", change, graph.constant(edges))
    at_edge = graph.node("Equal", change, graph.constant(edges))
    at_edge_above = graph.node("And", at_edge, graph.constant(at_edge_is_above(model.discretiser.edges).T))
    return graph.reduce("ReduceSum", graph.cast(graph.node("Or", above, at_edge_above), np.int64), 2)
