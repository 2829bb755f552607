"""Rollout: how the agent plays."""
