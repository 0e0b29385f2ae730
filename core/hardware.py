"""Named accelerators and links, every figure with its source, and how long an operation takes on them.

Compute figures are dense (no structured sparsity). Bandwidths are bytes a second in one direction.
"""

from __future__ import annotations

import msgspec

from core.errors import BadInput, nearest

GIB = 2**30


class Accelerator(msgspec.Struct, frozen=True, kw_only=True):
    """One device. ``flops`` maps a number format to dense FLOP/s; bytes and bytes/s elsewhere; ``on_chip`` is shared memory and L1."""

    name: str
    flops: dict[str, float]
    memory: float
    bandwidth: float
    l2: float
    on_chip: float
    processors: int
    shared_per_block: float
    link: str
    source: str

    def ridge_point(self, dtype: str = "bf16") -> float:
        """Arithmetic intensity (FLOP per byte) above which compute is the bound (Williams et al., 2009)."""
        return self.flops[dtype] / self.bandwidth


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A connection between ranks: ``bandwidth`` bytes/s one way, ``latency`` s for a message (alpha)."""

    name: str
    bandwidth: float
    latency: float
    source: str

    def time(self, size: float, messages: int = 1) -> float:
        """alpha x messages + bytes / bandwidth, in seconds."""
        return self.latency * messages + size / self.bandwidth


_NVIDIA = "NVIDIA {} data sheet; latency is a round figure for a kernel-driven hop"
ACCELERATORS: dict[str, Accelerator] = {
    a.name: a
    for a in (
        Accelerator(
            name="a100_40", flops={"bf16": 312e12, "fp16": 312e12, "fp32": 19.5e12}, memory=40 * GIB, bandwidth=1.555e12, l2=40e6,
            on_chip=192e3 * 108, processors=108, shared_per_block=163e3, link="nvlink_a100", source="NVIDIA A100 data sheet",
        ),
        Accelerator(
            name="a100", flops={"bf16": 312e12, "fp16": 312e12, "fp32": 19.5e12}, memory=80 * GIB, bandwidth=2.039e12, l2=40e6,
            on_chip=192e3 * 108, processors=108, shared_per_block=163e3, link="nvlink_a100", source="NVIDIA A100 data sheet",
        ),
        Accelerator(
            name="h100", flops={"bf16": 989e12, "fp16": 989e12, "fp8": 1979e12, "fp32": 67e12}, memory=80 * GIB, bandwidth=3.35e12, l2=50e6,
            on_chip=256e3 * 132, processors=132, shared_per_block=227e3, link="nvlink_h100", source="NVIDIA H100 SXM data sheet",
        ),
        Accelerator(
            name="h200", flops={"bf16": 989e12, "fp16": 989e12, "fp8": 1979e12, "fp32": 67e12}, memory=139 * GIB, bandwidth=4.8e12, l2=50e6,
            on_chip=256e3 * 132, processors=132, shared_per_block=227e3, link="nvlink_h100",
            source="NVIDIA H200 data sheet; memory as torch reports it",
        ),
        Accelerator(
            name="b200", flops={"bf16": 2250e12, "fp16": 2250e12, "fp8": 4500e12, "fp32": 80e12}, memory=180e9, bandwidth=8.0e12, l2=126e6,
            on_chip=256e3 * 148, processors=148, shared_per_block=227e3, link="nvlink_b200", source="NVIDIA B200 data sheet",
        ),
    )
}  # fmt: skip
LINKS: dict[str, Link] = {
    k.name: k
    for k in (
        Link(name="nvlink_a100", bandwidth=300e9, latency=2e-6, source=_NVIDIA.format("A100 NVLink 3")),
        Link(name="nvlink_h100", bandwidth=450e9, latency=2e-6, source=_NVIDIA.format("H100 NVLink 4")),
        Link(name="nvlink_b200", bandwidth=900e9, latency=2e-6, source=_NVIDIA.format("B200 NVLink 5")),
        Link(name="infiniband_ndr", bandwidth=50e9, latency=5e-6, source=_NVIDIA.format("Quantum-2 NDR 400 Gb/s")),
        Link(name="pcie4", bandwidth=25e9, latency=5e-6, source="PCI Express 4 x16, about 25 GB/s effective of 31.5"),
        Link(name="pcie5", bandwidth=50e9, latency=5e-6, source="PCI Express 5 x16, about 50 GB/s effective of 63"),
    )
}


def accelerator(name: str) -> Accelerator:
    """The named accelerator; BadInput names the nearest."""
    if name not in ACCELERATORS:
        raise BadInput("accelerator", f"unknown name {name!r}", nearest(name, ACCELERATORS))
    return ACCELERATORS[name]


def link(name: str) -> Link:
    """The named link; BadInput names the nearest."""
    if name not in LINKS:
        raise BadInput("link", f"unknown name {name!r}", nearest(name, LINKS))
    return LINKS[name]


def operation_time(flop: float, moved: float, on: Accelerator, dtype: str = "bf16") -> float:
    """Seconds of one operation under the roofline: the longer of compute (FLOP / peak) and memory (bytes / bandwidth)."""
    return max(flop / on.flops[dtype], moved / on.bandwidth)
