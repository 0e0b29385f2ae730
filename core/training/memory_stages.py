"""A model cut into pipeline stages: which layers each rank of the pipeline holds, and how many microbatches are in flight there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.errors import BadInput
from core.training.memory_model import Model


@dataclass(frozen=True)
class Stages:
    """``layers``: (chunks, stages) layers of every chunk; ``counts``: (stages, chunks, kinds) how many of each kind."""

    size: int
    chunks: int
    layers: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, model: Model, stages: int, chunks: int = 1, given: tuple[int, ...] = (), where: str = "stage_layers") -> Stages:
        """Chunk c of rank r is part c x stages + r of the model (loop placement). Without ``given`` the first parts take what
        is left over. BadInput for more parts than layers, or given numbers that do not add up."""
        total, parts = model.shape.layers, stages * chunks
        if parts > total:
            raise BadInput(where, f"{stages} stages x {chunks} chunks for {total} layers", "at least one layer in every chunk")
        if given:
            if len(given) != parts:
                raise BadInput(where, f"found {len(given)} numbers", f"{parts}, one for each chunk of the model in its order")
            if sum(given) != total or min(given) < 1:
                raise BadInput(where, f"{', '.join(map(str, given))} add up to {sum(given)}", f"{total} layers, at least 1 in each")
            sizes = np.array(given)
        else:
            sizes = np.full(parts, total // parts) + (np.arange(parts) < total % parts)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        kinds = np.eye(len(model.kinds), dtype=np.int64)[model.kind_of]
        sums = np.concatenate([np.zeros((1, len(model.kinds)), dtype=np.int64), np.cumsum(kinds, axis=0)])
        per_part = sums[ends[1:]] - sums[ends[:-1]]
        counts = per_part.reshape(chunks, stages, -1).transpose(1, 0, 2)
        return cls(stages, chunks, sizes.reshape(chunks, stages), counts)

    def in_flight(self, microbatches: np.ndarray) -> np.ndarray:
        """(stages, chunks, layouts) microbatches whose activations a chunk holds when its rank begins its first backward.

        1F1B holds p - r on rank r; interleaved, (v - 1)p + 2(p - 1 - r) + 1 chunks in rounds of p (arXiv 2104.04473), so the
        first rank holds 1 + (p - 1)/(pv) of the model (arXiv 2205.05198). Never more than there are microbatches.
        """
        p, v = self.size, self.chunks
        rank = np.arange(p)[:, None, None]
        m = np.asarray(microbatches, dtype=np.float64)[None, None, :]
        if v == 1:
            return np.minimum(p - rank, m)
        warm = (v - 1) * p + 2 * (p - 1 - rank) + 1
        rounds, rest = np.divmod(warm, p * v)
        chunk = np.arange(v)[None, :, None]
        held: np.ndarray = np.minimum(rounds * p + np.clip(rest - chunk * p, 0, p), m)
        return held

    def rows(self, stage: int) -> list[tuple[int, int]]:
        """(first layer, layers) of every chunk of a stage."""
        ends = np.concatenate([[0], np.cumsum(self.layers.reshape(-1))])
        return [(int(ends[c * self.size + stage]), int(self.layers[c, stage])) for c in range(self.chunks)]
