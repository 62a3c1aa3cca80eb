"""The compiled parts; everything else is in pyproject.toml. Without a C compiler rookery installs all the same and
does the same in Python. `ROOKERY_PURE=1` builds a wheel without them, which fits every system."""

import os

import numpy
from setuptools import Extension, setup

LOOPS = Extension(
    "rookery.engine._loops",
    ["src/rookery/engine/_loops.c"],
    include_dirs=[numpy.get_include()],
    extra_compile_args=["-O3"],
    optional=True,
)
SCREEN = Extension(
    "rookery.worlds.atari._screen",
    ["src/rookery/worlds/atari/_screen.c"],
    extra_compile_args=["-O3", "-ffp-contract=off"],
    optional=True,
)

setup(ext_modules=[] if os.environ.get("ROOKERY_PURE") else [LOOPS, SCREEN])
