"""Matrix products of any shape for one thread, from tiles that are held in registers. Needs Numba.

A tile is 8 rows by two vectors of an output. It is written in LLVM's language, with vectors as wide as the CPU's: no
loop in Python's form would be compiled to as few loads. Products of 64 rows by 64 x 64 weights run at nine tenths of a
core's peak, without a call of a library and without its own threads.

Every number of an output is summed in the order of the inner dimension, by itself. So no number depends on how many
rows a product has, on the thread that computes it, or on its neighbours. All matrices are float32, given by addresses.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from rookery.learners.cached_njit import cached_cfunc, inner
from rookery.once import once

ARM = platform.machine() in ("aarch64", "arm64")


def _lanes() -> int:
    features = llvm.get_host_cpu_features()
    return 16 if features.get("avx512f") else 8 if features.get("avx2") else 4


LANES = _lanes()  # float32 numbers of a vector
ROWS = 8  # of a tile
UNROLL = 4  # the inner dimension of a product is a multiple of it
AHEAD = 4  # rows of a tile that are loaded while those before them are multiplied; all would take too many registers
PANEL = 2 * LANES  # columns of a tile
REAL, WORD, INDEX = ir.FloatType(), ir.IntType(64), ir.IntType(32)
VECTOR, FOUR = ir.VectorType(REAL, LANES), ir.VectorType(REAL, 4)


class TileWriter:
    """Writes the code of one tile: output = first + left @ right."""

    def __init__(self, builder: Any, rows: int, vectors: int, transposed: bool) -> None:
        """`transposed` means that the rows of `left` lie side by side in memory."""
        self.builder, self.rows, self.vectors, self.transposed = builder, rows, vectors, transposed
        self.by_lanes = ARM and not transposed  # four places of a row in one load, and products with a lane of it

    def write(self, left: Any, left_stride: Any, right: Any, right_stride: Any, inner: Any, first: Any,
              first_stride: Any, out: Any, out_stride: Any) -> None:  # fmt: skip
        """Addresses, and strides in numbers; `inner` is the dimension that is summed."""
        builder = self.builder
        before = builder.block
        start = [[self._vector(first, first_stride, i, j) for j in range(self.vectors)] for i in range(self.rows)]
        first_rows = self._rows_ahead(left, left_stride, WORD(0))
        loop, done = (builder.append_basic_block(name) for name in ("tile_loop", "tile_done"))
        builder.branch(loop)
        builder.position_at_end(loop)
        place, rows = builder.phi(WORD), [builder.phi(FOUR) for _ in first_rows]
        sums = [[builder.phi(VECTOR) for _ in row] for row in start]
        following = builder.add(place, WORD(UNROLL))
        goes_on = builder.icmp_signed("<", following, inner)
        latest = self._multiply(left, left_stride, right, right_stride, place, rows, [list(row) for row in sums])
        next_rows = self._rows_ahead(left, left_stride, builder.select(goes_on, following, place))
        for phi, first_value, last_value in (
            (place, WORD(0), following),
            *zip(rows, first_rows, next_rows, strict=True),
            *((sums[i][j], start[i][j], latest[i][j]) for i in range(self.rows) for j in range(self.vectors)),
        ):
            phi.add_incoming(first_value, before)
            phi.add_incoming(last_value, loop)
        builder.cbranch(goes_on, loop, done)
        builder.position_at_end(done)
        for i in range(self.rows):
            for j in range(self.vectors):
                builder.store(latest[i][j], self._pointer(out, out_stride, i, j, VECTOR)).align = 4

    def _rows_ahead(self, left: Any, left_stride: Any, place: Any) -> list[Any]:
        """The rows that are loaded before their turn."""
        return [self._four(left, left_stride, WORD(i), place) for i in range(AHEAD if self.by_lanes else 0)]

    def _multiply(
        self, left: Any, left_stride: Any, right: Any, right_stride: Any, place: Any, rows: list[Any], sums: Any
    ) -> Any:
        """Add the products of UNROLL inner places; the first `rows` are loaded already."""
        builder = self.builder
        factors = self._factors(left, left_stride, place, rows)
        for u in range(UNROLL):
            at = builder.add(right, builder.mul(builder.add(place, WORD(u)), builder.mul(right_stride, WORD(4))))
            vectors = [self._vector(at, WORD(0), 0, j) for j in range(self.vectors)]
            for i in range(self.rows):
                factor = factors(u, i)
                for j, vector in enumerate(vectors):
                    sums[i][j] = self._fma(factor, vector, sums[i][j])
        return sums

    def _factors(self, left: Any, left_stride: Any, place: Any, rows: list[Any]) -> Callable[[int, int], Any]:
        """A function of inner place and row: the number of `left` there, in all lanes."""
        if self.by_lanes:
            rows = [*rows, *(self._four(left, left_stride, WORD(i), place) for i in range(len(rows), self.rows))]
            return lambda u, i: self._splat(rows[i], u)
        if ARM and self.rows % 4 == 0:
            inner = [self.builder.add(place, WORD(u)) for u in range(UNROLL)]
            columns = [[self._four(left, left_stride, k, WORD(i)) for i in range(0, self.rows, 4)] for k in inner]
            return lambda u, i: self._splat(columns[u][i // 4], i % 4)
        return lambda u, i: self._single(left, left_stride, u, i, place)

    def _single(self, left: Any, left_stride: Any, u: int, i: int, place: Any) -> Any:
        builder = self.builder
        inner = builder.add(place, WORD(u))
        row, column = (inner, WORD(i)) if self.transposed else (WORD(i), inner)
        number = builder.load(self._at(left, builder.add(builder.mul(row, left_stride), column), REAL))
        return self._splat(builder.insert_element(ir.Constant(VECTOR, ir.Undefined), number, INDEX(0)), 0)

    def _four(self, base: Any, stride: Any, row: Any, column: Any) -> Any:
        builder = self.builder
        loaded = builder.load(self._at(base, builder.add(builder.mul(row, stride), column), FOUR))
        loaded.align = 4
        return loaded

    def _vector(self, base: Any, stride: Any, i: int, j: int) -> Any:
        loaded = self.builder.load(self._pointer(base, stride, i, j, VECTOR))
        loaded.align = 4
        return loaded

    def _pointer(self, base: Any, stride: Any, i: int, j: int, kind: Any) -> Any:
        return self._at(base, self.builder.add(self.builder.mul(stride, WORD(i)), WORD(j * LANES)), kind)

    def _at(self, base: Any, place: Any, kind: Any) -> Any:
        builder = self.builder
        return builder.inttoptr(builder.add(base, builder.shl(place, WORD(2))), kind.as_pointer())

    def _splat(self, vector: Any, lane: int) -> Any:
        mask = ir.Constant(ir.VectorType(INDEX, LANES), [lane] * LANES)
        return self.builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), mask)

    def _fma(self, one: Any, other: Any, total: Any) -> Any:
        kind = ir.FunctionType(VECTOR, [VECTOR] * 3)
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.fma.v{LANES}f32")
        return self.builder.call(function, [one, other, total])


def _tile(rows: int, vectors: int, transposed: bool) -> Any:
    """A tile as a function for compiled code; its arguments are those of `TileWriter.write`."""

    def tile(typing_context: Any, left: Any, left_stride: Any, right: Any, right_stride: Any, inner: Any, first: Any,
             first_stride: Any, out: Any, out_stride: Any) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            TileWriter(builder, rows, vectors, transposed).write(*arguments)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 9), generate

    return intrinsic(tile)


_wide, _narrow = _tile(ROWS, 2, False), _tile(ROWS, 1, False)
_wide_transposed, _narrow_transposed = _tile(ROWS, 2, True), _tile(ROWS, 1, True)
_wide_single, _narrow_single = _tile(1, 2, True), _tile(1, 1, True)


def _multiply(
    left: int, left_stride: int, right: int, inner: int, first: int, first_stride: int, out: int, out_stride: int,
    rows: int, columns: int,
) -> int:  # fmt: skip
    for j in range(0, columns, PANEL):
        panel = right + 4 * j * inner
        for i in range(0, rows, ROWS):
            block = left + 4 * i * left_stride
            begin, target = first + 4 * (i * first_stride + j), out + 4 * (i * out_stride + j)
            if j + PANEL <= columns:
                _wide(block, left_stride, panel, PANEL, inner, begin, first_stride, target, out_stride)
            else:
                _narrow(block, left_stride, panel, LANES, inner, begin, first_stride, target, out_stride)
    return 0


def _add_outer(
    left: int, left_stride: int, right: int, right_stride: int, inner: int, out: int, stride: int, rows: int,
    columns: int, zeros: int,
) -> int:  # fmt: skip
    # Row after row of the output: a gradient of a wide net lies in no cache, and is read and written in its order.
    whole, first_stride = rows - rows % ROWS, 0 if zeros else stride
    for i in range(0, whole, ROWS):
        block = left + 4 * i
        for j in range(0, columns, PANEL):
            panel, at = right + 4 * j, out + 4 * (i * stride + j)
            first = zeros or at
            if j + PANEL <= columns:
                _wide_transposed(block, left_stride, panel, right_stride, inner, first, first_stride, at, stride)
            else:
                _narrow_transposed(block, left_stride, panel, right_stride, inner, first, first_stride, at, stride)
    for i in range(whole, rows):
        block = left + 4 * i
        for j in range(0, columns, PANEL):
            panel, at = right + 4 * j, out + 4 * (i * stride + j)
            first = zeros or at
            if j + PANEL <= columns:
                _wide_single(block, left_stride, panel, right_stride, inner, first, first_stride, at, stride)
            else:
                _narrow_single(block, left_stride, panel, right_stride, inner, first, first_stride, at, stride)
    return 0


@once
def product_addresses() -> tuple[int, int]:
    """The addresses of both products, for `multiply` and `add_outer`. Compiled on their own: a compiler that works
    through the tiles again for every function that calls them takes ten times as long."""
    signature = types.int64(*[types.int64] * 10)
    products = [cached_cfunc(signature, error_model="numpy")(function) for function in (_multiply, _add_outer)]
    _kept.extend(products)
    return products[0].address, products[1].address


_kept: list[Any] = []  # compiled functions, whose addresses are in use


@intrinsic
def _call(typing_context: Any, address: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, i: Any,
          j: Any) -> Any:  # fmt: skip
    """Call a product at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(WORD, [WORD] * 10)
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])

    return types.int64(*[types.int64] * 11), generate


@inner
def multiply(
    product: int, left: int, left_stride: int, right: int, inner: int, first: int, first_stride: int, out: int,
    out_stride: int, rows: int, columns: int,
) -> None:  # fmt: skip
    """out = first + left @ right. `rows` is a multiple of ROWS, `inner` of UNROLL, and `columns` of LANES; `right` lies
    in panels (see `panel_place`). A `first_stride` of 0 adds one row to all, such as a bias. `product` is the first of
    `product_addresses`."""
    _call(product, left, left_stride, right, inner, first, first_stride, out, out_stride, rows, columns)


@inner
def add_outer(
    product: int, left: int, left_stride: int, right: int, right_stride: int, inner: int, out: int, out_stride: int,
    rows: int, columns: int, zeros: int,
) -> None:  # fmt: skip
    """out += left.T @ right, for matrices [inner, rows] and [inner, columns]; `inner` is a multiple of UNROLL and
    `columns` of LANES. For gradients of weights: `left` are those at a layer's outputs, `right` its inputs. `product`
    is the second of `product_addresses`. With the address of PANEL zeros, the sum starts there: out = left.T @ right.
    """
    _call(product, left, left_stride, right, right_stride, inner, out, out_stride, rows, columns, zeros)


def _copier(side_by_side: bool) -> Any:
    """A function for compiled code that copies PANEL numbers, which lie so far apart. All are loaded before one is
    stored: a compiler that cannot know whether they overlap copies them one by one."""

    def copier(typing_context: Any, source: Any, apart: Any, target: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            source, apart, target = arguments
            kind = ir.VectorType(REAL, PANEL)
            if side_by_side:
                found = builder.load(builder.inttoptr(source, kind.as_pointer()))
                found.align = 4
            else:
                found, step = ir.Constant(kind, ir.Undefined), builder.shl(apart, WORD(2))
                for n in range(PANEL):
                    place = builder.add(source, builder.mul(step, WORD(n)))
                    number = builder.load(builder.inttoptr(place, REAL.as_pointer()))
                    found = builder.insert_element(found, number, INDEX(n))
            builder.store(found, builder.inttoptr(target, kind.as_pointer())).align = 4
            return context.get_dummy_value()

        return types.void(*[types.int64] * 3), generate

    return intrinsic(copier)


copy_panel, copy_strided_panel = _copier(True), _copier(False)


@inner
def panel_place(row: int, column: int, inner: int, columns: int) -> int:
    """Where a number of a matrix [inner, columns] lies if it is stored in panels: PANEL columns side by side, all rows
    of a panel one after the other; a last panel may be LANES wide."""
    first = column - column % PANEL
    width = PANEL if first + PANEL <= columns else LANES
    return first * inner + row * width + column - first


def padded(size: int, to: int) -> int:
    """The least multiple of `to` that is not below `size`."""
    return -(-size // to) * to
