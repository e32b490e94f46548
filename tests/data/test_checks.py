import pytest

from actionless.data.checks import action_like


@pytest.mark.parametrize(
    "name",
    [
        *("action", "Actions", "action_0", "action[0]", "action_left", "left.action.x", "motorAction2", "a/action/1"),
        *("act", "act_1", "act.left", "ctrl.1", "ctrl", "valve_ctrl", "cmd_vel", "motor_command", "commands[3]"),
        *("torque_1", "jointTorque[3]", "torque_left_knee", "valve_control", "controls0", "insulin dose", "u", "u_1"),
    ],
)
def test_names_of_actions(name):
    assert action_like(["x", name]) == [name]


@pytest.mark.parametrize(
    "name",
    [
        *("activity", "factor", "reaction", "interaction_rate", "temp_act", "actual_flow", "compact", "actor_x"),
        *("control_room_temp", "controller_temp", "dosage_form", "commander", "u_wind", "mu", "up", "x[0]", "7", ""),
    ],
)
def test_other_names(name):
    assert action_like([name]) == []
