"""Games: what is played."""
