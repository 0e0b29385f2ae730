"""Router logits from a user's files: every format reads the same, and every bad file is one clear line."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from core.errors import BadInput
from core.moe import router_logits
from core.moe.router_logits import looks_like_logits, read_router_logits


def drawn(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3)).to(dtype)


def refused(path, tensor=""):
    with pytest.raises(BadInput) as caught:
        read_router_logits(path, tensor)
    line = str(caught.value)
    assert str(path) in line and "\n" not in line and len(line) < 600
    return line


@pytest.mark.parametrize("shape", [(5, 8), (3, 5, 8), (2, 3, 5, 8)])
@pytest.mark.parametrize("kind", ["npy", "npy_fortran", "safetensors", "pt", "pt_dict", "pt_list"])
def test_every_format_and_shape_reads_the_same_numbers(tmp_path, shape, kind):
    values = drawn(*shape)
    path = tmp_path / f"logits.{kind.partition('_')[0]}"
    if kind == "npy":
        np.save(path, values.numpy())
    elif kind == "npy_fortran":
        np.save(path, np.asfortranarray(values.numpy()))
    elif kind == "safetensors":
        save_file({"router_logits": values}, path)
    else:
        torch.save({"pt": values, "pt_dict": {"router": values}, "pt_list": [values]}[kind], path)
    got = read_router_logits(path)
    assert got.values.shape == (1,) * (4 - len(shape)) + shape
    assert np.array_equal(got.values.reshape(shape), values.numpy())
    assert got.values.dtype == np.float32


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("kind", ["npy", "safetensors", "pt"])
def test_other_widths_are_widened_without_loss(tmp_path, dtype, kind):
    values = drawn(6, 4, dtype=dtype)
    path = tmp_path / f"logits.{kind}"
    if kind == "npy":
        if dtype == torch.bfloat16:
            pytest.skip("numpy has no bfloat16")
        np.save(path, values.numpy())
    elif kind == "safetensors":
        save_file({"x": values}, path)
    else:
        torch.save(values, path)
    got = read_router_logits(path)
    assert got.values.dtype == (np.float64 if dtype == torch.float64 else np.float32)
    assert np.array_equal(got.values[0, 0], values.double().numpy())


def test_a_big_endian_npy_reads_the_same_numbers(tmp_path):
    values = drawn(6, 4).numpy()
    np.save(tmp_path / "a.npy", values.astype(">f4"))
    assert np.array_equal(read_router_logits(tmp_path / "a.npy").values[0, 0], values)


def test_a_list_of_equal_tensors_is_one_a_layer(tmp_path):
    layers = tuple(drawn(3, 5, 8))
    torch.save(layers, tmp_path / "a.pt")
    assert np.array_equal(read_router_logits(tmp_path / "a.pt").values[0], torch.stack(layers).numpy())
    torch.save([layers[0], layers[1][:4]], tmp_path / "b.pt")
    assert "item 1: shape (4, 8)" in refused(tmp_path / "b.pt")


def test_of_several_tensors_one_is_named(tmp_path):
    tensors = {"layer.0": drawn(5, 8), "layer.1": drawn(7, 8)}
    save_file(tensors, tmp_path / "a.safetensors")
    torch.save(tensors, tmp_path / "a.pt")
    for path in (tmp_path / "a.safetensors", tmp_path / "a.pt"):
        line = refused(path)
        assert "2 tensors" in line and "layer.0, layer.1" in line
        assert "did you mean 'layer.1'" in refused(path, "layer.1x")
        assert read_router_logits(path, "layer.1").values.shape == (1, 1, 7, 8)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    ("shape", "place", "words"),
    [
        ((5, 8), (3, 5), ": row 3, expert 5: found"),
        ((4, 5, 8), (2, 3, 5), ": layer 2, row 3, expert 5: found"),
        ((3, 4, 5, 8), (1, 2, 3, 5), ": step 1, layer 2, row 3, expert 5: found"),
    ],
)
def test_the_first_number_that_is_not_finite_is_named_by_its_place(tmp_path, bad, shape, place, words):
    values = drawn(*shape)
    values[place] = bad
    np.save(tmp_path / "a.npy", values.numpy())
    torch.save(values.bfloat16(), tmp_path / "a.pt")
    save_file({"x": values}, tmp_path / "a.safetensors")
    for name in ("a.npy", "a.pt", "a.safetensors"):
        assert words + f" {bad}" in refused(tmp_path / name)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.zeros(8, np.float32), "1 dimension, shape (8,)"),
        (np.float32(3), "0 dimensions"),
        (np.zeros((1, 1, 1, 2, 3), np.float32), "5 dimensions"),
        (np.zeros((0, 8), np.float32), "no values"),
        (np.zeros((5, 0), np.float32), "no values"),
        (np.zeros((5, 8), np.int64), "'<i8'"),
        (np.zeros((5, 8), bool), "'|b1'"),
        (np.zeros((5, 8), np.complex64), "'<c8'"),
        (np.array([["1.0", "2.0"]]), "'<U3'"),
        (np.zeros(3, [("a", "f4")]), "named fields"),
        (np.zeros((2, 5000), np.float32), "5,000 experts"),
        (np.zeros((70_000, 2), np.float32), "70,000 tokens"),
        (np.zeros((600, 2, 2), np.float32), "600 layers"),
        (np.zeros((5000, 1, 2, 2), np.float32), "5,000 steps"),
    ],
)  # fmt: skip
def test_an_array_that_cannot_be_logits_says_what_it_is(tmp_path, values, words):
    np.save(tmp_path / "a.npy", values)
    assert words in refused(tmp_path / "a.npy")
    if isinstance(values, np.ndarray) and values.dtype.kind in "fib" and values.dtype.names is None:
        torch.save(torch.from_numpy(values), tmp_path / "a.pt")
        line = refused(tmp_path / "a.pt")
        assert words in line or "values of type" in line


def test_ragged_rows_are_refused_and_never_unpickled(tmp_path):
    ragged = np.empty(2, dtype=object)
    ragged[:] = [[1.0, 2.0], [3.0]]
    np.save(tmp_path / "a.npy", ragged, allow_pickle=True)
    assert "unequal length" in refused(tmp_path / "a.npy")


class Trap:
    """Unpickling it would leave a mark."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pt_with_code_in_it_is_refused_and_the_code_never_runs(tmp_path, protocol):
    mark = tmp_path / "mark"
    torch.save({"logits": drawn(5, 8), "x": Trap(mark)}, tmp_path / "zip.pt")
    (tmp_path / "bare.pt").write_bytes(pickle.dumps(Trap(mark), protocol=protocol))
    np.save(tmp_path / "a.npy", np.array([Trap(mark)], dtype=object), allow_pickle=True)
    assert "more than plain tensors" in refused(tmp_path / "zip.pt")
    refused(tmp_path / "bare.pt")
    refused(tmp_path / "a.npy")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"logits": drawn(5, 8), "epoch": 3}, "entry 'epoch' is a int"),
        ([drawn(5, 8), "text"], "item 1 is a str"),
        ([], "an empty list"),
        ({}, "no tensor"),
        (3.5, "a float"),
        ({"a": {"b": drawn(5, 8)}}, "entry 'a' is a dict"),
        (drawn(5, 8).to_sparse(), "sparse"),
        (torch.zeros(5, 8, dtype=torch.complex64), "complex64"),
    ],
)
def test_a_pt_that_holds_something_else_says_what(tmp_path, content, words):
    torch.save(content, tmp_path / "a.pt")
    assert words in refused(tmp_path / "a.pt")


def test_files_that_are_missing_empty_foreign_or_folders_are_one_line(tmp_path):
    for suffix in ("npy", "pt", "safetensors"):
        path = tmp_path / f"a.{suffix}"
        assert "No such file" in refused(path)
        path.write_bytes(b"")
        assert "empty" in refused(path)
        path.write_bytes(b"tokens,experts\n1,2\n" * 30)
        refused(path)
        path.write_bytes(bytes(range(256)) * 8)
        refused(path)
        folder = tmp_path / f"folder.{suffix}"
        folder.mkdir()
        assert "folder" in refused(folder)
    (tmp_path / "a.csv").write_text("1,2")
    assert ".npy, .safetensors, .pt" in refused(tmp_path / "a.csv")


@pytest.mark.parametrize("suffix", ["npy", "pt", "safetensors"])
def test_a_file_cut_off_anywhere_is_one_line(tmp_path, suffix):
    whole = tmp_path / f"whole.{suffix}"
    if suffix == "npy":
        np.save(whole, drawn(64, 8).numpy())
    elif suffix == "pt":
        torch.save(drawn(64, 8), whole)
    else:
        save_file({"x": drawn(64, 8)}, whole)
    content = whole.read_bytes()
    cut = tmp_path / f"cut.{suffix}"
    for length in [1, 4, 7, 9, 11, 13, 40, 70, 100, *range(120, len(content), 211), len(content) - 1]:
        cut.write_bytes(content[:length])
        refused(cut)


@pytest.mark.parametrize("suffix", ["npy", "pt", "safetensors"])
def test_damaged_bytes_give_numbers_or_one_line_but_never_anything_else(tmp_path, suffix):
    whole = tmp_path / f"whole.{suffix}"
    if suffix == "npy":
        np.save(whole, drawn(8, 8).numpy())
    elif suffix == "pt":
        torch.save(drawn(8, 8), whole)
    else:
        save_file({"x": drawn(8, 8)}, whole)
    content = whole.read_bytes()
    random = np.random.default_rng(5)
    for _ in range(150):
        damaged = bytearray(content)
        for at in random.integers(0, min(len(content), 600), 3):
            damaged[at] = random.integers(0, 256)
        path = tmp_path / f"damaged.{suffix}"
        path.write_bytes(damaged)
        looks_like_logits(path)
        try:
            read_router_logits(path)
        except BadInput as error:
            assert "\n" not in str(error)


def test_a_safetensors_header_that_lies_about_its_bytes_is_refused(tmp_path):
    def write(header, data=b"\0" * 160):
        text = json.dumps(header).encode()
        (tmp_path / "a.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
        return refused(tmp_path / "a.safetensors")

    assert "160 bytes" in write({"x": {"dtype": "F32", "shape": [5, 8], "data_offsets": [0, 80]}})
    assert "ends within tensor 'x'" in write({"x": {"dtype": "F32", "shape": [5, 8], "data_offsets": [40, 200]}})
    assert "type I64" in write({"x": {"dtype": "I64", "shape": [5, 4], "data_offsets": [0, 160]}})
    assert "JSON" in write({"x": {"dtype": "F32", "shape": "5,8"}})
    assert "no tensor" in write({"__metadata__": {}})


@pytest.mark.parametrize("size", [True, 4.0, float("inf"), -4, "4", None, [4], 10**30])
@pytest.mark.parametrize("place", ["rows", "experts", "begin", "end"])
def test_a_size_in_a_safetensors_header_is_a_whole_number_or_one_line(tmp_path, size, place):
    sizes = {"rows": 6, "experts": 4, "begin": 0, "end": 96, place: size}
    header = {"x": {"dtype": "F32", "shape": [sizes["rows"], sizes["experts"]], "data_offsets": [sizes["begin"], sizes["end"]]}}
    text = json.dumps(header).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(96))
    assert not looks_like_logits(path) or place in ("begin", "end")
    refused(path)


def test_negative_sizes_whose_product_fits_are_refused(tmp_path):
    header = json.dumps({"x": {"dtype": "F32", "shape": [-6, -4], "data_offsets": [0, 96]}}).encode()
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(96))
    refused(tmp_path / "a.safetensors")


@pytest.mark.parametrize("shape", ["(True, 4)", "(6.0, 4)", "(-6, -4)", "(2**70, 4)", "(16and 4)", "6"])
def test_an_npy_header_with_another_kind_of_shape_is_one_line_and_no_warning(tmp_path, shape, recwarn):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".encode()
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(96))
    refused(path)
    assert not recwarn.list


def test_a_tensor_saved_as_a_negative_view_reads_the_same_numbers(tmp_path):
    values = drawn(5, 8)
    torch.save(torch._neg_view(values), tmp_path / "a.pt")
    assert np.array_equal(read_router_logits(tmp_path / "a.pt").values[0, 0], -values.numpy())


def test_a_file_with_too_many_numbers_is_refused_before_it_is_read(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", drawn(50, 8).numpy())
    monkeypatch.setattr(router_logits, "MAX_NUMBERS", 399)
    assert "400 numbers" in refused(tmp_path / "a.npy")


def test_looks_like_logits_goes_by_name_and_shape(tmp_path):
    np.save(tmp_path / "yes.npy", drawn(5, 8).numpy())
    np.save(tmp_path / "int.npy", np.zeros((5, 8), np.int32))
    np.save(tmp_path / "flat.npy", np.zeros(8, np.float32))
    save_file({"x": drawn(2, 5, 8)}, tmp_path / "yes.safetensors")
    save_file({"model.weight": drawn(5, 8), "model.norm": drawn(8)}, tmp_path / "weights.safetensors")
    save_file({"router_logits": drawn(5, 8), "hidden": drawn(5, 64)}, tmp_path / "named.safetensors")
    torch.save(drawn(5, 8), tmp_path / "yes.pt")
    (tmp_path / "text.pt").write_text("no")
    (tmp_path / "text.npy").write_text("no")
    (tmp_path / "text.csv").write_text("no")
    names = [p.name for p in sorted(tmp_path.iterdir()) if looks_like_logits(p)]
    assert names == ["named.safetensors", "yes.npy", "yes.pt", "yes.safetensors"]
    assert not looks_like_logits(tmp_path / "missing.npy") and not looks_like_logits(tmp_path)


def test_recognising_a_file_imports_neither_torch_nor_numpy(tmp_path):
    np.save(tmp_path / "a.npy", drawn(5, 8).numpy())
    save_file({"x": drawn(5, 8)}, tmp_path / "a.safetensors")
    torch.save(drawn(5, 8), tmp_path / "a.pt")
    code = (
        "import sys; from core.moe.router_logits import looks_like_logits as f;"
        f"assert all(f('{tmp_path}/a.' + s) for s in ('npy', 'safetensors', 'pt'));"
        "assert not {'torch', 'numpy'} & set(sys.modules), 'heavy import'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
