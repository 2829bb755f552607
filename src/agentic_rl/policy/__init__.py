"""Policy: who plays and learns."""
