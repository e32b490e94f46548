"""A state policy at work: the inverse dynamics model, the switch, and the guide."""
