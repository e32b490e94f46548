"""Agents that act: environments, replay, TD3, SAC, DecQN_N."""
