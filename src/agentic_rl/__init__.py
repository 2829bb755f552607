"""agentic-rl-lab: teach a language model to act."""
