"""The token-exact transcript: a dialogue that only ever grows at its end."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, Self

from agentic_rl.dialogue.chat_format import ChatFormat


class Transcript:
    """One dialogue as token ids.

    Token ids are the truth: what was sampled is never decoded and tokenized again, and nothing that stands is ever
    rewritten, whatever the template would do to history. A turn costs what it adds.

    Parameters
    ----------
    chat
        A `ChatFormat`, or a tokenizer to make one from (probing its template, which costs some milliseconds).
    system, user
        The texts of the first prompt.
    """

    __slots__ = ("_spans", "_tokens", "chat")

    def __init__(self, chat: ChatFormat | Any, *, system: str, user: str) -> None:
        self.chat: ChatFormat = chat if isinstance(chat, ChatFormat) else ChatFormat.from_tokenizer(chat)
        self._tokens = self.chat.render_first(system, user)
        self._spans: list[tuple[int, int]] = []

    def __len__(self) -> int:
        """The number of tokens in `prompt`."""
        return len(self._tokens)

    @property
    def prompt(self) -> list[int]:
        """All token ids so far: the prompt of the next turn. The caller's own copy."""
        return self._tokens.copy()

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Where each turn's sampled tokens stand in `prompt`: (start, end)."""
        return self._spans.copy()

    def add_turn(self, sampled_tokens: Sequence[int], observation: str) -> None:
        """Append one assistant turn as it was sampled and the environment's answer to it.

        Parameters
        ----------
        sampled_tokens
            The turn's token ids, with or without the stop token; a turn cut short is closed here.
        observation
            The whole tool message.
        """
        sampled = [index(token) for token in sampled_tokens]
        bridge = self.chat.bridge(sampled, observation)
        start = len(self._tokens)
        end = start + len(sampled)
        self._tokens += sampled
        self._tokens += bridge
        self._spans.append((start, end))
        self._check(sampled, bridge)

    def fork(self) -> Self:
        """Another transcript with the same past, for a branch that goes its own way from here."""
        twin = object.__new__(type(self))
        twin.chat, twin._tokens, twin._spans = self.chat, self._tokens.copy(), self._spans.copy()
        return twin

    def _check(self, sampled: list[int], bridge: list[int]) -> None:
        """The prefix property, as far as the last turn can have broken it."""
        start, end = self._spans[-1]
        if not bridge or self._tokens[start:end] != sampled or self._tokens[end:] != bridge:
            raise RuntimeError(f"turn {len(self._spans)}: the next prompt is not the last one extended")
