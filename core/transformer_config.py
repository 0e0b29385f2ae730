"""The keys of a config.json, read by meaning: several names for one thing, and what is missing or contradictory is named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from core.errors import BadInput
from core.files import refuse_special

LARGEST_FILE = 16 * 2**20
"""A config.json is a few kB; anything above this many bytes is some other file."""
KIND = "the config.json of a decoder-only transformer"

ALIASES: dict[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads"),
    "ffn": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "vocabulary": ("vocab_size",),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "top_k": ("num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_k"),
    "positions": ("n_positions", "max_position_embeddings"),
    "shared experts": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
    "shared width": ("shared_expert_intermediate_size", "shared_intermediate_size"),
    "expert width": ("moe_intermediate_size",),
}


class Config:
    """One config's keys. ``where`` stands before the key in error messages."""

    def __init__(self, raw: Mapping[str, object], where: str) -> None:
        self.raw = raw
        self.where = where

    def whole(self, meaning: str, default: int | None = None, least: int = 1) -> int:
        """The whole number under any name of ``meaning``. BadInput when it is missing (without a default) or two names disagree."""
        value = self.optional(meaning, least)
        if value is not None:
            return value
        if default is None:
            raise BadInput(f"{self.where}: {_names(meaning)[0]}", "missing", KIND)
        return default

    def optional(self, meaning: str, least: int = 0) -> int | None:
        found: dict[str, int] = {}
        for name in _names(meaning):
            if self.raw.get(name) is not None:
                found[name] = self._checked(name, self.raw[name], least)
        if len(set(found.values())) > 1:
            both = " and ".join(f"{name} {value:,}" for name, value in found.items())
            raise BadInput(f"{self.where}: {next(iter(found))}", f"{both} contradict each other", "one value for one size")
        return next(iter(found.values()), None)

    def flag(self, name: str, rule: bool | None = None) -> bool:
        """What the family says, else what the key ``name`` says. BadInput for a value that is neither true nor false."""
        if rule is not None:
            return rule
        value = self.raw.get(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise BadInput(f"{self.where}: {name}", f"found {value!r}", "true or false")
        return value

    def numbers(self, name: str) -> frozenset[int]:
        value = self.raw.get(name)
        return frozenset(v for v in value if isinstance(v, int)) if isinstance(value, list) else frozenset()

    def refuse(self, name: str, found: str, allowed: str) -> BadInput:
        return BadInput(f"{self.where}: {name}", found, allowed)

    def _checked(self, name: str, value: object, least: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least or value > 10**12:
            raise BadInput(f"{self.where}: {name}", f"found {value!r}", f"a whole number from {least}")
        return value


def _names(meaning: str) -> tuple[str, ...]:
    return ALIASES.get(meaning, (meaning,))


def load(path: Path) -> dict[str, object]:
    """The JSON object in ``path``. BadInput names the file and what is wrong with it."""
    where = str(path)
    refuse_special(path, KIND)
    try:
        if path.is_file() and path.stat().st_size > LARGEST_FILE:
            raise BadInput(where, f"{path.stat().st_size:,} bytes", f"{KIND}, at most {LARGEST_FILE:,} bytes")
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(where, error.strerror or str(error), KIND) from None
    if not content.strip():
        raise BadInput(where, "the file is empty", KIND)
    try:
        raw = json.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadInput(where, f"byte {error.start} is not UTF-8", KIND) from None
    except json.JSONDecodeError as error:
        raise BadInput(f"{where} line {error.lineno} column {error.colno}", f"not JSON: {error.msg}", KIND) from None
    except (RecursionError, ValueError):
        raise BadInput(where, "JSON nested too deeply, or with a number too long", KIND) from None
    if not isinstance(raw, dict):
        raise BadInput(where, f"the JSON is a {type(raw).__name__}", "an object with keys such as hidden_size")
    return raw
