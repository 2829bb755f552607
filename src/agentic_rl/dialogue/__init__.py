"""Dialogue: how the agent talks."""
