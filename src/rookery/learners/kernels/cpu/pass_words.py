"""The words of layers and jobs for compiled passes through perceptrons, by their places."""

from __future__ import annotations

FORWARD, BACKWARD, WEIGHT_GRADS, PACK, SQUARES, ADAM = range(6)  # commands

# Of a layer in a pass: addresses and widths of its inputs and outputs, and what two rows of them are apart; the copies
# of its weights and bias; where the gradients at its outputs and at its inputs lie (0: nobody wants these).
LAYER_SIZE = 11
(
    INPUTS, INPUT_STRIDE, INPUT_WIDTH, OUTPUTS, OUTPUT_STRIDE, OUTPUT_WIDTH, WEIGHTS, BIAS, BACK, OUTPUT_GRADS,
    INPUT_GRADS,
) = range(LAYER_SIZE)  # fmt: skip

JOB_SIZE = 11
# FORWARD and BACKWARD: the layers of a pass, its activation, a row of zeros, and a block of the batch.
LAYERS, LAYER_COUNT, KIND, ZEROS, FIRST_ROW, ROW_COUNT = range(6)
# WEIGHT_GRADS: rows of left.T @ right, summed over the batch, and where they go.
LEFT, LEFT_STRIDE, RIGHT, RIGHT_STRIDE, BATCH, COUNT, COLUMNS, TARGET, DOWN, ACROSS, SCRATCH_SIZE = range(JOB_SIZE)
# PACK: a share of the layers of a `LayerTable`.
TABLE, TABLE_ROWS, FLAT, FLAT_SIZE, PACKED, PACKED_SIZE, SHARE = range(7)
# SQUARES and ADAM: a share of the parameters in one vector.
PARAMETERS, GRADIENT, FIRST_MOMENTS, SECOND_MOMENTS, SIZE, NUMBERS, SQUARE_SUMS, PART = range(8)

SHARES = 16  # that weights and parameters are divided into
RATE, EPS, LIMIT, STEPS = range(4)  # of NUMBERS
NUMBER_COUNT = 4
