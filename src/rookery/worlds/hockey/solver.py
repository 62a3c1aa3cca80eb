"""Impulses that keep touching bodies apart: Box2D's sequential impulses, stopped once nothing changes any more."""

from typing import Any

from rookery.worlds.hockey.bodies import turn
from rookery.worlds.hockey.field import INVERSE_INERTIA, INVERSE_MASS, RADIUS, SLOP

VELOCITY_ROUNDS = 12  # Box2D always makes 180: what the others add is seen in 1 step of 10,000, and costs a GPU 5x
SETTLED = 1e-5  # a change of impulse too small to matter: usual ones are 10 to 1000
BOUNCING_SPEED = 1.0  # slower contacts do not bounce
WORST_CONDITION = 1000.0  # beyond it, two points of a contact are nearly the same constraint
LARGEST_CORRECTION = 0.2

# Velocities of a contact's two bodies: x, y, spin of the first, then of the second. A contact is solved with them in
# registers; read from memory and written back after every impulse, a GPU took twice as long.
Motion = tuple[float, float, float, float, float, float]


def prepare_contact(scratch: Any, contact: int) -> None:
    """Works out, for velocities as they are now, what the contact's impulses have to achieve."""
    a, b = scratch.plane_body[contact], scratch.point_body[contact]
    cos, sin = scratch.cos[a], scratch.sin[a]
    local_x, local_y = scratch.plane_normal_x[contact], scratch.plane_normal_y[contact]
    nx, ny = cos * local_x - sin * local_y, sin * local_x + cos * local_y
    scratch.normal_x[contact] = nx
    scratch.normal_y[contact] = ny
    for point in range(2 * contact, 2 * contact + scratch.points[contact]):
        prepare_point(scratch, contact, point, a, b, nx, ny)
    scratch.solved_points[contact] = scratch.points[contact]
    if scratch.points[contact] == 2:
        prepare_pair(scratch, contact, a, b, nx, ny)


def prepare_point(scratch: Any, contact: int, point: int, a: int, b: int, nx: float, ny: float) -> None:
    """Arms, effective masses and bounce of one point of a contact."""
    x, y, height = place_point(scratch, contact, point, a, b, nx, ny)
    middle = 0.5 * (RADIUS[a] - height - RADIUS[b])  # of the two surfaces, seen from the point
    x, y = x + middle * nx, y + middle * ny
    ax, ay = x - scratch.x[a], y - scratch.y[a]
    bx, by = x - scratch.x[b], y - scratch.y[b]
    scratch.arm_a_x[point], scratch.arm_a_y[point] = ax, ay
    scratch.arm_b_x[point], scratch.arm_b_y[point] = bx, by
    scratch.normal_impulse[point] = 0.0
    scratch.tangent_impulse[point] = 0.0
    scratch.normal_mass[point] = 1.0 / resistance(a, b, ax * ny - ay * nx, bx * ny - by * nx)
    scratch.tangent_mass[point] = 1.0 / resistance(a, b, -ax * nx - ay * ny, -bx * nx - by * ny)
    approach = approach_speed(scratch, point, load_motion(scratch, a, b), nx, ny)
    scratch.bounce[point] = -scratch.restitution[contact] * approach if approach < -BOUNCING_SPEED else 0.0


def resistance(a: int, b: int, lever_a: float, lever_b: float) -> float:
    """How much the bodies' velocity at a point changes by an impulse of one."""
    turning = INVERSE_INERTIA[a] * lever_a * lever_a + INVERSE_INERTIA[b] * lever_b * lever_b
    return INVERSE_MASS[a] + INVERSE_MASS[b] + turning


def place_point(
    scratch: Any, contact: int, point: int, a: int, b: int, nx: float, ny: float
) -> tuple[float, float, float]:
    """Where a contact's point is now, and how high over the plane."""
    local_x, local_y = scratch.point_x[point], scratch.point_y[point]
    x = scratch.x[b] + scratch.cos[b] * local_x - scratch.sin[b] * local_y
    y = scratch.y[b] + scratch.sin[b] * local_x + scratch.cos[b] * local_y
    plane_x, plane_y = scratch.plane_x[contact], scratch.plane_y[contact]
    dx = x - scratch.x[a] - (scratch.cos[a] * plane_x - scratch.sin[a] * plane_y)
    dy = y - scratch.y[a] - (scratch.sin[a] * plane_x + scratch.cos[a] * plane_y)
    return x, y, dx * nx + dy * ny


def prepare_pair(scratch: Any, contact: int, a: int, b: int, nx: float, ny: float) -> None:
    """How two points of a contact act on each other; drops the second where they nearly coincide."""
    one, two = 2 * contact, 2 * contact + 1
    lever_a = scratch.arm_a_x[one] * ny - scratch.arm_a_y[one] * nx
    lever_b = scratch.arm_b_x[one] * ny - scratch.arm_b_y[one] * nx
    turning_a = INVERSE_INERTIA[a] * lever_a * (scratch.arm_a_x[two] * ny - scratch.arm_a_y[two] * nx)
    turning_b = INVERSE_INERTIA[b] * lever_b * (scratch.arm_b_x[two] * ny - scratch.arm_b_y[two] * nx)
    k11, k22 = 1.0 / scratch.normal_mass[one], 1.0 / scratch.normal_mass[two]
    k12 = INVERSE_MASS[a] + INVERSE_MASS[b] + turning_a + turning_b
    if k11 * k11 < WORST_CONDITION * (k11 * k22 - k12 * k12):
        scratch.k11[contact], scratch.k12[contact], scratch.k22[contact] = k11, k12, k22
    else:
        scratch.solved_points[contact] = 1


def load_motion(scratch: Any, a: int, b: int) -> Motion:
    """The velocities of two bodies."""
    return scratch.vx[a], scratch.vy[a], scratch.spin[a], scratch.vx[b], scratch.vy[b], scratch.spin[b]


def store_motion(scratch: Any, a: int, b: int, motion: Motion) -> None:
    """Gives two bodies their velocities."""
    scratch.vx[a], scratch.vy[a], scratch.spin[a], scratch.vx[b], scratch.vy[b], scratch.spin[b] = motion


def approach_speed(scratch: Any, point: int, motion: Motion, nx: float, ny: float) -> float:
    """Speed of the second body against the first at a contact's point, along a direction."""
    vx_a, vy_a, spin_a, vx_b, vy_b, spin_b = motion
    dvx = vx_b - spin_b * scratch.arm_b_y[point]
    dvx -= vx_a - spin_a * scratch.arm_a_y[point]
    dvy = vy_b + spin_b * scratch.arm_b_x[point]
    dvy -= vy_a + spin_a * scratch.arm_a_x[point]
    return dvx * nx + dvy * ny


def pushed_apart(scratch: Any, point: int, a: int, b: int, motion: Motion, px: float, py: float) -> Motion:
    """Velocities after an impulse on the second body, and its reaction on the first."""
    vx_a, vy_a, spin_a, vx_b, vy_b, spin_b = motion
    return (
        vx_a - INVERSE_MASS[a] * px,
        vy_a - INVERSE_MASS[a] * py,
        spin_a - INVERSE_INERTIA[a] * (scratch.arm_a_x[point] * py - scratch.arm_a_y[point] * px),
        vx_b + INVERSE_MASS[b] * px,
        vy_b + INVERSE_MASS[b] * py,
        spin_b + INVERSE_INERTIA[b] * (scratch.arm_b_x[point] * py - scratch.arm_b_y[point] * px),
    )


def island_of(scratch: Any, contact: int) -> int:
    """Which group of bodies that touch one another a contact belongs to."""
    return scratch.island[min(scratch.plane_body[contact], scratch.point_body[contact])]


def solve_velocities(scratch: Any, island: int) -> None:
    """Finds the impulses of all contacts of an island together."""
    for _ in range(VELOCITY_ROUNDS):
        change = 0.0
        for contact in range(scratch.contacts):
            if island_of(scratch, contact) == island:
                change = max(change, solve_contact(scratch, contact))
        if change < SETTLED:
            return


def solve_contact(scratch: Any, contact: int) -> float:
    """One round of friction, then of pushing apart, at a contact; returns the largest change of an impulse."""
    a, b = scratch.plane_body[contact], scratch.point_body[contact]
    nx, ny = scratch.normal_x[contact], scratch.normal_y[contact]
    one, two = 2 * contact, 2 * contact + 1
    in_pair = scratch.solved_points[contact] == 2
    motion = load_motion(scratch, a, b)
    change, motion = rub(scratch, contact, one, a, b, motion, ny, -nx)
    if in_pair:
        rubbed, motion = rub(scratch, contact, two, a, b, motion, ny, -nx)
        change = max(change, rubbed)
    missing = scratch.bounce[one] - approach_speed(scratch, one, motion, nx, ny)
    first = max(0.0, scratch.normal_impulse[one] + scratch.normal_mass[one] * missing)
    if in_pair:
        missing_two = scratch.bounce[two] - approach_speed(scratch, two, motion, nx, ny)
        first, second = pair_impulses(scratch, contact, missing, missing_two)
        pushed, motion = set_impulse(scratch, two, a, b, motion, nx, ny, second)
        change = max(change, pushed)
    pushed, motion = set_impulse(scratch, one, a, b, motion, nx, ny, first)
    store_motion(scratch, a, b, motion)
    return max(change, pushed)


def rub(
    scratch: Any, contact: int, point: int, a: int, b: int, motion: Motion, tx: float, ty: float
) -> tuple[float, Motion]:
    """Friction at a point: (the change of its impulse, velocities)."""
    slip = approach_speed(scratch, point, motion, tx, ty)
    most = scratch.friction[contact] * scratch.normal_impulse[point]
    before = scratch.tangent_impulse[point]
    impulse = max(-most, min(most, before - scratch.tangent_mass[point] * slip))
    scratch.tangent_impulse[point] = impulse
    motion = pushed_apart(scratch, point, a, b, motion, (impulse - before) * tx, (impulse - before) * ty)
    return abs(impulse - before), motion


def set_impulse(
    scratch: Any, point: int, a: int, b: int, motion: Motion, nx: float, ny: float, impulse: float
) -> tuple[float, Motion]:
    """Changes a point's total impulse to a new value: (by how much, velocities)."""
    change = impulse - scratch.normal_impulse[point]
    scratch.normal_impulse[point] = impulse
    return abs(change), pushed_apart(scratch, point, a, b, motion, change * nx, change * ny)


def pair_impulses(scratch: Any, contact: int, missing_one: float, missing_two: float) -> tuple[float, float]:
    """Two points at once: impulses, none of them pulling, after which no point approaches."""
    k11, k12, k22 = scratch.k11[contact], scratch.k12[contact], scratch.k22[contact]
    first, second = scratch.normal_impulse[2 * contact], scratch.normal_impulse[2 * contact + 1]
    need_one = missing_one + k11 * first + k12 * second  # as if no impulse had acted yet
    need_two = missing_two + k12 * first + k22 * second
    return two_impulses(k11, k12, k22, need_one, need_two, first, second)


def two_impulses(
    k11: float, k12: float, k22: float, need_one: float, need_two: float, first: float, second: float
) -> tuple[float, float]:
    """Solves for both points, else for one alone, else for none; keeps what there was if nothing fits."""
    determinant = k11 * k22 - k12 * k12
    both_one = (k22 * need_one - k12 * need_two) / determinant
    both_two = (k11 * need_two - k12 * need_one) / determinant
    if both_one >= 0.0 and both_two >= 0.0:
        return both_one, both_two
    if need_one >= 0.0 and k12 * need_one / k11 >= need_two:
        return need_one / k11, 0.0
    if need_two >= 0.0 and k12 * need_two / k22 >= need_one:
        return 0.0, need_two / k22
    if need_one <= 0.0 and need_two <= 0.0:
        return 0.0, 0.0
    return first, second


def solve_positions(scratch: Any, island: int, rounds: int, share: float, allowed: float) -> None:
    """Moves overlapping bodies of an island apart, by a share of the overlap a round, until little is left."""
    for _ in range(rounds):
        deepest = 0.0
        for contact in range(scratch.contacts):
            if island_of(scratch, contact) == island:
                for point in range(2 * contact, 2 * contact + scratch.points[contact]):
                    deepest = min(deepest, separate(scratch, contact, point, share))
        if deepest >= -allowed:
            return


def separate(scratch: Any, contact: int, point: int, share: float) -> float:
    """Moves two bodies apart at one point; returns how far apart they were, negative where they overlap."""
    a, b = scratch.plane_body[contact], scratch.point_body[contact]
    cos, sin = scratch.cos[a], scratch.sin[a]
    local_x, local_y = scratch.plane_normal_x[contact], scratch.plane_normal_y[contact]
    nx, ny = cos * local_x - sin * local_y, sin * local_x + cos * local_y
    x, y, height = place_point(scratch, contact, point, a, b, nx, ny)
    gap = height - RADIUS[a] - RADIUS[b]
    correction = max(-LARGEST_CORRECTION, min(0.0, share * (gap + SLOP)))
    if correction < 0.0:
        lever_a = (x - scratch.x[a]) * ny - (y - scratch.y[a]) * nx
        lever_b = (x - scratch.x[b]) * ny - (y - scratch.y[b]) * nx
        impulse = -correction / resistance(a, b, lever_a, lever_b)
        shift(scratch, a, -impulse * nx, -impulse * ny, -impulse * lever_a)
        shift(scratch, b, impulse * nx, impulse * ny, impulse * lever_b)
    return gap


def shift(scratch: Any, body: int, px: float, py: float, twist: float) -> None:
    """Moves a body by an impulse on its position."""
    scratch.x[body] += INVERSE_MASS[body] * px
    scratch.y[body] += INVERSE_MASS[body] * py
    scratch.angle[body] += INVERSE_INERTIA[body] * twist
    turn(scratch, body)
