"""Networks that read images as a GPU computes them fast: the same products, in another order of memory. Of `ImageNet`:

- Bytes stay bytes until the first convolution, and the division by 255 moves into its weights: 256 levels are exact in
  bf16, their quotients are not.
- Planes lie beside each other (channels last). A convolution with stride s on C planes is one with stride 1 on
  s * s * C planes of an image whose pixels are blocks of s x s pixels. Four planes would leave most of a tensor core
  idle.
- A convolution adds its bias and cuts off negative numbers itself.

`ResidualImageNet` has its planes beside each other, and torch's products.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.learners.image_nets import ImageInput, ImageNet, ResidualImageNet
from rookery.learners.kernels.gpu.triton_support import has_kernels

MANY_PLANES = 32  # from here on a convolution with a stride is as fast as one on blocks, which have to be written first


def image_features(net: ImageInput, image: Tensor, dtype: torch.dtype) -> Tensor:
    """`net(image)`, computed in `dtype`."""
    if isinstance(net, ResidualImageNet):
        planes = net.normalised(image).contiguous(memory_format=torch.channels_last)
        with torch.autocast(image.device.type, dtype, enabled=dtype != torch.float32, cache_enabled=False):
            return net.of_planes(planes).float()
    assert isinstance(net, ImageNet)  # other networks have nothing to compute
    scale = 1.0
    if net.norm is None and net.leaf.byte:
        pixels, scale = _channels_last(net, image), 1.0 / 255.0
    else:
        pixels = net.normalised(image).movedim(1, -1)
    for layer in net.convolutions:
        if isinstance(layer, nn.Conv2d):
            pixels = _convolved(pixels, layer, scale, dtype)
            scale = 1.0
    linear: nn.Linear = net.project[0]  # type: ignore[assignment]
    weight = linear.weight.view(len(linear.weight), pixels.shape[3], -1).transpose(1, 2).reshape(linear.weight.shape)
    features = functional.linear(pixels.flatten(1), weight.to(dtype), linear.bias.to(dtype))
    return torch.relu(features).float()


def _channels_last(net: ImageNet, image: Tensor) -> Tensor:
    """[batch, height, width, planes]"""
    if len(net.leaf.shape) == 2:
        return image.unsqueeze(-1)
    return image if net.leaf.channels_last else image.movedim(1, -1)


def _convolved(pixels: Tensor, layer: nn.Conv2d, scale: float, dtype: torch.dtype) -> Tensor:
    """A layer and its relu on [batch, height, width, planes]."""
    weight, kernel, stride = layer.weight, layer.kernel_size[0], layer.stride[0]
    weight = (weight if scale == 1.0 else weight * scale).to(dtype)
    if stride > 1 and kernel % stride == 0 and layer.in_channels < MANY_PLANES:
        pixels, weight, stride = _in_blocks(pixels, kernel, stride, dtype), _in_planes(weight, stride), 1
    planes = pixels.to(dtype).movedim(-1, 1)
    weight = weight.contiguous(memory_format=torch.channels_last)
    return ConvolutionRelu.apply(planes, weight, layer.bias.to(dtype), stride).movedim(1, -1)  # type: ignore[union-attr]


def _in_blocks(pixels: Tensor, kernel: int, stride: int, dtype: torch.dtype) -> Tensor:
    """Blocks of stride x stride pixels as pixels; a rest at the end that no output depends on is dropped. Moving and
    converting are one pass over memory."""
    batch, height, width, planes = pixels.shape
    rows, columns = ((size - kernel) // stride + kernel // stride for size in (height, width))
    if pixels.dtype == torch.uint8 and pixels.is_contiguous() and has_kernels(pixels.device):
        from rookery.learners.kernels.gpu.pixel_kernels import pixel_blocks

        return pixel_blocks(pixels, rows, columns, stride, dtype)
    pixels = pixels[:, : rows * stride, : columns * stride]
    blocks = pixels.reshape(batch, rows, stride, columns, stride, planes).transpose(2, 3)
    blocks = blocks.to(dtype, memory_format=torch.contiguous_format)
    return blocks.reshape(batch, rows, columns, stride * stride * planes)


def _in_planes(weight: Tensor, stride: int) -> Tensor:
    """The weights that belong to `_in_blocks`."""
    outputs, planes, kernel, _ = weight.shape
    blocks = weight.view(outputs, planes, kernel // stride, stride, kernel // stride, stride)
    return blocks.permute(0, 3, 5, 1, 2, 4).reshape(outputs, -1, kernel // stride, kernel // stride)


def _fused(planes: Tensor, weight: Tensor, bias: Tensor, stride: int) -> Tensor | None:
    """By cuDNN; None where there is none, or none for these sizes."""
    if torch.version.hip is not None or not torch.backends.cudnn.enabled:
        return None
    try:
        return torch.cudnn_convolution_relu(planes, weight, bias, [stride, stride], [0, 0], [1, 1], 1)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:
        return None


class ConvolutionRelu(torch.autograd.Function):
    """A convolution, its bias and relu as one operation: on a GPU the outputs are written once."""

    @staticmethod
    def forward(ctx: Any, planes: Tensor, weight: Tensor, bias: Tensor, stride: int) -> Tensor:
        out = _fused(planes, weight, bias, stride) if planes.is_cuda else None
        if out is None:
            out = torch.relu(functional.conv2d(planes, weight, bias, stride))
        ctx.save_for_backward(planes, weight, out)
        ctx.stride = stride
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        planes, weight, out = ctx.saved_tensors
        gradient = torch.ops.aten.threshold_backward(gradients[0], out, 0.0)
        needed = [ctx.needs_input_grad[0], True, True]
        sides = [ctx.stride, ctx.stride], [0, 0], [1, 1], False, [0, 0], 1
        parts = torch.ops.aten.convolution_backward(gradient, planes, weight, [len(weight)], *sides, needed)
        return (*parts, None)
