"""Credit: what was worth learning.

Pure functions from rewards (and a teacher's evidence) to advantages. Arrays in, arrays out; no I/O, no tokens.
"""

from agentic_rl.credit.agent_opsd import TurnCredit, agent_opsd, agent_opsd_metrics
from agentic_rl.credit.group_mean import group_mean_advantages

__all__ = ["TurnCredit", "agent_opsd", "agent_opsd_metrics", "group_mean_advantages"]
