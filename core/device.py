"""Where tensors live: cpu or cuda, checked before a simulation starts."""

from __future__ import annotations

from core.errors import BadInput


def require(device: str) -> None:
    """Raise BadInput unless ``device`` ("cpu", "cuda", "cuda:1") exists on this machine. Imports torch."""
    import torch

    try:
        wanted = torch.device(device)
    except RuntimeError:
        raise BadInput("device", f"found {device!r}", "cpu, cuda or cuda:<number>") from None
    if wanted.type == "cpu":
        return
    if wanted.type != "cuda":
        raise BadInput("device", f"found {device!r}", "cpu, cuda or cuda:<number>")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if (wanted.index or 0) >= count:
        here = f"this machine has {count} CUDA device{'s' if count != 1 else ''}"
        raise BadInput("device", f"found {device!r}, but {here}", "cpu" + (f", cuda:0 to cuda:{count - 1}" if count else ""))
