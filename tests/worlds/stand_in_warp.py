"""In place of the packages `warp` and `mujoco_warp`, for tests without a GPU: MuJoCo itself, in double precision.

So envs that are stepped as on a GPU should give the numbers of the CPU, to the last bit.
"""

from __future__ import annotations

import enum
from contextlib import nullcontext
from copy import copy
from types import SimpleNamespace

import mujoco
import numpy as np
import torch

from rookery.worlds.mujoco.physics_memory import DATA_FIELDS
from rookery.worlds.mujoco.warp_simulation import STATE_PARTS, WarpLibrary

ONE_FOR_ALL = ("qpos_spring",)  # arrays of the model that each env cannot have of its own, here


class OverflowType(enum.IntFlag):
    NEFC = 1
    NJMAX_NNZ = 2
    BROADPHASE = 4
    NARROWPHASE = 8
    CCD = 16


def put_model(model, batch_sizes=None):
    if model.opt.solver == mujoco.mjtSolver.mjSOL_PGS:
        raise NotImplementedError("PGS is not supported.")
    options = SimpleNamespace(gravity=torch.from_numpy(model.opt.gravity[None].copy()))
    put = SimpleNamespace(host=copy(model), own=dict(batch_sizes or {}), opt=options)
    for name, envs in put.own.items():
        if name in ONE_FOR_ALL:
            raise ValueError(f"Model field {name!r} is not a batched array field.")
        array = getattr(model, name)
        setattr(put, name, torch.from_numpy(np.repeat(array[None], envs, axis=0)))
    return put


def make_data(model, nworld, nconmax, njmax):
    first = mujoco.MjData(model)
    names = {*DATA_FIELDS, *STATE_PARTS}
    arrays = {name: np.repeat(np.asarray(getattr(first, name))[None], nworld, axis=0) for name in names}
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return SimpleNamespace(
        hosts=[mujoco.MjData(model) for _ in range(nworld)], overflow=torch.zeros(nworld, dtype=torch.int32), **tensors
    )


def _for_each_env(function, model, data, loads=True):
    for env, host in enumerate(data.hosts):
        for name in model.own:
            getattr(model.host, name)[:] = getattr(model, name)[env].numpy()
        model.host.opt.gravity[:] = model.opt.gravity[env % len(model.opt.gravity)].numpy()
        for name in STATE_PARTS if loads else ():
            if name == "time":
                host.time = float(data.time[env])
            else:
                getattr(host, name)[:] = getattr(data, name)[env].numpy()
        if not np.isfinite(host.qvel).all():
            continue  # where MuJoCo begins again, mujoco-warp does nothing
        function(model.host, host)
        for name in {*DATA_FIELDS, *STATE_PARTS}:
            getattr(data, name)[env] = torch.as_tensor(np.array(getattr(host, name)))


def step(model, data):
    _for_each_env(mujoco.mj_step, model, data)


def forward(model, data):
    _for_each_env(mujoco.mj_forward, model, data)


def rne_postconstraint(model, data):
    _for_each_env(mujoco.mj_rnePostConstraint, model, data, loads=False)


def load_stand_in() -> WarpLibrary:
    warp = SimpleNamespace(
        ScopedDevice=nullcontext,
        device_from_torch=lambda device: device,
        to_torch=lambda array: array,
        copy=lambda target, source: target.copy_(source),
        synchronize_device=lambda: None,
        array=lambda rows, dtype: torch.from_numpy(rows),
    )
    engine = SimpleNamespace(
        __version__="4",
        put_model=put_model,
        make_data=make_data,
        step=step,
        forward=forward,
        rne_postconstraint=rne_postconstraint,
        DeterminismType=SimpleNamespace(ALL=7),
        OverflowType=OverflowType,
    )
    return WarpLibrary(warp, engine)
