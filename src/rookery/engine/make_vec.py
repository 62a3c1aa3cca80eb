"""`make_vec`: from a world and options to a running engine."""

from __future__ import annotations

import copy
from dataclasses import replace
from importlib import import_module
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv

from rookery.console import say
from rookery.engine.autotune import Choice, choose, cost_of
from rookery.engine.batch import check_workers
from rookery.engine.cost_memory import Cost, likely_workers, recall_fastest
from rookery.engine.engine import Engine
from rookery.engine.env_factory import EnvFactory, kernel_of, resolve_given, with_wrappers
from rookery.engine.machine import usable_cores
from rookery.engine.settings import Settings, autoreset, one_of, plain_int, positive_int
from rookery.errors import OptionError, RookeryError, StepTimeout, WorldError
from rookery.foreign_names import MAKE_VEC, explains_keywords
from rookery.gate import allow_given
from rookery.once import once

KERNEL_ENVS = 1024  # if num_envs is omitted: enough to fill a few cores, few enough to stay in their caches

# Backends are found by name and imported when used.
BACKENDS = {
    "serial": "rookery.engine.local:SerialEngine",
    "thread": "rookery.engine.local:ThreadEngine",
    "process": "rookery.engine.process:ProcessEngine",
    "kernel": "rookery.engine.kernel:KernelEngine",
    "cuda": "rookery.engine.cuda:CudaEngine",
}


@explains_keywords(MAKE_VEC, "options of the env are given as env_kwargs={...}")
def make_vec(
    world: Any,
    num_envs: int | None = None,
    backend: str = "auto",
    workers: int | None = None,
    *,
    batch_size: int | None = None,
    groups: int = 1,
    start_method: str | None = None,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    copy: bool | None = None,
    step_timeout: float | None = None,
    on_failure: str = "raise",
    max_restarts: int = 3,
    restart_window: float = 60.0,
    bad_values: str = "raise",
    isolate_random: bool | None = None,
    close_timeout: float = 5.0,
    pin: bool | None = None,
    bounds: bool | None = None,
    env_kwargs: dict[str, Any] | None = None,
    wrappers: Any = None,
    observation_mode: Any = "same",
    shared_memory: bool | None = None,
    device: str | None = None,
    n_envs: int | None = None,
) -> Engine:
    """Many copies of `world` as one `gymnasium.vector.VectorEnv`.

    Args:
        world: A Gymnasium id, a class (of an env or a `KernelWorld`), any callable that builds an env (lambdas and
            closures too), `"file.py:MyEnv"`, a list of callables, one per env, or a vector env of Gymnasium, whose envs
            are made again.
        num_envs: How many envs; None measures a step, unless that was done before on this machine, and chooses.
            `n_envs` is the same option.
        backend: "serial", "thread", "process"; for kernel worlds also "kernel" (compiled, on CPU threads) and "cuda"
            (on a GPU, with torch tensors: see `rookery.engine.cuda.CudaEngine`); or "auto": "kernel" for a kernel
            world, else processes where they are faster than the serial loop.
        workers: How many workers (threads, for a kernel world) step the envs; None chooses.
        batch_size: `recv()` returns the first `batch_size` envs to finish: a slow env does not delay the others.
        groups: Divide the envs into groups (`envs.groups`) that are stepped in turns, for overlap with a policy.
        start_method: "forkserver" (the default), "spawn" or "fork". No main guard is needed for any of them.
        autoreset_mode: Gymnasium's NEXT_STEP, SAME_STEP or DISABLED.
        copy: False returns views of the observations, valid until the same envs are stepped again. None is False for
            backend "cuda", and True for the others.
        step_timeout: Seconds after which a step counts as hung. Backend "process" kills its worker; backend "kernel"
            stops the world's loops and raises `StepTimeout`.
        on_failure: "raise", or "restart": a failed env or dead worker is replaced, and its envs come back `truncated`
            with `info["restarted"]`. With a `step_timeout`, a restart delays a step by less than 5 s more than that.
            `rookery.train` has other defaults for this option and for `bad_values`; docs/engine.md says why.
        max_restarts: How many restarts of one env or worker are allowed within `restart_window` seconds.
        restart_window: See `max_restarts`.
        bad_values: What to do about NaN, infinity or values outside the observation space: "raise", "restart", "finite"
            (raise on NaN and infinity, and accept numbers beyond the space's bounds and other floats) or
            "allow" (which also lets observations be cast to their space's dtype).
        isolate_random: Give each env its own `random` and `numpy.random`; None does so where the env's code uses them.
        close_timeout: Seconds that `close()` may take before workers are killed.
        pin: Pin workers to cores; None does so where there are as many workers as cores.
        bounds: For kernel worlds: whether compiled code checks indices. One that is out of bounds then ends the step of
            its env with an error that names the line. None checks users' worlds, and not those of rookery, which its
            tests check. False is faster by a few percent, but a wrong index can change other envs, or crash.
        env_kwargs: Keyword arguments for the world.
        wrappers: What every env is wrapped in, the first one innermost: Gymnasium wrapper classes, functions of an env,
            reward functions (see `rookery.engine.wrapping.RewardFunction`), or any of these as `"file.py:Name"`.
        observation_mode: Gymnasium's: "same" (all envs have one observation space), "different" (the same shapes and
            dtypes, other bounds), or spaces of your own: a tuple of the batched one and that of one env, or the latter
            alone.
        shared_memory: True refuses spaces of classes that are not Gymnasium's, which worker processes can only send
            through a pipe. None accepts them and prints a notice; False accepts them silently.
        device: The GPU of backend "cuda", such as "cuda:1"; None is the current one. "cpu" runs its code as plain
            Python, to test a world without a GPU.

    Example:
        >>> import rookery
        >>> envs = rookery.make_vec("CartPole-v1", num_envs=3, backend="serial")
        >>> observations, infos = envs.reset(seed=42)
        >>> observations, rewards, terminated, truncated, infos = envs.step([0, 1, 0])
        >>> rewards
        array([1., 1., 1.])
        >>> envs.close()
    """
    num_envs, workers = plain_int(_one_of_two_names(num_envs, n_envs)), plain_int(workers)
    _check_backend(backend, num_envs, workers, step_timeout, device)
    if _is_vector_env(world):
        world, num_envs = _world_of(world), num_envs or int(world.unwrapped.num_envs)
    allow_given(wrappers)
    source = with_wrappers(resolve_given(world, num_envs, env_kwargs), wrappers, backend)
    if bounds is not None:
        backend = _with_bounds(source, backend)
    num_envs = num_envs if source.endless else len(source.makers)
    settings = Settings(  # which refuses bad options before anything starts
        num_envs=num_envs or 10**9, workers=workers or 1, batch_size=plain_int(batch_size), groups=plain_int(groups),
        start_method=start_method, autoreset_mode=autoreset(autoreset_mode),
        copy=backend != "cuda" if copy is None else copy, step_timeout=step_timeout, on_failure=on_failure,
        max_restarts=max_restarts, restart_window=restart_window, bad_values=bad_values, isolate_random=isolate_random,
        close_timeout=close_timeout, pin=pin, bounds=bounds, observation_mode=observation_mode,
        shared_memory=shared_memory, device=device,
    )  # fmt: skip
    if step_timeout is not None and backend == "auto" and kernel_of(source) is None:
        backend = "process"
    at_least = max(settings.batch_size or 1, settings.groups)
    choice = _choose(source, num_envs, workers, backend, start_method, at_least, step_timeout, by_contest=True)
    likely = workers is None and not choice.reason
    settings = replace(settings, num_envs=choice.num_envs, workers=choice.workers, watch_cost=likely)
    return _build(source, choice, settings)


def plan(
    world: Any,
    num_envs: int | None = None,
    backend: str = "auto",
    workers: int | None = None,
    start_method: str | None = None,
    env_kwargs: dict[str, Any] | None = None,
    *,
    measured: Cost | None = None,
    **limits: Any,
) -> Choice:
    """What `make_vec` would choose for options that are omitted, measured where needed (unless it was `measured`
    before); nothing stays running. `limits` are further arguments of `choose`."""
    source = resolve_given(world, num_envs, env_kwargs)
    return _choose(source, num_envs, workers, backend, start_method, measured=measured, **limits)


def get_recommended_n_envs(world: Any = None) -> int:
    """How many envs to run: by the cores alone, or measured if a world is given."""
    return usable_cores() if world is None else choose(cost_of(resolve_given(world))).num_envs


def _choose(
    source: EnvFactory,
    num_envs: int | None,
    workers: int | None,
    backend: str,
    method: str | None,
    at_least: int = 1,
    step_timeout: float | None = None,
    measured: Cost | None = None,
    by_contest: bool = False,
    **limits: Any,
) -> Choice:
    """Choose the options that were omitted, and measure only what they need: the cost of a step and, `by_contest`, the
    engines between which it leaves open which is fastest."""
    known = recall_fastest(source, num_envs, workers, at_least) if by_contest and backend == "auto" else None
    if known is not None and (known[0] == "kernel") == (kernel_of(source) is not None):
        if known[0] != "kernel":
            _hint_at_compiled(source.name)
        return _as_before(*known)
    if backend in ("kernel", "cuda") or (backend == "auto" and kernel_of(source) is not None):
        backend, count = "kernel" if backend == "auto" else backend, num_envs or max(KERNEL_ENVS, at_least)
        return Choice(backend, count, min(workers or usable_cores(), count), "")
    _hint_at_compiled(source.name)
    if num_envs is not None and backend != "auto":  # nothing must be measured
        usual = 1 if backend == "serial" else likely_workers(source, num_envs)
        return Choice(backend, num_envs, workers or usual, "")
    if num_envs is not None and workers is not None and workers > num_envs:
        raise OptionError(f"workers={workers} is more than num_envs={num_envs}; a worker needs at least one env")
    if num_envs == 1 and backend == "auto":
        return Choice("serial", 1, 1, "")
    try:
        cost = measured or cost_of(source, method, step_timeout)
    except Exception as error:
        if isinstance(error, StepTimeout) or getattr(error, "env_phase", "") == "step":
            return _unmeasured(error, num_envs, workers, backend, at_least)
        if isinstance(error, OSError):
            return _cannot_start(error, num_envs or max(usable_cores(), at_least))
        raise
    choice = choose(cost, num_envs, workers, backend, at_least=at_least, **limits)
    if by_contest and backend == "auto":
        from rookery.engine.contest import measured_choice

        choice = measured_choice(source, choice, num_envs, workers, at_least, method)
    say(choice.reason)
    return choice


def _as_before(backend: str, num_envs: int, workers: int) -> Choice:
    found = f"backend={backend!r}, num_envs={num_envs}, workers={workers}"
    choice = Choice(backend, num_envs, workers, f"{found}: the fastest when it was measured on this machine")
    say(choice.reason)
    return choice


def _check_backend(
    backend: str, num_envs: int | None, workers: int | None, step_timeout: float | None, device: str | None
) -> None:
    """Refuse counts that are none, and options of other backends."""
    one_of("backend", backend, ("auto", *BACKENDS))
    for name, value in (("num_envs", num_envs), ("workers", workers)):
        if value is not None:
            positive_int(name, value)
    if step_timeout is not None and backend in ("serial", "thread", "cuda"):
        raise OptionError(
            f"step_timeout needs backend='process' or 'kernel': a hung step in {backend!r} cannot be stopped"
        )
    if device is not None and backend != "cuda":
        raise OptionError(f"device={device!r} is an option of backend='cuda'; other backends step envs on the CPU")


def _with_bounds(source: EnvFactory, backend: str) -> str:
    """The backend that compiles the world; OptionError for those that do not."""
    if backend not in ("auto", "kernel", "cuda") or kernel_of(source, build=True) is None:
        raise OptionError(
            "bounds is for the compiled code of kernel worlds: it needs one, and backend='kernel' or 'cuda'"
        )
    return "kernel" if backend == "auto" else backend


def _unmeasured(error: Exception, num_envs: int | None, workers: int | None, backend: str, at_least: int) -> Choice:
    """One worker per core, without a measurement: an env may reject random actions and work with a policy's."""
    count = num_envs or max(2 * usable_cores(), workers or 1, at_least)
    backend = "process" if backend == "auto" else backend
    workers = 1 if backend == "serial" else workers or min(usable_cores(), count)
    why = f"not measured, as a step with a random action raised {type(error).__name__}: {error}"
    choice = Choice(backend, count, workers, f"backend={backend!r}, num_envs={count}, workers={workers}: {why}")
    say(choice.reason)
    return choice


@once
def _hint_at_compiled(name: str) -> None:
    """The engine never replaces the world; it says once that a compiled version exists."""
    compiled = f"rookery/{name}"
    if compiled in gym.registry:
        say(f"{name} has a compiled version that is much faster: rookery.make_vec({compiled!r})")


def _build(source: EnvFactory, choice: Choice, settings: Settings) -> Engine:
    if choice.backend not in ("serial", "cuda"):  # these start none
        check_workers(choice.workers)
    module, _, name = BACKENDS[choice.backend].partition(":")
    engine = getattr(import_module(module), name)
    try:
        return engine(source, settings)
    except OSError as error:
        if choice.backend != "process":
            raise
        return _build(source, _cannot_start(error, choice.num_envs), settings)


def _cannot_start(error: OSError, count: int) -> Choice:
    """The serial backend instead, unless the error is rookery's own or an env's, which has an `env_index`."""
    if isinstance(error, RookeryError) or hasattr(error, "env_index"):
        raise error
    say(f"worker processes cannot be started here ({error}); falling back to the serial backend with {count} envs")
    return Choice("serial", count, 1, "")


def _one_of_two_names(num_envs: int | None, n_envs: int | None) -> int | None:
    if num_envs is not None and n_envs is not None and num_envs != n_envs:
        raise OptionError(f"num_envs={num_envs} and n_envs={n_envs} are two names of one option; give one of them")
    return n_envs if num_envs is None else num_envs


# --- vector envs that are already built, as worlds: as many envs, made in the same way --------------------------------
# They are not stepped by rookery and stay as they are: close them when you need them no more.

PARTS = ("num_envs", "single_observation_space", "single_action_space")
# Arguments of `gymnasium.make_vec` about the vector env, which are not options of one env.
OF_THE_CALL = ("num_envs", "vector_kwargs", "vectorization_mode", "wrappers")


def _is_vector_env(world: Any) -> bool:
    """Whether it is a batch of envs; those of EnvPool and Isaac Lab are not VectorEnvs of Gymnasium."""
    if isinstance(world, VectorEnv):
        return True
    return isinstance(world, gym.Env) and all(hasattr(world.unwrapped, name) for name in PARTS)


def _world_of(envs: Any) -> Any:
    """What makes one of its envs, or a list of what makes each; WorldError if it does not say."""
    inner = envs.unwrapped
    if hasattr(inner, "source"):  # an engine: parameters may have been set on it since
        raise WorldError(
            f"{type(inner).__name__} is what make_vec has made: give it the world of that, such as an id or a class"
        )
    if inner is not envs:
        raise WorldError(
            f"make_vec makes the envs in {type(envs).__name__} again, without this wrapper: give `envs.unwrapped`, and "
            "put the wrapper around what make_vec returns"
        )
    spec, functions = getattr(inner, "spec", None), list(getattr(inner, "env_fns", None) or ())
    if isinstance(spec, EnvSpec) and not spec.kwargs.get("wrappers"):  # made by gymnasium.make_vec
        return _spec_of_one(spec)
    if functions:
        return functions[0] if all(function is functions[0] for function in functions) else functions
    raise WorldError(
        f"{type(inner).__name__} does not say how its envs are made, so make_vec cannot make them: step it as it is, "
        "or give it to rookery.train, which does so too"
    )


def _spec_of_one(spec: EnvSpec) -> EnvSpec:
    one = copy.deepcopy(spec)
    one.kwargs = {key: value for key, value in spec.kwargs.items() if key not in OF_THE_CALL}
    one.max_episode_steps = one.kwargs.pop("max_episode_steps", spec.max_episode_steps)
    return one
