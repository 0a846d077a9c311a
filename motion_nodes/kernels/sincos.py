# SPDX-License-Identifier: Apache-2.0
"""Sine and cosine together, as LLVM code for any number of lanes.

The C library has no portable vector version, and two calls per joint would cost more than the rest
of the kinematics. The angle is reduced to [-pi/4, pi/4] by subtracting a multiple k of pi/2 in
three fused steps, two polynomials give sine and cosine there, and the last two bits of k select
which of them is which and with what sign. Source of the reduction: Cody and Waite, Software Manual
for the Elementary Functions (1980).
"""

from __future__ import annotations

from dataclasses import dataclass

from motion_nodes.kernels.simd import Writer


@dataclass(frozen=True)
class _Precision:
    """Constants of one element type."""

    half_pi: tuple[float, float, float]
    """pi/2 as an unevaluated sum: its rounded value, that of the remainder, and so on."""
    magic: float
    """1.5 * 2^(mantissa bits): adding it rounds to an integer, stored in the low bits."""
    largest: float
    """Max angle for which that works [rad]; beyond it the result is NaN."""
    sine: tuple[float, ...]
    """sin(r) = r + r^3 (s0 + s1 r^2 + ...)."""
    cosine: tuple[float, ...]
    """cos(r) = 1 - r^2/2 + r^4 (c0 + c1 r^2 + ...)."""


_PRECISION = {
    # Source of the polynomials: FreeBSD msun, k_sin.c and k_cos.c (Sun Microsystems 1993);
    # their errors are below 2^-58 on the interval.
    "double": _Precision(
        (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33),
        1.5 * 2.0**52,
        1e15,
        (
            -1.66666666666666324348e-01,
            8.33333333332248946124e-03,
            -1.98412698298579493134e-04,
            2.75573137070700676789e-06,
            -2.50507602534068634195e-08,
            1.58969099521155010221e-10,
        ),
        (
            4.16666666666666019037e-02,
            -1.38888888888741095749e-03,
            2.48015872894767294178e-05,
            -2.75573143513906633035e-07,
            2.08757232129817482790e-09,
            -1.13596475577881948265e-11,
        ),
    ),
    # Source of the polynomials: Cephes 2.2, sinf.c (Moshier 1992); errors below 2^-24.
    "float": _Precision(
        (1.5707963705062866, -4.371139000186241e-08, -1.7151245100059e-15),
        1.5 * 2.0**23,
        4e6,
        (-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4),
        (4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5),
    ),
}


def write_sincos(writer: Writer, angle: str) -> tuple[str, str]:
    """Write the code for one angle.

    Absolute error below 1.2e-16 (double) or 1e-7 (float) if the angle itself is exact. NaN,
    infinity and angles beyond 1e15 rad (float: 4e6 rad) give NaN.

    Args:
        writer: receives the instructions.
        angle: name of the angle's value [rad].

    Returns:
        Names of sine and cosine.
    """
    lanes, precision = writer.lanes, _PRECISION[writer.lanes.element]
    turns, r = _reduced(writer, angle, precision)
    square = writer.binary("fmul", r, r)
    sine = _polynomial(writer, square, precision.sine)
    sine = writer.fused(writer.binary("fmul", sine, square), r, r)
    cosine = _polynomial(writer, square, precision.cosine)
    half = writer.fused(square, lanes.constant(-0.5), lanes.constant(1.0))
    cosine = writer.fused(writer.binary("fmul", square, square), cosine, half)
    odd = writer.integer("and", turns, lanes.whole(1))
    swap = writer.emit(f"icmp ne {lanes.integer_type} {odd}, {lanes.whole(0)}")
    return (
        _signed(writer, writer.where(swap, cosine, sine), turns),
        _signed(
            writer,
            writer.where(swap, sine, cosine),
            writer.integer("add", turns, lanes.whole(1)),
        ),
    )


def _reduced(writer: Writer, angle: str, precision: _Precision) -> tuple[str, str]:
    """Return the number of quarter turns (in the low bits) and the reduced angle."""
    lanes = writer.lanes
    t = lanes.type
    size = writer.emit(f"call {t} @llvm.fabs.{lanes.suffix}({t} {angle})")
    usable = writer.emit(f"fcmp olt {t} {size}, {lanes.constant(precision.largest)}")
    angle = writer.where(usable, angle, lanes.constant(float("nan")))
    magic = lanes.constant(precision.magic)
    two_over_pi = lanes.constant(0.6366197723675814)
    shifted = writer.exact("fadd", writer.exact("fmul", angle, two_over_pi), magic)
    k = writer.negated(writer.exact("fsub", shifted, magic))
    r = angle
    for part in precision.half_pi:
        r = writer.fused(k, lanes.constant(part), r)
    return writer.as_integer(shifted), r


def _polynomial(writer: Writer, x: str, coefficients: tuple[float, ...]) -> str:
    """Return c0 + c1 x + c2 x^2 + ... (Horner)."""
    total = writer.lanes.constant(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = writer.fused(total, x, writer.lanes.constant(coefficient))
    return total


def _signed(writer: Writer, value: str, turns: str) -> str:
    """Return ``-value`` where bit 1 of ``turns`` is set."""
    lanes = writer.lanes
    bit = writer.integer("and", turns, lanes.whole(2))
    sign = writer.integer("shl", bit, lanes.whole(lanes.bits - 2))
    return writer.as_real(writer.integer("xor", writer.as_integer(value), sign))
