"""Where the tensors that autograd saves live: kept on the device, moved to the host, or not kept at all until they are computed again.

All of it hangs on `torch.autograd.graph.saved_tensors_hooks`, as `torch.utils.checkpoint` (non-reentrant) and `save_on_cpu` do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef

from core.training.recompute_setup import LABELS, STATISTICS

HOST = "cpu"


class Block:
    """One storage that waits for backward: on the device, in host memory, or given up (neither)."""

    __slots__ = ("device", "host", "label")

    def __init__(self, tensor: Tensor) -> None:
        self.device: Tensor | None = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())
        self.host: Tensor | None = None
        self.label = ""


class Saved:
    """What autograd holds in place of a tensor: a view of a block, or nothing yet."""

    __slots__ = ("block", "offset", "size", "stride")

    def __init__(self) -> None:
        self.block: Block | None = None

    def fill(self, block: Block, view: Tensor) -> Saved:
        self.block, self.size, self.stride, self.offset = block, view.size(), view.stride(), view.storage_offset()
        return self

    def tensor(self) -> Tensor:
        """The tensor, from the device. RuntimeError when it has neither been recomputed nor copied in."""
        if self.block is None or self.block.device is None:
            raise RuntimeError("a saved tensor is used that is not on the device")
        return self.block.device.as_strided(self.size, self.stride, self.offset)


@dataclass
class Frame:
    """A checkpointed stretch: its inputs are kept, and ``holders`` wait, by layer, for what autograd saves when it is run again."""

    inputs: list[Saved]
    holders: dict[int, list[Saved]] = field(default_factory=dict)


class _Enough(Exception):
    """All holders are full: what is left of the stretch need not be run (torch.utils.checkpoint stops here too)."""


class Store:
    """All blocks, by layer. Tensors of ``parameters`` stay where they are and are not counted."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.layer = 0
        self.blocks: dict[int, list[Block]] = {}
        self._own = {_storage(tensor) for tensor in parameters}
        self._on_device: dict[int, Block] = {}
        self._labels: dict[int, str] = {}
        self._ever_saved: dict[int, tuple[StorageWeakRef, int]] = {}
        self._dropping = False

    # forward -----------------------------------------------------------------------------------------------------------

    def mark(self, name: str, tensor: Tensor) -> Tensor:
        """Name the storage of a tensor that backward will need; returns the tensor."""
        if not self._dropping:
            self._labels[_storage(tensor)] = name
        return tensor

    def keep(self, tensor: Tensor) -> Saved:
        """Keep a tensor for the layer that runs; views of one storage share its block."""
        self._see(tensor)
        key = _storage(tensor)
        block = self._on_device.get(key)
        if block is None:
            block = self._on_device[key] = Block(tensor)
            self.blocks.setdefault(self.layer, []).append(block)
        return Saved().fill(block, tensor)

    def keeping(self) -> saved_tensors_hooks:
        """Around a forward: whatever autograd saves is kept."""
        return self._hooks(self.keep)

    def dropping(self, frame: Frame) -> saved_tensors_hooks:
        """Around a forward: nothing that autograd saves is kept; ``frame`` counts the holders to be filled later."""
        holders = frame.holders.setdefault(self.layer, [])

        def pack(tensor: Tensor) -> Saved:
            self._see(tensor)
            holders.append(Saved())
            return holders[-1]

        return self._hooks(pack)

    def run(self, hooks: saved_tensors_hooks, function: Callable[..., Tensor], *inputs: Tensor, dropping: bool = False) -> Tensor:
        """``function(*inputs)`` under ``hooks``; names given inside stay only with what is kept."""
        before, self._dropping = self._dropping, dropping
        try:
            with hooks:
                return function(*inputs)
        finally:
            self._dropping = before

    # backward ----------------------------------------------------------------------------------------------------------

    def rerun(self, frame: Frame, function: Callable[..., Tensor], *inputs: Tensor, last: bool) -> Tensor | None:
        """Run a stretch again to fill the holders of the current layer, each in turn; its output, None if it stopped early (``last``).

        RuntimeError when it saves more or fewer tensors than it did the first time.
        """
        holders = iter(frame.holders[self.layer])
        left = len(frame.holders[self.layer])

        def pack(tensor: Tensor) -> Saved:
            nonlocal left
            holder = next(holders, None)
            if holder is None:
                raise RuntimeError("running a stretch again saves more tensors than before")
            left -= 1
            kept = self.keep(tensor)
            assert kept.block is not None
            holder.fill(kept.block, tensor)
            if last and not left:
                raise _Enough
            return holder

        output: Tensor | None = None
        try:
            with torch.enable_grad():
                output = self.run(self._hooks(pack), function, *(x.detach().requires_grad_() for x in inputs)).detach()
        except _Enough:
            pass
        if left:
            raise RuntimeError(f"running a stretch again saves {left} tensors fewer than before")
        return output

    def labels(self, layer: int) -> tuple[str, ...]:
        """What of a layer is on the device, each name once; what has no name are the norms' statistics.

        Call it only when the layer has run: some tensors are saved before they are named.
        """
        mine = self.blocks.get(layer, [])
        found = set()
        for key, block in self._on_device.items():
            if block in mine:
                block.label = block.label or self._labels.get(key, STATISTICS)
                found.add(block.label)
        return tuple(sorted(found, key=lambda label: LABELS.index(label) if label in LABELS else len(LABELS)))

    def offload(self, layer: int) -> int:
        """Copy a layer's blocks to the host and give up the device's; returns the bytes that moved."""
        moved = 0
        for block in self.blocks[layer]:
            if block.device is not None:
                block.host = block.device.to(HOST, copy=True)
                moved += block.host.untyped_storage().nbytes()
                self._give_up(block)
        return moved

    def fetch(self, layer: int, device: str) -> int:
        """Copy a layer's blocks back from the host; returns the bytes that moved."""
        moved = 0
        for block in self.blocks[layer]:
            if block.host is not None:
                block.device, block.host = block.host.to(device, copy=True), None
                moved += block.device.untyped_storage().nbytes()
                self._on_device[_storage(block.device)] = block
                self._labels[_storage(block.device)] = block.label
                self._see(block.device)
        return moved

    def free(self, layer: int) -> None:
        """The layer's backward is done: nothing of it is needed any more."""
        for block in self.blocks.pop(layer, []):
            self._give_up(block)

    # counting ----------------------------------------------------------------------------------------------------------

    def alive(self) -> int:
        """Bytes of all storages that autograd has ever saved here and that anybody still holds: counted by weak reference."""
        self._ever_saved = {key: seen for key, seen in self._ever_saved.items() if not _gone(seen[0])}
        return sum(size for _, size in self._ever_saved.values())

    def in_host(self) -> int:
        """Bytes held in host memory."""
        hosts = [block.host for blocks in self.blocks.values() for block in blocks if block.host is not None]
        return sum(host.untyped_storage().nbytes() for host in hosts)

    def _give_up(self, block: Block) -> None:
        if block.device is not None:
            self._labels.pop(_storage(block.device), None)
            del self._on_device[_storage(block.device)]
            block.device = None

    def _see(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if _storage(tensor) not in self._ever_saved or _gone(self._ever_saved[_storage(tensor)][0]):
            self._ever_saved[_storage(tensor)] = StorageWeakRef(storage), storage.nbytes()  # type: ignore[no-untyped-call]

    def _hooks(self, pack: Callable[[Tensor], Saved]) -> saved_tensors_hooks:
        def hook(tensor: Tensor) -> Tensor | Saved:
            return tensor.detach() if _storage(tensor) in self._own else pack(tensor)

        return saved_tensors_hooks(hook, lambda saved: saved.tensor() if isinstance(saved, Saved) else saved)


def _gone(reference: StorageWeakRef) -> bool:
    return bool(reference.expired())  # type: ignore[no-untyped-call]


def _storage(tensor: Tensor) -> int:
    """What two tensors of one storage have in common."""
    return int(tensor.untyped_storage()._cdata)
