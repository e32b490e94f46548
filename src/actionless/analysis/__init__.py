"""Is a state policy any good, and what does it recommend? With an environment, and without one."""
