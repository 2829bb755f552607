"""The table of recipes: one class and one file each.

A recipe is a reward and a rule of credit; everything else is the loop's.
"""

from agentic_rl.training.recipe import Recipe
from agentic_rl.training.recipes.agent_opsd import AgentOPSD
from agentic_rl.training.recipes.group_mean import GroupMean

RECIPES: dict[str, type[Recipe]] = {"08-alfworld": GroupMean, "09-AgentOPSD": AgentOPSD}

__all__ = ["RECIPES", "AgentOPSD", "GroupMean"]
