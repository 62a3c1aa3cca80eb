"""The pages on kernel worlds say what is true."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import rookery
from conformance.compare import record, same
from docs.pages import PAGES
from rookery.kernel.kernel_env import KernelEnv
from rookery.kernel.world import KernelWorld
from rookery.user_code import load_file

pytestmark = pytest.mark.usefixtures("all_allowed")

PAGE = "".join(text for name, text in PAGES.items() if name.startswith("docs/kernel-worlds"))
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
MESSAGES = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
WORLDS = {re.search(r"class (\w+)", block).group(1): block for block in BLOCKS if "def observe(" in block}
MEADOW = WORLDS["FoxAndRabbit"]


def load(folder, code=MEADOW, name="FoxAndRabbit"):
    """The class in a code block, saved as a reader would save it."""
    file = folder / "meadow.py"
    file.write_text(code)
    return getattr(load_file(str(file)), name)


@pytest.fixture
def meadow(tmp_path):
    return load(tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*render modes:UserWarning")
def test_the_example_is_an_env(meadow):
    """The example passes Gymnasium's checker, compiled and plain."""
    check_env(KernelEnv(meadow))
    check_env(KernelEnv(meadow, plain=True))


@pytest.mark.slow
def test_the_example_is_a_batch(meadow):
    """Compiled as a batch it gives the serial loop's numbers, episodes and infos included."""
    compiled, serial = (rookery.make_vec(meadow, 4, backend=backend) for backend in ("kernel", "serial"))
    assert same(record(compiled, 250), record(serial, 250))
    assert rookery.make_vec(meadow, 4).backend == "kernel"


def test_the_example_is_a_game(meadow):
    """Who runs after the rabbit catches it; who runs anywhere does not."""
    envs = rookery.make_vec(meadow, 32, backend="kernel")
    seen, _ = envs.reset(seed=1)
    for _ in range(200):
        across, up = (seen[:, 2:] - seen[:, :2]).T
        seen = envs.step(np.round(np.arctan2(up, across) / (np.pi / 4)).astype(int) % 8)[0]
    chased = envs.finished_episodes()
    record(envs, 400)
    strolled = envs.finished_episodes()
    assert chased["return"].mean() > 0.5 > 0.0 > strolled["return"].mean()


def test_the_example_runs_alike_in_plain_python(meadow):
    """Plain Python gives the compiled numbers."""
    assert same(walk(KernelEnv(meadow), 300), walk(KernelEnv(meadow, plain=True), 300))


def walk(env, steps):
    env.reset(seed=4)
    results = []
    for action in np.random.default_rng(0).integers(0, 8, steps).tolist():
        results.append(env.step(action))
        if results[-1][2] or results[-1][3]:
            env.reset()
    return results


def test_the_example_goes_on_where_it_stopped(meadow):
    """`state_dict` carries all that decides the future."""
    first, second = (rookery.make_vec(meadow, 4, backend="kernel") for _ in range(2))
    record(first, 130)
    second.load_state_dict(first.state_dict())
    actions = np.random.default_rng(1).integers(0, 8, (200, 4))
    assert same([first.step(row) for row in actions], [second.step(row) for row in actions])


def test_parameters_are_set_as_shown(meadow):
    """The lines about parameters run, and have the effect that their comments claim."""
    block = next(block for block in BLOCKS if "set_parameters(rabbit_speed" in block)
    scope = {"rookery": rookery, "FoxAndRabbit": meadow}
    exec(block, scope)
    now = scope["envs"].parameters
    assert now["fox_speed"].tolist() == [0.08] * 4
    assert now["rabbit_speed"].tolist() == [0.01, 0.02, 0.03, 0.04]
    assert now["dodging"].tolist() == [0.8] * 4
    assert now["time_limit"].tolist() == [200] * 4


def test_masks_come_with_observations(tmp_path):
    """The lift's masks follow its floor, in plain Python as in every backend."""
    env = KernelEnv(load(tmp_path, WORLDS["Lift"], "Lift"), plain=True)
    floor, info = env.reset(seed=1)
    for _ in range(12):
        assert info["action_mask"].tolist() == [floor > 0, 1, floor < 9]
        floor, reward, *_, info = env.step(2)
        assert reward == pytest.approx(floor / 9)
    assert floor == 9


@pytest.mark.usefixtures("plain_python")
def test_agents_have_rows_of_their_own(tmp_path):
    """Two agents in three envs are six rows; what one sees first, the other sees second."""
    envs = rookery.make_vec(load(tmp_path, WORLDS["Tag"], "Tag"), 3, backend="kernel")
    assert (envs.num_envs, envs.num_worlds) == (6, 3)
    seen, _ = envs.reset(seed=1)
    assert np.array_equal(seen[::2], seen[1::2, ::-1])
    _, rewards, *_ = envs.step([0, 2] * 3)
    assert np.allclose(rewards[::2], -rewards[1::2])
    assert np.allclose(rewards[1::2], seen[1::2, 0] - seen[::2, 0] + 2)


def test_the_names_that_are_taken_are_listed():
    """The page names every field that the engine keeps in `state`."""
    from rookery.kernel.world import RESERVED

    assert ", ".join(f"`{name}`" for name in RESERVED[:-1]) + f" and `{RESERVED[-1]}` are taken" in PAGE.replace(
        "\n", " "
    )


def test_arguments_are_listed():
    """Each argument that a function may ask for has its row, with the functions that may."""
    from rookery.kernel.world import ARGUMENTS

    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", PAGE, re.MULTILINE))
    for argument in set(itertools.chain(*ARGUMENTS.values())):
        roles = [role for role, names in ARGUMENTS.items() if argument in names]
        assert rows[argument] == ("all" if len(roles) == len(ARGUMENTS) else ", ".join(f"`{role}`" for role in roles))


def test_every_kind_of_declaration_is_listed():
    """The table of declarations has a row for each attribute of KernelWorld that an author sets."""
    from rookery.kernel.world import INTERNAL

    declared = set(KernelWorld.__annotations__) - {"simulation", *INTERNAL} | {"clips_actions"}
    for name in declared - {"metadata", "reset", "step", "observe", "action_mask"}:
        assert re.search(rf"^\| .*`{name}`.* \|", PAGE, re.MULTILINE), name


# --- the messages ---------------------------------------------------------------------------------------------------

BROKEN = {
    "no field": ("state.fox[0] +=", "state.fxo[0] +="),
    "unknown argument": ("action, params, info)", "action, parameters, info)"),
    "read-only": ("        state.fox[0] +=", "        params.fox_speed *= 0.99\n        state.fox[0] +="),
    "cannot be compiled": ("        heading = action", "        assert action >= 0\n        heading = action"),
}


@pytest.mark.parametrize("about", BROKEN)
def test_messages_about_code_are_real(tmp_path, about):
    """What the page shows for a broken world is what a reader gets."""
    with pytest.raises(rookery.errors.WorldError) as caught:
        KernelEnv(load(tmp_path, MEADOW.replace(*BROKEN[about])))
    assert shown(about) in told(caught.value).replace(f"{tmp_path}/", "")


@pytest.mark.slow
def test_the_message_about_indices_is_real(tmp_path):
    """Checked code names an index that is out of bounds as shown."""
    code = MEADOW.replace("state.fox[0] +=", "state.fox[state.steps // 10 * 10] +=")
    envs = rookery.make_vec(load(tmp_path, code), 2, backend="kernel", bounds=True)
    envs.reset(seed=1)
    with pytest.raises(rookery.errors.WorldError) as caught:
        for _ in range(12):
            envs.step([0, 0])
    assert shown("env 0: index") in told(caught.value).replace(f"{tmp_path}/", "")


def test_the_message_about_parameters_is_real(meadow):
    """A misspelt parameter is answered with the nearest, as shown."""
    with pytest.raises(rookery.errors.OptionError) as caught:
        meadow(fox_sped=1.0)
    assert told(caught.value) == shown("has no parameter")


def test_the_message_about_actions_is_real(meadow):
    """An action outside the space is rejected as shown, and nothing moves."""
    envs = rookery.make_vec(meadow, 2, backend="kernel")
    before, _ = envs.reset(seed=1)
    with pytest.raises(rookery.errors.SpaceError) as caught:
        envs.step([9, 1])
    assert told(caught.value) == shown("action 9")
    assert np.array_equal(envs.reset(options={"reset_mask": np.array([True, False])})[0][1], before[1])


def test_the_message_about_nan_is_real(meadow):
    """NaN is found where the page says."""
    envs = rookery.make_vec(meadow, 2, backend="kernel")
    envs.reset(seed=1)
    envs.set_parameters(fox_speed=float("nan"))
    with pytest.raises(rookery.errors.BadValue) as caught:
        envs.step([0, 0])
    assert told(caught.value) == shown("is nan")


@pytest.mark.usefixtures("plain_python")
def test_the_message_about_spaces_is_real(tmp_path):
    """An observation outside the space is reported as shown."""
    code = MEADOW.replace("out[0], out[1] = state.fox[0]", "out[0], out[1] = 3.0 * state.steps")
    envs = rookery.make_vec(load(tmp_path, code), 2, backend="kernel")
    envs.reset(seed=1)
    with pytest.raises(rookery.errors.SpaceError) as caught:
        envs.step([0, 0])
    assert told(caught.value) == shown("outside")


def told(error):
    return f"{type(error).__name__}: {error}"


def shown(part):
    return next(message for message in MESSAGES if part in message).strip()
