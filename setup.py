"""The one compiled part; everything else is in pyproject.toml. Without a C compiler rookery installs all the same and
runs these loops in Python."""

import numpy
from setuptools import Extension, setup

LOOPS = Extension(
    "rookery.engine._loops",
    ["src/rookery/engine/_loops.c"],
    include_dirs=[numpy.get_include()],
    extra_compile_args=["-O3"],
    optional=True,
)

setup(ext_modules=[LOOPS])
