"""Two processor instructions that numba has no name for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic


def _lowest_bit(typing: Any, word: Any) -> Any:
    """The number of the lowest bit that is set in a 64-bit ``word``, which may not be 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


lowest_bit: Callable[..., Any] = intrinsic(_lowest_bit)


def _prefetch(typing: Any, array: Any, at: Any) -> Any:
    """Let the processor fetch ``array[at]`` into its cache while it works on; nothing is read, so ``at`` may lie anywhere."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = builder.bitcast(builder.gep(made.data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")  # type: ignore[no-untyped-call]
        builder.call(function, [pointer, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


prefetch: Callable[..., Any] = intrinsic(_prefetch)
