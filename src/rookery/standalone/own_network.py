"""A network of the user's own as steps that NumPy can compute: layers, activations and sums, traced by torch.fx."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch
from torch import fx, nn
from torch.nn import functional

from rookery.errors import OptionError
from rookery.learners.encoders import CustomEncoder, JointNetwork
from rookery.learners.learner import load_module
from rookery.learners.plain_spaces import from_tree
from rookery.learners.registry import make_policy, option_classes

Step = dict[str, Any]  # what is computed ("op"), from which earlier values ("of"; 0 is the observation)
Arrays = dict[str, np.ndarray]
MODULES: dict[type[nn.Module], str] = {
    nn.Linear: "linear", nn.LayerNorm: "layer_norm", nn.Tanh: "tanh", nn.ReLU: "relu", nn.ELU: "elu", nn.GELU: "gelu",
    nn.SiLU: "silu", nn.Sigmoid: "sigmoid", nn.LeakyReLU: "leaky_relu", nn.Flatten: "same", nn.Identity: "same",
    nn.Dropout: "same",
}  # fmt: skip
FUNCTIONS: dict[Any, str] = {
    torch.tanh: "tanh", functional.tanh: "tanh", torch.relu: "relu", functional.relu: "relu", functional.elu: "elu",
    functional.gelu: "gelu", functional.silu: "silu", torch.sigmoid: "sigmoid", functional.sigmoid: "sigmoid",
    operator.add: "add", torch.add: "add", operator.mul: "multiply", torch.flatten: "same",
}  # fmt: skip
METHODS = {"tanh": "tanh", "relu": "relu", "sigmoid": "sigmoid", "flatten": "same", "float": "same", "add": "add"}
USUAL = {nn.ELU: ("alpha", 1.0), nn.GELU: ("approximate", "none"), nn.LeakyReLU: ("negative_slope", 0.01)}


def steps_of_network(saved: dict[str, Any]) -> tuple[list[Step], Arrays, bool]:
    """The steps of a saved agent's own network with their arrays, and whether it is a whole actor, whose last step
    gives the outputs.

    Raises:
        OptionError: It does something that NumPy alone is not given; the message names it.
    """
    spaces = from_tree(saved["observation_space"]), from_tree(saved["action_space"])
    policy = make_policy(saved["learner"], *spaces, option_classes()[saved["learner"]].model_validate(saved["options"]))
    load_module(policy, saved["policy"])
    encoder = policy.eval().encoder
    assert isinstance(encoder, CustomEncoder)
    if [leaf.kind for leaf in policy.leaves] != ["vector"] or len(policy.leaves[0].shape) != 1:
        raise _refused("observations that are not one vector")
    whole = isinstance(encoder.net, JointNetwork)
    try:
        graph = fx.symbolic_trace(_Actor(encoder.net.net) if whole else encoder.net)
    except Exception as error:  # noqa: BLE001 - what cannot be traced raises anything
        raise _refused(f"code that cannot be traced ({type(error).__name__})") from None
    return (*_steps(graph), whole)


class _Actor(nn.Module):
    """The actor's half of a network, whether it is a method or a module."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, observations: Any) -> Any:
        return self.net.actor(observations)


def _steps(graph: fx.GraphModule) -> tuple[list[Step], Arrays]:
    places: dict[Any, int] = {}
    steps: list[Step] = []
    arrays: Arrays = {}
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            places[node] = len(places)
            if len(places) > 1:
                raise _refused("several arguments of `forward`")
        elif node.op == "output":
            (last,) = node.args
            if places.get(last) != len(steps):
                raise _refused("an output that is not the last step")
        else:
            inputs = [value for value in node.args if isinstance(value, fx.Node)]
            op = _op(graph, node, inputs)
            steps.append({"op": op, "of": [places[value] for value in inputs]})
            places[node] = len(steps)
            if node.op == "call_module":
                parameters = graph.get_submodule(node.target).named_parameters()
                arrays |= {f"own.{len(steps) - 1}.{name}": part.detach().numpy() for name, part in parameters}
    return steps, arrays


def _op(graph: fx.GraphModule, node: fx.Node, inputs: list[fx.Node]) -> str:
    if node.op == "call_module":
        module = graph.get_submodule(str(node.target))
        found, shown = MODULES.get(type(module)), type(module).__name__
        if type(module) in USUAL and getattr(module, USUAL[type(module)][0]) != USUAL[type(module)][1]:
            found = None
        if isinstance(module, nn.LayerNorm) and not (module.elementwise_affine and module.eps == 1e-5):
            found = None
    else:
        table: dict[Any, str] = METHODS if node.op == "call_method" else FUNCTIONS
        found, shown = table.get(node.target), getattr(node.target, "__name__", str(node.target))
    wanted = 2 if found in ("add", "multiply") else 1
    if found is None or len(inputs) != wanted or (found not in ("same",) and len(node.args) != wanted):
        raise _refused(f"`{shown}`")
    return found


def _refused(what: str) -> OptionError:
    return OptionError(
        f"the agent's own network has {what}, which cannot be written for NumPy alone: --onnx writes it for onnxruntime"
    )
