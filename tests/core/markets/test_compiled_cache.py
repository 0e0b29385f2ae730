"""The machine code on disk is that of these very sources: no kernel file is left out of the digest that names its folder."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from core import markets
from core.markets.kernels import compiled

FOLDER = Path(markets.__file__).parent


def imported(path: Path) -> set[str]:
    """Files of `core.markets`, as KERNELS names them, that ``path`` takes something from."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("core.markets."):
            module = node.module.removeprefix("core.markets.").replace(".", "/")
            found |= {module, *(f"{module}/{alias.name}" for alias in node.names)}
    return {name for name in found if (FOLDER / f"{name}.py").is_file()}


def test_every_file_with_a_compiled_function_and_every_one_it_reads_from_is_in_the_digest():
    files = {path.relative_to(FOLDER).with_suffix("").as_posix(): path for path in FOLDER.rglob("*.py")}
    decorated = {name for name, path in files.items() if "\n@compiled\n" in (text := path.read_text()) or "\n@inlined\n" in text}
    assert len(decorated) > 10
    assert decorated <= set(compiled.KERNELS)
    read = set().union(*(imported(files[name]) for name in decorated)) - {"kernels/compiled", "kernels/rows"}
    assert read <= set(compiled.KERNELS)


def test_every_named_kernel_file_is_there():
    assert [name for name in compiled.KERNELS if not (FOLDER / f"{name}.py").is_file()] == []


@pytest.mark.parametrize("name", compiled.KERNELS)
def test_a_change_in_any_kernel_file_gives_another_folder(name, monkeypatch):
    before, read = compiled.cache_folder.__wrapped__(), Path.read_bytes
    changed = (FOLDER / f"{name}.py").resolve()
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + (b"#" if path.resolve() == changed else b""))
    assert compiled.cache_folder.__wrapped__() != before
