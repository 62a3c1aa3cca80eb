"""Nets: what each kind of observation becomes, and that weights are read where they are kept."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rookery.learners import networks
from rookery.learners.encoders import Encoder, all_images_small, one_hot
from rookery.learners.flat_adam import FlatAdam
from rookery.learners.image_nets import IMAGE_FLOOR, HalvingPool, ImageNet
from rookery.learners.learner import load_module, module_state
from rookery.learners.networks import MLP, EnsembleMLP, orthogonal, with_params_from
from rookery.learners.observations import leaves_of, split

CPU = torch.device("cpu")


def encoder_of(space: spaces.Space, normalise: bool = False) -> Encoder:
    torch.manual_seed(0)
    return Encoder(leaves_of(space), normalise)


def encode(space: spaces.Space, batch: object) -> torch.Tensor:
    return encoder_of(space)(split(leaves_of(space), batch, CPU))


def test_a_perceptron_computes_what_its_layers_say() -> None:
    """Linear layers with the activation between them, and none after the last."""
    torch.manual_seed(0)
    net = MLP(3, [5, 4], 2, "relu")
    reference = nn.Sequential(net.layers[0], nn.ReLU(), net.layers[1], nn.ReLU(), net.layers[2])
    rows = torch.randn(7, 3)
    torch.testing.assert_close(net(rows), reference(rows))


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu", "gelu", "silu"])
def test_all_activations_work(activation: str) -> None:
    """Each one named in the options gives a net that answers and learns."""
    net = MLP(3, [5], 2, activation)
    net(torch.ones(2, 3)).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in net.parameters())


def test_no_hidden_layers_is_a_linear_net() -> None:
    """An empty list of widths is allowed."""
    net = MLP(3, [], 2, "tanh")
    rows = torch.randn(4, 3)
    torch.testing.assert_close(net(rows), rows @ net.layers[0].weight.T)


def test_gain_makes_first_guesses_small() -> None:
    """A policy begins nearly indifferent: outputs shrink with the last layer's gain."""
    torch.manual_seed(0)
    assert MLP(3, [64], 4, "tanh", gain=0.01)(torch.randn(50, 3)).abs().max() < 0.05


def test_a_perceptron_reads_its_weights_wherever_they_go() -> None:
    """Loading, copying and flattening change or keep what is computed, as they should."""
    torch.manual_seed(0)
    one, other, rows = MLP(3, [5], 2, "tanh"), MLP(3, [5], 2, "tanh"), torch.randn(4, 3)
    flat = FlatAdam(other.parameters(), 1e-2)
    load_module(other, module_state(one))
    assert torch.equal(other(rows), one(rows))
    twin = copy.deepcopy(other)
    flat.flat.data.zero_()
    assert (other(rows) == 0).all()
    assert torch.equal(twin(rows), one(rows))


def test_a_copy_over_a_vector_follows_it() -> None:
    """`over` looks through the vector it was given: a training one as it changes, a clone not; neither learns."""
    torch.manual_seed(0)
    net, rows = MLP(3, [5], 2, "tanh"), torch.randn(4, 3)
    flat = FlatAdam(net.parameters(), 1e-2)
    following, kept = with_params_from(net, flat.flat.data), with_params_from(net, flat.flat.data.clone())
    before = net(rows).detach().clone()
    flat.minimize(net(rows).square().mean())
    assert torch.equal(following(rows), net(rows))
    assert torch.equal(kept(rows), before)
    assert not any(p.requires_grad for p in (*following.parameters(), *kept.parameters()))


def test_twins_are_two_nets() -> None:
    """Each of the pair answers as a perceptron with its half of the weights."""
    torch.manual_seed(0)
    ensemble, rows = EnsembleMLP(2, 3, [5, 4], "relu"), torch.randn(6, 3)
    for k in range(2):
        values = rows
        for n, (weight, bias) in enumerate(zip(ensemble.weights, ensemble.biases, strict=True)):
            values = values @ weight[k] + bias[k]
            values = values.relu() if n < 2 else values
        torch.testing.assert_close(ensemble(rows)[k], values.squeeze(-1), rtol=1e-5, atol=1e-6)
    assert not torch.equal(ensemble(rows)[0], ensemble(rows)[1])


def test_vectors_pass_as_they_are() -> None:
    """A Box of any shape, also of none, is flattened row by row."""
    batch = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    assert encode(spaces.Box(-99, 99, (2, 3)), batch).tolist() == batch.reshape(2, 6).tolist()
    assert encode(spaces.Box(-99, 99, ()), np.float32([4, 5])).tolist() == [[4.0], [5.0]]


def test_choices_become_one_hot() -> None:
    """Counted from their start; a MultiDiscrete's stand side by side."""
    assert encode(spaces.Discrete(3, start=5), np.array([5, 7])).tolist() == [[1, 0, 0], [0, 0, 1]]
    space = spaces.MultiDiscrete([2, 3], start=[0, -1])
    assert encode(space, np.array([[1, -1], [0, 1]])).tolist() == [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]]


def test_a_matrix_of_choices_is_read_row_by_row() -> None:
    """A MultiDiscrete of two dimensions is as good as a flat one."""
    matrix, flat = spaces.MultiDiscrete([[2, 3], [4, 5]]), spaces.MultiDiscrete([2, 3, 4, 5])
    batch = np.array([[[1, 2], [3, 4]], [[0, 1], [2, 3]]])
    assert torch.equal(encode(matrix, batch), encode(flat, batch.reshape(2, 4)))


def test_values_outside_a_choice_are_not_swallowed() -> None:
    """A number the space does not have is an error, not a row of zeros."""
    (leaf,) = leaves_of(spaces.Discrete(3))
    with pytest.raises(RuntimeError):
        one_hot(torch.tensor([3]), leaf)


NESTED = spaces.Dict(
    a=spaces.Tuple((spaces.Box(-9, 9, (2,)), spaces.Discrete(3))),
    b=spaces.Dict(c=spaces.MultiBinary(2), d=spaces.Box(0, 255, (8, 8, 3), np.uint8), e=spaces.Box(-9, 9, ())),
)


def test_nested_observations_have_all_their_parts() -> None:
    """Vectors first, then choices, then images; as wide as announced."""
    batch = {
        "a": (np.float32([[1, 2]]), np.array([2])),
        "b": {"c": np.int8([[1, 0]]), "d": np.zeros((1, 8, 8, 3), np.uint8), "e": np.float32([7])},
    }
    encoder, features = encoder_of(NESTED), encode(NESTED, batch)
    assert features.shape == (1, encoder.width) == (1, 2 + 2 + 1 + 3 + 512)
    assert features[0, :8].tolist() == [1, 2, 1, 0, 7, 0, 0, 1]


def test_every_part_matters() -> None:
    """Changing any one leaf changes the features."""
    leaves, encoder = leaves_of(NESTED), encoder_of(NESTED)
    base = [torch.zeros(1, *leaf.shape, dtype=leaf.dtype) for leaf in leaves]
    for k in range(len(leaves)):
        changed = [leaf + 1 if n == k else leaf for n, leaf in enumerate(base)]
        assert not torch.equal(encoder(changed), encoder(base)), leaves[k].name


@pytest.mark.parametrize(
    "shape",
    [(8, 8, 1), (8, 30, 3), (11, 11, 3), (12, 12, 3), (23, 23, 3), (24, 24, 3), (36, 40, 2), (55, 55, 1), (56, 56, 3)],
)
def test_images_of_any_size_fit(shape: tuple[int, int, int]) -> None:
    """From 8 pixels a side on, the convolutions end in at least one place, and gradients reach the first of them."""
    encoder = encoder_of(spaces.Box(0, 255, shape, np.uint8))
    features = encoder([torch.randint(0, 255, (2, *shape), dtype=torch.uint8)])
    assert features.shape == (2, encoder.width)
    features.sum().backward()
    assert next(encoder.parameters()).grad.abs().sum() > 0


def test_channels_first_and_last_see_the_same() -> None:
    """The same picture in both orders gives the same features."""
    last, first = (encoder_of(spaces.Box(0, 1, shape)) for shape in ((16, 20, 3), (3, 16, 20)))
    picture = torch.rand(2, 16, 20, 3)
    torch.testing.assert_close(last([picture]), first([picture.movedim(-1, 1)]))


def test_bytes_are_scaled_and_floats_are_not() -> None:
    """A byte of 255 is 1.0; a float picture is taken as it is."""
    byte, real = (ImageNet(leaves_of(space)[0]) for space in (
        spaces.Box(0, 255, (8, 8, 3), np.uint8), spaces.Box(0, 1, (8, 8, 3))
    ))  # fmt: skip
    assert byte.planes(torch.full((1, 8, 8, 3), 255, dtype=torch.uint8)).unique().tolist() == [1.0]
    assert real.planes(torch.full((1, 8, 8, 3), 0.5)).unique().tolist() == [0.5]


def test_grey_pictures_get_a_channel() -> None:
    """Two dimensions of bytes are seen like the same with one channel."""
    flat, deep = (encoder_of(spaces.Box(0, 255, shape, np.uint8)) for shape in ((20, 12), (1, 20, 12)))
    picture = torch.randint(0, 255, (2, 20, 12), dtype=torch.uint8)
    torch.testing.assert_close(flat([picture]), deep([picture.unsqueeze(1)]))


@pytest.mark.parametrize("size", [(84, 84), (5, 8), (1, 3)])
def test_pooling_halves_a_picture_as_torch_does(size) -> None:
    """Values and gradients are those of a maximum over 3 x 3 pixels with an edge."""
    planes = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(1), requires_grad=True)
    mine, its = HalvingPool()(planes), torch.nn.functional.max_pool2d(planes, 3, 2, 1)
    assert torch.equal(mine, its)
    weights = torch.randn(its.shape, generator=torch.Generator().manual_seed(2))
    gradients = [torch.autograd.grad((pooled * weights).sum(), planes)[0] for pooled in (mine, its)]
    torch.testing.assert_close(*gradients)


def test_the_residual_network_is_an_encoder_of_images() -> None:
    """As published: 3 x 5 convolutions, 256 features from pictures that were halved three times."""
    (leaf,) = leaves_of(spaces.Box(0, 255, (4, 84, 84), np.uint8))
    encoder = Encoder([leaf], normalise=False, images_as="impala")
    (net,) = encoder.images.values()
    assert sum(isinstance(part, nn.Conv2d) for part in net.modules()) == 15
    assert net.project[0].in_features == 32 * 11 * 11
    assert encoder([leaf.blank(2)]).shape == (2, encoder.width) == (2, 256)
    assert encoder.is_trained


def test_choices_are_not_normalised() -> None:
    """The normaliser sees and changes vectors; choices stay; without vectors there is none."""
    encoder = encoder_of(NESTED, normalise=True)
    leaves = [torch.zeros(4, *leaf.shape, dtype=leaf.dtype) for leaf in leaves_of(NESTED)]
    leaves[0] = torch.tensor([[1.0, 10.0], [3.0, 30.0], [1.0, 10.0], [3.0, 30.0]])
    plain = encoder_of(NESTED)(leaves)
    encoder.update_normalisers(leaves)
    features = encoder(leaves)
    torch.testing.assert_close(features[:2, :2], torch.tensor([[-1.0, -1.0], [1.0, 1.0]]), atol=1e-4, rtol=0)
    assert torch.equal(features[:, 5:8], plain[:, 5:8])
    assert encoder_of(spaces.Discrete(3), normalise=True).norm is None
    encoder_of(spaces.Discrete(3), normalise=True).update_normalisers([torch.zeros(2, dtype=torch.int64)])


SCREEN = spaces.Box(0, 255, (1, 8, 8), np.uint8)


def test_pixels_are_seen_against_what_they_usually_show() -> None:
    """What changes as often as not is -1 or 1; what never changed before gets no more than ten times as loud."""
    encoder, screens = encoder_of(SCREEN, normalise=True), torch.full((600, 1, 8, 8), 200, dtype=torch.uint8)
    screens[::2, 0, 0, 0] = 0
    net = encoder.images["0"]
    encoder.update_normalisers([screens])
    seen = net.norm(net.planes(screens[:2]).flatten(1))
    half = 100 / 255 / (100**2 / 255**2 + IMAGE_FLOOR) ** 0.5
    torch.testing.assert_close(seen[:, 0], torch.tensor([-half, half]), atol=1e-4, rtol=0)
    assert seen[:, 1:].abs().max() < 1e-5
    screens[:, 0, 7, 7] = 225
    assert net.norm(net.planes(screens[:1]).flatten(1))[0, -1].item() == pytest.approx(10 * 25 / 255, abs=1e-4)
    assert not torch.equal(encoder([screens[:2]]), encoder_of(SCREEN)([screens[:2]]))


def test_an_encoder_can_go_by_the_statistics_of_another() -> None:
    """Of vectors and of images, and not only as they were when it was told."""
    space = spaces.Dict(a=spaces.Box(-9, 9, (2,)), b=SCREEN)
    first, second = encoder_of(space, normalise=True), encoder_of(space, normalise=True)
    second.share_normalisers(first)
    leaves = [torch.rand(4, 2), torch.randint(0, 255, (4, 1, 8, 8), dtype=torch.uint8)]
    first.update_normalisers(leaves)
    assert torch.equal(first(leaves), second(leaves))


@pytest.mark.parametrize("normalise", [False, True])
def test_a_flat_image_is_all_its_pixels(normalise: bool) -> None:
    """From 0 to 1, or as far from their own mean as vectors are: also a pixel that is rarely on."""
    leaves = leaves_of(spaces.Box(0, 255, (9, 9, 3), np.uint8))
    encoder = Encoder(leaves, normalise, "flat")
    images = torch.zeros(100, 9, 9, 3, dtype=torch.uint8)
    images[:2, 4, 5, 1] = 255
    encoder.update_normalisers([images])
    features = encoder([images])
    assert features.shape == (100, encoder.width) == (100, 243) and not encoder.is_trained
    on = features[0].max()
    assert on > 5 if normalise else on == 1


def test_a_small_image_of_greys_is_read_by_levels() -> None:
    """A number for each pixel and level: greys that are names need not be taken apart."""
    leaves = leaves_of(spaces.Box(0, 2, (9, 9), np.uint8))
    encoder = Encoder(leaves, False, "levels")
    image = torch.zeros(1, 9, 9, dtype=torch.uint8)
    image[0, 0, 0], image[0, 0, 1] = 1, 2
    features = encoder([image])
    assert features.shape == (1, encoder.width) == (1, 162) and not encoder.is_trained
    assert features[0, :4].tolist() == [1, 0, 1, 1] and features.sum() == 3
    normalised = Encoder(leaves, True, "levels")
    normalised.update_normalisers([image.repeat(4, 1, 1)])
    assert normalised([image]).abs().max() < 1e-3


def test_small_images_are_told_from_others() -> None:
    """By their shorter side, wherever the channels are; one larger image is enough to need convolutions."""
    shapes = {(10, 10, 3): True, (3, 40, 9): True, (12, 12, 3): False, (84, 84, 4): False}
    for shape, small in shapes.items():
        assert all_images_small(leaves_of(spaces.Box(0, 255, shape, np.uint8))) is small
    both = spaces.Tuple([spaces.Box(0, 255, shape, np.uint8) for shape in ((10, 10, 3), (84, 84, 3))])
    assert not all_images_small(leaves_of(both))


def test_a_huge_layer_is_made_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are nearly orthogonal and of the right length, without the decomposition that takes minutes."""
    monkeypatch.setattr(networks, "HUGE_LAYER", 1 << 16)
    torch.manual_seed(0)
    weight = orthogonal(nn.Linear(1 << 14, 8), gain=2.0).weight.detach()
    products = weight @ weight.T / 4
    torch.testing.assert_close(products, torch.eye(8), atol=0.05, rtol=0)


@pytest.mark.parametrize("width", [64, 256])
def test_initial_weights_do_not_depend_on_the_number_of_threads(width):
    """A run in the same process may have left torch with another number."""
    before, made = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            torch.manual_seed(0)
            made.append(orthogonal(nn.Linear(width, width)).weight.detach().clone())
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert torch.equal(made[0], made[1]) and torch.equal(made[0], made[2])
