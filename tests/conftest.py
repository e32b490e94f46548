"""Strictness for every test: JAX promotes nothing silently, annotated shapes are checked."""

import os
import signal

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import hypothesis
import jax
from jaxtyping import install_import_hook

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# Before anything imports actionless: every annotated shape and type is checked at run time.
install_import_hook("actionless", "beartype.beartype")

# A job started in the background inherits SIGINT ignored; the tests of Ctrl-C, and the processes they start, need it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A loaded machine is not a bug.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")
