"""Flags follow from the settings that are declared."""

import re
from dataclasses import dataclass, field
from typing import Literal

import pytest
import tyro

from actionless import cli
from actionless.cli.flags import flags_class
from actionless.declared import Alternative, declared_settings
from actionless.settings import Auto, Count, Fraction, Settings

FLAGS_OF_PRETRAIN = [
    "out",
    "seeds",
    "overwrite",
    "method",
    "scale",
    "alpha",
    "steps",
    "batch-size",
    "seed",
    "bins",
    "spacing",
    "epsilon",
    "ensemble",
    "hidden",
    "learning-rate",
    "discount",
    "target-rate",
    "loss",
    "logits",
    "penalty-on",
    "target",
    "mask-terminals",
    "reward-scale",
    "context",
    "width",
    "blocks",
    "target-return",
    "held-out",
    "log-every",
    "evaluate-every",
    "checkpoint-seconds",
    "resident-gb",
    "tensorboard",
    "wandb",
    "state-columns",
    "reward-column",
    "episode-column",
    "time-column",
    "terminal-column",
    "action-columns",
    "reward-at",
    "gaps",
    "sort",
    "episode-length",
    "with-actions",
    "memory-limit-gb",
]
"""Those of version 0.1.0."""


@dataclass(frozen=True)
class Learner(Settings):
    rate: Fraction = 0.5
    """How fast."""
    glow: bool = True
    """Whether it glows."""
    hidden: tuple[Count, ...] = (8, 8)
    """Sizes."""


@dataclass(frozen=True)
class Other(Settings):
    rate: Fraction = 0.5
    """How fast."""


@dataclass(frozen=True)
class Loop(Settings):
    every: Count = 10
    """How often."""
    loud: bool = False
    """Whether it shouts."""


@dataclass(frozen=True)
class Whole(Settings):
    learner: Settings
    steps: Auto[Count] = 5
    """How long."""
    mode: Literal["fast", "slow"] = "fast"
    """How."""
    loop: Loop = field(default_factory=Loop)


def parsed(*arguments, switches=()):
    choices = {"one": Alternative([Learner()]), "other": Alternative([Other()])}
    settings = declared_settings(Whole(Learner()), {"learner": choices})
    made = flags_class(settings, {"": "All.", "learner": "Learner.", "loop": "Loop."}, switches=switches)
    return tyro.cli(
        made, args=list(arguments), registry=cli._registry(), config=(tyro.conf.FlagCreatePairsOff,)
    ).given()


def test_nothing_is_given_by_default():
    assert parsed() == {}


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (["--steps", "7", "--mode", "slow"], {"steps": 7, "mode": "slow"}),
        (["--every", "10"], {"every": 10}),
        (["--glow", "true"], {"glow": True}),
        (["--glow", "false", "--rate", "0.1"], {"glow": False, "rate": 0.1}),
        (["--hidden", "4,4"], {"hidden": (4, 4)}),
    ],
)
def test_what_is_given_counts_even_where_it_is_the_default(arguments, given):
    assert parsed(*arguments) == given


def test_a_setting_of_true_or_false_may_be_a_switch():
    assert parsed("--loud") == {"loud": True}
    assert parsed("--no-glow", switches=("glow",)) == {"glow": False}


def test_the_flags_of_pretrain(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.run(["pretrain", "--help"]) == 0
    shown = capsys.readouterr().out
    flags = set(re.findall(r"--([a-z-]+)", shown))
    assert set(FLAGS_OF_PRETRAIN) <= flags
    assert "--method {oso-decqn,decqn,iql-delta,bc-delta,bc-next,bc-diff,bc-action,afdt}" in shown
    assert "--penalty-factor" in shown and "in the paper's sense at every scale" in " ".join(shown.split())
    assert re.search(r"--bins INT +Number of bins of each state variable's change\. \(default: 3\)", shown)
    assert re.search(r"--blocks INT +Number of blocks of the transformer\. \(afdt\) \(default: 3\)", shown)
    assert re.search(r"--steps INT +Number of updates\..*\(default: auto\)", shown)
