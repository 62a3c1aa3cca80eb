"""The table, the two rackets and the puck: sizes, shapes and masses, in units of 60 pixels; and the world's
state, scratch memory, parameters and infos.

Four bodies are numbered throughout: rackets 0 and 1, the puck 2, and 3 for everything that never moves.
A racket's corners are kept relative to its centre of mass, around which it turns; its *origin* is what players see.
Tables are arrays rather than tuples: a tuple is searched by compiled code, an array is looked up.
"""

import math

import numpy as np

PIXELS = 60.0
TIME_STEP = 0.02
CENTRE_X = 5.0
CENTRE_Y = 4.0

PUCK = 2
GROUND = 3
RACKETS = 2
DYNAMIC = 3

# Box2D's tolerances, which decide where bodies come to rest.
SLOP = 0.005
SKIN = 2.0 * SLOP

PUCK_RADIUS = 13.0 / PIXELS
PUCK_MASS = 1.0323623
PUCK_INERTIA = 0.5 * PUCK_MASS * PUCK_RADIUS * PUCK_RADIUS
RACKET_MASS = 58.0
RACKET_OFFSET = 0.12237549  # from the centre of mass forward to the origin
RACKET_INERTIA = 4.5780897 - RACKET_MASS * RACKET_OFFSET * RACKET_OFFSET

INVERSE_MASS = np.array([1.0 / RACKET_MASS, 1.0 / RACKET_MASS, 1.0 / PUCK_MASS, 0.0])
INVERSE_INERTIA = np.array([1.0 / RACKET_INERTIA, 1.0 / RACKET_INERTIA, 1.0 / PUCK_INERTIA, 0.0])
ORIGIN_AHEAD = np.array([RACKET_OFFSET, -RACKET_OFFSET, 0.0, 0.0])
RADIUS = np.array([SKIN, SKIN, PUCK_RADIUS, SKIN])

# Of two surfaces that touch: the root of the product of their frictions, the larger of their restitutions.
FRICTION = np.array([1.0, 1.0, 0.1, 0.1])
RESTITUTION = np.array([0.0, 0.0, 0.95, 0.0])

Polygon = tuple[tuple[float, float], ...]


def _units(corners: Polygon, scale: float = 1.0, at: tuple[float, float] = (0.0, 0.0)) -> Polygon:
    return tuple((at[0] + scale * x / PIXELS, at[1] + scale * y / PIXELS) for x, y in corners)


def _box(x: float, y: float, half_width: float, half_height: float) -> Polygon:
    w, h = half_width / PIXELS, half_height / PIXELS
    return ((x + w, y - h), (x + w, y + h), (x - w, y + h), (x - w, y - h))


def _mirrored(corners: Polygon, flip_x: bool, flip_y: bool, about: tuple[float, float]) -> Polygon:
    """The polygon's mirror image, its corners still counterclockwise from the lower of the rightmost ones."""
    image = [(2 * about[0] - x if flip_x else x, 2 * about[1] - y if flip_y else y) for x, y in corners]
    image = image[::-1] if flip_x != flip_y else image
    first = image.index(max(image, key=lambda corner: (corner[0], -corner[1])))
    return tuple(image[first:] + image[:first])


# Corners run counterclockwise from the lower of the rightmost ones, as Box2D orders them: it decides between equals.
RACKET: Polygon = _units(((5, -20), (5, 20), (-10, 20), (-18, 10), (-21, 0), (-18, -10), (-10, -20)), 1.2)
RACKET_POLYGONS = (RACKET, _mirrored(RACKET, True, False, (0.0, 0.0)))
POST: Polygon = _units(((10, -5), (10, 128), (-10, 135), (-10, -5)), 1.0, (CENTRE_X - 245 / PIXELS, 0.5))
MIDDLE = (CENTRE_X, CENTRE_Y)
STATIC_POLYGONS = (
    _box(CENTRE_X, 0.5, 250, 10),
    _box(CENTRE_X, 7.5, 250, 10),
    POST,
    _mirrored(POST, True, False, MIDDLE),
    _mirrored(POST, False, True, MIDDLE),
    _mirrored(POST, True, True, MIDDLE),
    _box(CENTRE_X - 255 / PIXELS, CENTRE_Y, 10, 75),
    _box(CENTRE_X + 255 / PIXELS, CENTRE_Y, 10, 75),
)
LEFT_GOAL = 6
RIGHT_GOAL = 7
WALLS = 6  # the first six static polygons stop the puck, all eight stop a racket
STATICS = 8
STATIC_CORNERS = 4
RACKET_CORNERS = 7


def _normals(corners: Polygon) -> Polygon:
    following = corners[1:] + corners[:1]
    edges = [(x2 - x1, y2 - y1) for (x1, y1), (x2, y2) in zip(corners, following, strict=True)]
    return tuple((dy / (dx * dx + dy * dy) ** 0.5, -dx / (dx * dx + dy * dy) ** 0.5) for dx, dy in edges)


def _flat(polygons: tuple[Polygon, ...], axis: int) -> np.ndarray:
    return np.array([point[axis] for polygon in polygons for point in polygon])


_ABOUT_MASS = tuple(
    tuple((x + ahead, y) for x, y in polygon) for polygon, ahead in zip(RACKET_POLYGONS, ORIGIN_AHEAD, strict=False)
)
RACKET_X = _flat(_ABOUT_MASS, 0)
RACKET_Y = _flat(_ABOUT_MASS, 1)
RACKET_NORMAL_X = _flat(tuple(map(_normals, _ABOUT_MASS)), 0)
RACKET_NORMAL_Y = _flat(tuple(map(_normals, _ABOUT_MASS)), 1)
# The same for all three moving bodies, seven corners each: the puck's are all at its centre, and it has no faces.
_POINT = np.zeros(RACKET_CORNERS)
BODY_X, BODY_Y = np.append(RACKET_X, _POINT), np.append(RACKET_Y, _POINT)
BODY_NORMAL_X, BODY_NORMAL_Y = np.append(RACKET_NORMAL_X, _POINT), np.append(RACKET_NORMAL_Y, _POINT)
RACKET_REACH = max((x * x + y * y) ** 0.5 for x, y in _ABOUT_MASS[0])
REACH = np.array([RACKET_REACH, RACKET_REACH, PUCK_RADIUS, 0.0])

STATIC_X = _flat(STATIC_POLYGONS, 0)
STATIC_Y = _flat(STATIC_POLYGONS, 1)
STATIC_NORMAL_X = _flat(tuple(map(_normals, STATIC_POLYGONS)), 0)
STATIC_NORMAL_Y = _flat(tuple(map(_normals, STATIC_POLYGONS)), 1)
STATIC_LOW_X = np.array([min(x for x, _ in polygon) for polygon in STATIC_POLYGONS])
STATIC_HIGH_X = np.array([max(x for x, _ in polygon) for polygon in STATIC_POLYGONS])
STATIC_LOW_Y = np.array([min(y for _, y in polygon) for polygon in STATIC_POLYGONS])
STATIC_HIGH_Y = np.array([max(y for _, y in polygon) for polygon in STATIC_POLYGONS])

# Within this rectangle nothing static is met.
FREE_LOW_X = float(STATIC_HIGH_X[2])
FREE_HIGH_X = float(STATIC_LOW_X[3])
FREE_LOW_Y = float(STATIC_HIGH_Y[0])
FREE_HIGH_Y = float(STATIC_LOW_Y[1])

BODIES = 4  # racket 1, racket 2, puck, ground
CONTACTS = 8
POINTS = 2 * CONTACTS  # two a contact
CORNERS = 14  # two polygons of up to seven corners

# Arrays are over racket 1, racket 2 and the puck, or over the two players. Positions are of a body's origin, in the
# table's own coordinates (0..10, 0..8); velocities are of its centre of mass.
STATE: dict[str, str] = {
    "x": "(3,)f8",
    "y": "(3,)f8",
    "angle": "(3,)f8",
    "vx": "(3,)f8",
    "vy": "(3,)f8",
    "spin": "(3,)f8",
    "hold": "(2,)i4",  # steps for which a player still keeps the puck
    "touching": "(2,)u1",  # whether the puck touched the racket in the step before
    "push_x": "f8",  # velocity to be given to the puck in the next step
    "push_y": "f8",
    "swing": "(2,)f8",  # phase of a scripted player's swinging racket
    "winner": "i4",
}

PARAMETERS: dict[str, int | float] = {
    "mode": 0,  # 0 a normal game, 1 training to shoot, 2 training to defend
    "keep_mode": 1,  # whether a racket keeps a puck that it touches
    "one_starts": -1,  # whose half the puck lies in at the start: 1 player 1's, 0 player 2's, -1 in turn
    "player_one": 0,  # 0 uses the given actions, 1 is the weak script, 2 is the strong script
    "player_two": 0,
    "first_swing": math.pi,  # a scripted player's racket begins its swing at a phase from 0 to this
}

INFO: dict[str, str] = {
    "winner": "i1",
    "reward_closeness_to_puck": "f4",
    "reward_touch_puck": "f4",
    "reward_puck_direction": "f4",
}

SCRATCH: dict[str, str] = {
    "ask": "(8,)f8",  # both players' actions: force x, force y, torque, shoot
    # Bodies by their centre of mass: now, and where the step (or what is left of it) began.
    **{name: f"({BODIES},)f8" for name in ("x", "y", "angle", "cos", "sin", "vx", "vy", "spin")},
    **{name: f"({BODIES},)f8" for name in ("start_x", "start_y", "start_angle")},
    **{name: f"({BODIES},)f8" for name in ("force_x", "force_y", "torque", "damping", "angular_damping")},
    "touching": "(2,)i8",  # whether the puck touches each racket now
    # Two polygons to compare, in the table's coordinates.
    **{name: f"({CORNERS},)f8" for name in ("corner_x", "corner_y", "face_x", "face_y")},
    "corners": "(2,)i8",
    "owner": "(2,)i8",  # the body of each polygon
    # A segment of the one polygon, clipped to a face of the other.
    "clip_x": "(2,)f8",
    "clip_y": "(2,)f8",
    # Contacts: points of one body against a plane of another, each in its own body's coordinates.
    "contacts": "i8",
    **{name: f"({CONTACTS},)i8" for name in ("plane_body", "point_body", "points", "solved_points")},
    "island": "(3,)i8",
    "impacts": "(8,)i8",  # of a swept body with each static polygon
    **{name: f"({CONTACTS},)f8" for name in ("plane_x", "plane_y", "plane_normal_x", "plane_normal_y")},
    **{name: f"({CONTACTS},)f8" for name in ("normal_x", "normal_y", "friction", "restitution")},
    **{name: f"({CONTACTS},)f8" for name in ("k11", "k12", "k22")},
    **{name: f"({POINTS},)f8" for name in ("point_x", "point_y", "arm_a_x", "arm_a_y", "arm_b_x", "arm_b_y")},
    **{name: f"({POINTS},)f8" for name in ("normal_impulse", "tangent_impulse")},
    **{name: f"({POINTS},)f8" for name in ("normal_mass", "tangent_mass", "bounce")},
}
