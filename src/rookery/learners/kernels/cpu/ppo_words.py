"""The words and numbers of a plan for PPO's compiled update, by their places."""

from __future__ import annotations

STATS, SLICE, SUM, ADAM, PACK, VALUES, ACT = range(7)  # commands
TERMS = 4  # of a slice: what the loss adds up

# The names by which `PPOPlan` sets words, and the places at which compiled code reads them, in the same order.
WORDS = (
    "flat", "gradient", "first", "second", "size",  # the parameters as one vector, and Adam's moments
    "table", "layers", "critic", "extra",  # of a LayerTable: rows; where the critic's begin and end
    "packed", "packed_size", "zeros", "partial", "partial_size",  # copies of weights, and gradients of slices
    "work", "work_size", "widest", "kind", "product", "outer",  # a thread's memory, the activation, two products
    "features", "width", "values_out", "rows", "act_tasks",  # inputs, and what the commands VALUES and ACT fill
    "order", "begin", "count", "slices", "minibatch",  # of the present minibatch
    "gaussian", "sizes", "parts", "actions", "log_probs", "advantages", "masks", "outputs", "values", "returns",
    "total", "terms", "moments", "squares", "numbers", "normalise",
)  # fmt: skip
PLAN_SIZE = len(WORDS)
(
    FLAT, GRADIENT, FIRST, SECOND, SIZE,
    TABLE, LAYERS, CRITIC_START, EXTRA,
    PACKED, PACKED_SIZE, ZEROS, PARTIAL, PARTIAL_SIZE,
    WORK, WORK_SIZE, WIDEST, KIND, PRODUCT, OUTER,
    FEATURES, WIDTH, VALUES_OUT, VALUE_ROWS, ACT_TASKS,
    ORDER, BEGIN, COUNT, SLICES, MINIBATCH,
    GAUSSIAN, SIZES, PARTS, ACTIONS, LOG_PROBS, ADVANTAGES, MASKS, OUTPUTS, BEFORE, RETURNS,
    TOTAL, TERM_SUMS, MOMENTS, SQUARES, REALS, NORMALISE,
) = range(PLAN_SIZE)  # fmt: skip

NUMBERS = ("clip", "entropy", "value_weight", "value_limit", "learning_rate", "eps", "max_norm", "steps")
NUMBER_COUNT = len(NUMBERS)
CLIP, ENTROPY_WEIGHT, VALUE_WEIGHT, VALUE_LIMIT, RATE, EPS, MAX_NORM, STEPS = range(NUMBER_COUNT)
