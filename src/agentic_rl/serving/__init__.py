"""A PyTRIO-compatible server over the local engine: any PyTRIO script trains on this machine.

`command.py` is the `agentic-rl serve` command; `app.py` joins the control and actor routes; `store.py` is what
survives a restart. The protocol is that of the `pytrio` SDK 0.2.8 and 0.2.9; losses are plain sums over tokens.
"""
