"""Errors that a user can mend.

Every one of them reads as one line: what is wrong, where, and how to mend it. The command line prints that line
and exits with `EXIT_CODE`; a traceback is reserved for our own mistakes.
"""

from __future__ import annotations

EXIT_CODE = 2


class AgenticRLError(Exception):
    """Base of all errors that a user can mend.

    Parameters
    ----------
    message
        What is wrong and where.
    hint
        How to mend it, if that is not plain from the message.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        line = message if hint is None else f"{message.rstrip('.')}. {hint}"
        super().__init__(" ".join(line.split()))


class ConfigError(AgenticRLError):
    """A flag or a combination of flags that cannot work."""


class DatasetError(AgenticRLError):
    """The folder of games is missing, incomplete or unreadable."""


class GameFileError(AgenticRLError):
    """One game file is damaged or of an unknown kind."""


class EnvironmentFailure(AgenticRLError):  # noqa: N818 - the environment failed, not the user
    """One environment died or stopped answering; it costs its trajectory, never the update."""


class TemplateError(AgenticRLError):
    """A chat template that cannot carry a token-exact dialogue."""


class SkillsError(AgenticRLError):
    """A skills folder that does not cover the tasks."""


class CheckpointError(AgenticRLError):
    """A checkpoint path that is unknown, damaged or of another model."""


class BackendError(AgenticRLError):
    """The sampling or training backend refused or failed."""


class MissingExtraError(AgenticRLError):
    """An optional part of the installation is needed and absent."""


class ResultsError(AgenticRLError):
    """Evaluation files that are missing, damaged, would be overwritten, or cannot be compared."""


class RunDirectoryError(AgenticRLError):
    """A run directory that exists already, is locked, or cannot be resumed."""
