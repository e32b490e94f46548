import math

import gymnasium
import mujoco
import numpy as np
import pytest
from dm_control import suite
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from actionless.errors import ActionlessError
from actionless.online.dm_control import DMControlEnvironment
from actionless.online.environments import Environment, make

VECTOR = spaces.Box(-np.inf, np.inf, (2,))
UNIT = spaces.Box(-1, 1, (1,))


class Script(gymnasium.Env):
    """Gives prepared answers and records the actions."""

    def __init__(self, observation_space=VECTOR, action_space=UNIT, *answers, start=(0.0, 0.0)):
        self.observation_space = observation_space
        self.action_space = action_space
        self.taken = []
        self._start = start
        self._answers = iter(answers)

    def reset(self, *, seed=None, options=None):
        return self._start, {}

    def step(self, action):
        self.taken.append(action)
        return *next(self._answers, ((0.0, 0.0), 0.0, False, False)), {}


def translated(space, action, bins=None):
    simulator = Script(VECTOR, space)
    environment = Environment("script", simulator, bins=bins)
    environment.reset(0)
    environment.step(action)
    assert space.contains(simulator.taken[0])
    return environment.spec, simulator.taken[0]


def error_of(made, **options):
    with pytest.raises(ActionlessError) as error:
        made(**options) if callable(made) else Environment("script", made, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("name", ["Hopper-v5", "HalfCheetah-v5", "dmc:cheetah-run"])
def test_an_episode_depends_only_on_its_seed_and_actions(name):
    first, second = make(name), make(name)
    actions = np.random.default_rng(0).uniform(-1, 1, (50, first.spec.action_dim)).astype(np.float32)
    second.reset(1)
    for action in actions[::-1]:
        second.step(action)

    np.testing.assert_array_equal(first.reset(2**32 - 1), second.reset(2**32 - 1))
    for action in actions:
        ours, theirs = first.step(action), second.step(action)
        assert ours.state.tobytes() == theirs.state.tobytes()
        assert ours[1:] == theirs[1:]
        if ours.terminated:
            break
    assert not np.array_equal(first.reset(3), first.reset(4))


def test_gymnasium_environment_gives_the_same_as_gymnasium():
    ours, theirs = make("Pendulum-v1"), gymnasium.make("Pendulum-v1")
    np.testing.assert_array_equal(ours.reset(5), theirs.reset(seed=5)[0])
    step = ours.step(np.array([0.5], np.float32))
    state, reward, *_ = theirs.step(np.array([1.0], np.float32))  # its limits are ±2
    np.testing.assert_array_equal(step.state, state)
    assert step.state.dtype == np.float32
    assert step.reward == reward


def test_dm_control_environment_gives_the_same_as_the_suite():
    ours = make("dmc:quadruped-walk", bins=3)
    theirs = suite.load("quadruped", "walk", task_kwargs={"random": 5})
    limits = theirs.action_spec()
    first, then = theirs.reset(), theirs.step(np.where(np.arange(12) < 6, limits.minimum, limits.maximum))
    np.testing.assert_array_equal(ours.reset(5), flat(first.observation))
    step = ours.step(np.repeat([0, 2], 6))
    np.testing.assert_array_equal(step.state, flat(then.observation))
    assert step.reward == then.reward
    assert (ours.spec.state_dim, ours.spec.action_dim) == (78, 12)


def flat(observation):
    return np.concatenate([np.ravel(part) for part in observation.values()])


def test_dm_control_environment_truncates_at_its_limit_and_terminates_at_discount_zero():
    environment = make("dmc:pendulum-swingup")
    environment.reset(0)
    *before, last = [environment.step(np.zeros(1)) for _ in range(1000)]
    assert not any(step.terminated or step.truncated for step in before)
    assert (last.terminated, last.truncated) == (False, True)

    regulator = DMControlEnvironment("lqr", "lqr_2_1")
    environment = Environment("dmc:lqr-lqr_2_1", regulator)
    environment.reset(0)
    assert environment.step(np.zeros(1))[2:] == (False, False)
    with regulator._suite.physics.reset_context():
        regulator._suite.physics.set_state(np.zeros(4))  # it terminates when the masses are at rest
    assert environment.step(np.zeros(1))[2:] == (True, False)


def test_random_dm_control_model_is_always_the_same():
    first, second = make("dmc:lqr-lqr_2_1"), make("dmc:lqr-lqr_2_1")
    np.testing.assert_array_equal(first.reset(0), second.reset(0))
    np.testing.assert_array_equal(first.step(np.ones(1)).state, second.step(np.ones(1)).state)


def test_no_environment_opens_a_display():
    simulator = DMControlEnvironment("quadruped", "escape")
    simulator.reset(seed=0)
    assert simulator._suite.physics._contexts is None


def test_old_versions_and_old_models_print_no_warnings(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log there
    make("HalfCheetah-v4")
    make("dmc:cheetah-run")
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_other_warnings_of_the_simulator_are_shown(capfd, monkeypatch):
    def upset():
        model = mujoco.MjModel.from_xml_string(
            "<mujoco><worldbody><body><freejoint/><geom size='1'/></body></worldbody></mujoco>"
        )
        data = mujoco.MjData(model)
        data.qpos[0] = math.nan
        mujoco.mj_checkPos(model, data)
        return Script()

    monkeypatch.setitem(gymnasium.registry, "Upset-v0", EnvSpec("Upset-v0", entry_point=upset))
    make("Upset-v0")
    assert capfd.readouterr().err.startswith("MuJoCo: Nan, Inf or huge value in QPOS at DOF 0")


def test_continuous_actions_are_rescaled_to_the_limits():
    space = spaces.Box(np.array([-2.0, 0.0, 0.1]), np.array([2.0, 1.0, 0.7]), dtype=np.float64)
    spec, action = translated(space, np.array([-1.0, 0.5, 1.0], np.float32))
    assert (spec.action_dim, spec.bins) == (3, None)
    np.testing.assert_allclose(action, [-2.0, 0.75, 0.7])
    assert action.dtype == np.float64


def test_rounding_never_leaves_the_limits():
    rng = np.random.default_rng(0)
    low = rng.normal(size=1000).astype(np.float32)
    space = spaces.Box(low, low + rng.uniform(0, 3, 1000).astype(np.float32))
    for end in (-1, 1):
        assert space.contains(translated(space, np.full(1000, end, np.float32))[1])


def test_levels_run_from_limit_to_limit():
    space = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 1.0], np.float32))
    spec, action = translated(space, np.array([0, 2], np.int32), bins=3)
    assert (spec.action_dim, spec.bins) == (2, 3)
    np.testing.assert_array_equal(action, np.array([-2.0, 1.0], np.float32))
    np.testing.assert_array_equal(translated(space, np.array([1, 1], np.int32), bins=3)[1], [0.0, 0.5])


def test_discrete_actions_stay_as_they_are():
    spec, action = translated(spaces.Discrete(4, start=-1), np.array([3], np.int32), bins=9)
    assert (spec.action_dim, spec.bins, action) == (1, 4, 2)
    spec, action = translated(spaces.MultiDiscrete([3, 3], start=[0, 10]), np.array([2, 1], np.int32), bins=9)
    assert (spec.action_dim, spec.bins) == (2, 3)
    np.testing.assert_array_equal(action, [2, 11])


def test_dictionary_is_flattened_in_order():
    space = spaces.Dict([("speed", spaces.Box(-1, 1, (2,))), ("height", spaces.Box(-1, 1, ()))])
    environment = Environment("script", Script(space, start={"height": np.array(3.0), "speed": np.array([1.0, 2.0])}))
    np.testing.assert_array_equal(environment.reset(0), [1.0, 2.0, 3.0])
    assert environment.spec.state_dim == 3


def test_terminated_and_truncated_are_told_apart():
    answers = [((0.0, 1.0), 1, False, True), ((0.0, 2.0), np.float32(2), np.True_, False)]
    environment = Environment("script", Script(VECTOR, UNIT, *answers))
    environment.reset(0)
    truncated, end = environment.step(np.zeros(1)), environment.step(np.zeros(1))
    assert truncated[1:] == (1.0, False, True)
    assert end[1:] == (2.0, True, False)
    assert type(end.reward) is float and type(end.terminated) is bool


def test_state_is_a_copy():
    buffer = np.zeros(2)
    environment = Environment("script", Script(start=buffer))
    state = environment.reset(0)
    buffer[:] = 1
    np.testing.assert_array_equal(state, [0.0, 0.0])


def test_numbers_that_are_not_finite_are_named():
    fine = ((0.0, 0.0), 0.0, False, False)
    environment = Environment("script", Script(VECTOR, UNIT, fine, ((0.0, math.nan), 0.0, False, False)))
    environment.reset(8)
    environment.step(np.zeros(1))
    assert error_of(lambda: environment.step(np.zeros(1))) == (
        "dimension 1 of the observation is nan at step 2 of an episode of 'script' (seed 8): check the environment"
    )
    environment = Environment("script", Script(VECTOR, UNIT, ((0.0, 0.0), -math.inf, False, False)))
    environment.reset(0)
    assert "the reward is -inf at step 1 of an episode of 'script'" in error_of(lambda: environment.step(np.zeros(1)))
    environment = Environment("script", Script(start=(math.inf, 0.0)))
    assert "dimension 0 of the observation is inf at step 0" in error_of(lambda: environment.reset(0))


def test_unstable_simulation_is_named():
    simulator = DMControlEnvironment("pendulum", "swingup")
    environment = Environment("dmc:pendulum-swingup", simulator)
    environment.reset(0)
    simulator._suite.physics.data.qvel[:] = 1e300
    message = error_of(lambda: environment.step(np.zeros(1)))
    assert message.startswith("the simulation of 'dmc:pendulum-swingup' became unstable: Physics state is invalid")


def test_observation_with_a_wrong_shape():
    environment = Environment("script", Script(start=(0.0, 0.0, 0.0)))
    assert "has shape (3,) at step 0" in error_of(lambda: environment.reset(0))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 255, (8, 8, 3), np.uint8),
        spaces.Discrete(3),
        spaces.Dict(camera=spaces.Box(0, 255, (8, 8, 3), np.uint8)),
        spaces.Dict(mode=spaces.Discrete(3)),
    ],
)
def test_observations_that_are_not_vectors(space):
    message = error_of(Script(space))
    assert message.startswith(
        f"environment 'script' observes {space}, but states must be vectors of numbers: register it"
    )


@pytest.mark.parametrize(
    ("space", "bins", "reason"),
    [
        (spaces.Box(-np.inf, 1, (2,)), None, "real numbers with finite limits"),
        (spaces.Box(-np.inf, 1, (2,)), 3, "real numbers with finite limits"),
        (spaces.Box(0, 5, (2,), np.int32), None, "real numbers with finite limits"),
        (spaces.Box(-1, 1, (2, 2)), None, "actions must be vectors"),
        (spaces.Discrete(3), None, "needs continuous actions: use an agent for discrete actions (train --agent decqn)"),
        (spaces.MultiDiscrete([3, 4]), 3, "the number of choices must be the same in each dimension"),
        (spaces.Text(3), 3, "the number of choices must be the same in each dimension"),
    ],
)
def test_unsupported_action_spaces(space, bins, reason):
    message = error_of(Script(VECTOR, space), bins=bins)
    assert message.startswith(f"environment 'script' takes actions in {' '.join(str(space).split())}, but ")
    assert reason in message


def test_one_level_is_refused():
    assert error_of(Script(), bins=1) == "an action cannot have 1 levels: give at least 2"


def test_unknown_names_suggest_the_closest():
    assert "no environment 'Hoper-v5' is registered with Gymnasium; did you mean 'Hopper-v5'" in error_of(
        lambda: make("Hoper-v5")
    )
    assert "did you mean 'Hopper-v5'" in error_of(lambda: make("Hopper"))
    assert "no environment 'dmc:cheeta-run' in the DeepMind Control Suite; did you mean 'dmc:cheetah-run'" in error_of(
        lambda: make("dmc:cheeta-run")
    )
    nothing_close = error_of(lambda: make("dmc:zzz"))
    assert "did you mean" not in nothing_close
    assert "its domains: acrobot, ball_in_cup, cartpole" in nothing_close


def test_registered_environment_that_cannot_be_created():
    message = error_of(lambda: make("Hopper-v3"))
    assert message.startswith("environment 'Hopper-v3' cannot be made (ImportError: The mujoco v2 and v3 based")


def test_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert error_of(lambda: make("dmc:cheetah-run")) == (
        "environment 'dmc:cheetah-run' needs the package 'dm_control', which is not installed: "
        "pip install 'actionless[dmc]'"
    )


def test_own_environment(tmp_path, monkeypatch):
    (tmp_path / "own_environments.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.classic_control import PendulumEnv\n"
        "gymnasium.register('OwnPendulum-v0', PendulumEnv, max_episode_steps=9)\n"
    )
    (tmp_path / "broken_module.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert make("own_environments:OwnPendulum-v0").spec.state_dim == 3
        assert "did you mean 'OwnPendulum-v0'" in error_of(lambda: make("own_environments:OwnPendulum-v1"))
    finally:
        gymnasium.registry.pop("OwnPendulum-v0", None)
    assert error_of(lambda: make("no_such_module:Own-v0")) == (
        "the module of environment 'no_such_module:Own-v0' cannot be imported (ModuleNotFoundError: No module named "
        "'no_such_module'): install it, or put its folder on PYTHONPATH "
        "(on the command line, --traceback shows where it was raised)"
    )
    assert "cannot be imported (ZeroDivisionError: division by zero)" in error_of(lambda: make("broken_module:Own-v0"))
