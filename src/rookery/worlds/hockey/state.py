"""The hockey world's state, scratch memory, parameters and infos."""

import math

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
