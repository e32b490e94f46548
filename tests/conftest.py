"""Strictness for every test: JAX promotes nothing silently, annotated shapes are checked."""

import atexit
import os
import signal
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Networks of a few units are compiled far longer than they run: compiled plainly, they take a quarter of that time.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false")
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # The workers, and the commands that tests start, compile the same programs again and again: once is enough.
    compiled = tempfile.TemporaryDirectory(prefix="actionless-tests-")
    atexit.register(compiled.cleanup)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = compiled.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"

import hypothesis
import jax
from jaxtyping import install_import_hook

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
# XLA's own generator, as in training: it compiles in a quarter of the time of JAX's default.
jax.config.update("jax_default_prng_impl", "rbg")

# Before anything imports actionless: every annotated shape and type is checked at run time.
install_import_hook("actionless", "beartype.beartype")

# A job started in the background inherits SIGINT ignored; the tests of Ctrl-C, and the processes they start, need it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A loaded machine is not a bug.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")
