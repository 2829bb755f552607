"""What the self-teacher's word is worth: does a turn that brings the end nearer get more evidence than others?

`distance` says how far each state was from the end, `score` has the teacher read real trajectories, `worth` compares
the two, and `command` is `agentic-rl teacher`. Nothing here trains or changes how credit is given.
"""
