"""Skills: the teacher's texts, and which task gets which.

A student never sees one. `texts/` holds the project's own; any folder of that form does.
"""

from agentic_rl.skills.book import SkillBook, builtin_skills_dir

__all__ = ["SkillBook", "builtin_skills_dir"]
