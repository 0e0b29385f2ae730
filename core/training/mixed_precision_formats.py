"""Number formats bit by bit: how BF16, FP16 and FP8 codes are read, and how a value is rounded to them, to nearest or by chance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Format:
    """Sign, ``exponent`` and ``mantissa`` bits. Without ``infinities`` (E4M3) only the all-ones code is no number (arXiv 2209.05433)."""

    name: str
    dtype: torch.dtype
    exponent: int
    mantissa: int
    infinities: bool = True

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def bias(self) -> int:
        return int(2 ** (self.exponent - 1)) - 1

    @property
    def smallest(self) -> float:
        """The smallest number above zero, a subnormal; what is at most half of it rounds to zero."""
        return float(2.0 ** (1 - self.bias - self.mantissa))

    @property
    def largest(self) -> float:
        """The largest finite number."""
        top = 2**self.exponent - 1 - (1 if self.infinities else 0) - self.bias
        fraction = 2 - 2.0**-self.mantissa * (1 if self.infinities else 2)
        return float(fraction * 2.0**top)


FP32 = Format("FP32", torch.float32, 8, 23)
BF16 = Format("BF16", torch.bfloat16, 8, 7)
FP16 = Format("FP16", torch.float16, 5, 10)
E4M3 = Format("E4M3", torch.float8_e4m3fn, 4, 3, infinities=False)
E5M2 = Format("E5M2", torch.float8_e5m2, 5, 2)
FORMATS = (FP32, BF16, FP16, E4M3, E5M2)
_CODES = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


def codes(values: Tensor, form: Format) -> Tensor:
    """The bit patterns of ``values`` (of the format's dtype), as int64 from 0 to 2**bits - 1."""
    return torch.bitwise_and(values.contiguous().view(_CODES[form.bytes]).to(torch.int64), 2**form.bits - 1)


def fields(code: int, form: Format) -> tuple[str, str, str]:
    """Sign, exponent and mantissa of one code, as digits."""
    text = f"{code:0{form.bits}b}"
    return text[0], text[1 : 1 + form.exponent], text[1 + form.exponent :]


def decode(code: Tensor, form: Format) -> Tensor:
    """What codes (int64) mean, in fp64: (-1)^s 2^(e - bias) (1 + m / 2^M), with e = 0 for subnormals; formats up to 32 bits."""
    sign = torch.where((code >> (form.bits - 1)) & 1 == 1, -1.0, 1.0).double()
    e = (code >> form.mantissa) & (2**form.exponent - 1)
    m = (code & (2**form.mantissa - 1)).double()
    power = torch.exp2((e.clamp(min=1) - form.bias).double())
    value = sign * power * ((e > 0).double() + m / 2**form.mantissa)
    top = e == 2**form.exponent - 1
    if form.infinities:
        value = torch.where(top, torch.where(m == 0, sign * torch.inf, torch.nan), value)
    else:
        value = torch.where(top & (m == 2**form.mantissa - 1), torch.nan, value)
    return value


def gap(value: Tensor, form: Format) -> Tensor:
    """Distance in fp64 from each value to the next number of the format that is larger in size."""
    _, exponent = torch.frexp(value.double())  # value = f 2^exponent with f in [0.5, 1)
    least = 1 - form.bias - form.mantissa
    power = (exponent.double() - 1 - form.mantissa).clamp(min=least)
    return torch.exp2(torch.where(value == 0, torch.full_like(power, least), power))


def nearest(values: Tensor, form: Format) -> Tensor:
    """Round to nearest, ties to even, in fp64: what a conversion must give, by arithmetic alone.

    Beyond the largest number it is infinity, or the largest number where the format has none.
    """
    exact = values.double()
    step = gap(exact, form)
    rounded = torch.where(torch.isfinite(exact), torch.round(exact / step) * step, exact)
    beyond = rounded.abs() > form.largest
    end = torch.full_like(rounded, torch.inf if form.infinities else form.largest)
    return torch.where(beyond, torch.copysign(end, exact), rounded)


def stochastic_bf16(values: Tensor, generator: torch.Generator) -> Tensor:
    """Round fp32 to BF16 up or down by chance, so that the mean is the value itself: add 16 random bits, then cut 16 bits off."""
    noise = torch.randint(0, 2**16, values.shape, generator=generator, dtype=torch.int32).to(values.device)
    cut = ((values.contiguous().view(torch.int32) + noise) & -(2**16)).view(torch.float32)
    return torch.where(torch.isfinite(values), cut, values).to(torch.bfloat16)


def running_sum_of_ones(count: int, form: Format, device: str) -> float:
    """Add 1 ``count`` times to a sum that is held in the format."""
    total = torch.zeros((), dtype=form.dtype, device=device)
    one = torch.ones((), dtype=form.dtype, device=device)
    for _ in range(count):
        total = total + one
    return float(total)


def quantise(values: Tensor, form: Format) -> tuple[Tensor, Tensor]:
    """An FP8 tensor and its scale (fp32, a scalar): values x scale has its largest below the format's largest number.

    The scale is a power of two, so it changes no digits and seldom changes at all (as in arXiv 2310.10537).
    """
    exact = values.detach().float()
    largest = exact.abs().amax()
    scale = torch.where(largest > 0, torch.exp2(torch.floor(torch.log2(form.largest / largest))), torch.ones_like(largest))
    return (exact * scale).clamp(-form.largest, form.largest).to(form.dtype), scale
