"""One tokenizer's way of writing a dialogue, as token ids."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from agentic_rl.dialogue.template_probe import Dialect, Findings, Message, Renderer, Unfit, probe
from agentic_rl.dialogue.tool import TOOL_SCHEMA
from agentic_rl.errors import TemplateError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class ChatFormat:
    """How this tokenizer opens a dialogue, and what stands between two assistant turns.

    Made once by `from_tokenizer`, immutable, shared by every transcript. After that the template runs for first
    prompts only: what stands between two turns is text around the observation, and costs what it is long.

    Attributes
    ----------
    stop_token_ids
        The tokens that end an assistant turn; the template's own first. Empty (and warned of) only where neither
        the template nor the tokenizer has one.
    """

    stop_token_ids: tuple[int, ...]
    _found: Findings
    _render: Renderer = field(repr=False)
    _closing: tuple[int, ...] = field(repr=False)  # the text between an assistant's words and an observation
    _end_at: int | None = field(repr=False)  # where in it the token stands that ends the turn
    _enders: frozenset[int] = field(repr=False)  # the tokens with which the template itself ends a turn

    @classmethod
    def from_tokenizer(cls, tokenizer: Any, tools: Sequence[dict[str, Any]] = (TOOL_SCHEMA,)) -> Self:
        """Probe the tokenizer's chat template.

        Parameters
        ----------
        tokenizer
            A `transformers` tokenizer with a chat template.
        tools
            JSON schemas of the tools the agent has.

        Raises
        ------
        TemplateError
            The template cannot carry a token-exact dialogue; the message says why.
        """
        if not getattr(tokenizer, "chat_template", None):
            raise TemplateError(
                "the tokenizer has no chat template", hint="Take an instruction-tuned model, or give it a template."
            )
        own = _own_tokens(tokenizer)
        render = Renderer(tokenizer, tuple(tools))
        found = probe(render, lambda text: _first(_encode(tokenizer, text), own) is not None)
        closing = _encode(tokenizer, found.before)
        end_at = next((index for index, token in enumerate(closing) if token in own), None)
        end_in_history = None if end_at is None else closing[end_at]
        end_at_last = _first(_encode(tokenizer, found.ending), own)
        stops = _stops(tokenizer, found, own, end_in_history, end_at_last)
        if not stops:
            _log.warning("No token ends an assistant turn here: every turn runs to its limit. Set the eos_token.")
        return cls(
            stop_token_ids=stops,
            _found=found,
            _render=render,
            _closing=tuple(closing),
            _end_at=end_at,
            _enders=frozenset(token for token in (end_in_history, end_at_last) if token is not None),
        )

    @property
    def tokenizer(self) -> Any:
        """The tokenizer this format was made for."""
        return self._render.tokenizer

    @property
    def dialect(self) -> Dialect:
        """Which roles carry what, and whether the template's own tool-call spelling is ours."""
        return self._found.dialect

    def first_messages(self, system: str, user: str) -> list[Message]:
        """The first prompt as messages, in this template's dialect."""
        return self.dialect.opening(system, user, self._render.tools)

    def render_first(self, system: str, user: str) -> list[int]:
        """The first prompt as token ids, up to where the assistant's words begin."""
        try:
            text = self._render(self.first_messages(system, user), native_tools=self.dialect.native_tools)
        except Unfit as why:
            raise TemplateError(f"this first prompt cannot be written: {why}") from why
        return _encode(self.tokenizer, text)

    def bridge(self, sampled: Sequence[int], observation: str) -> list[int]:
        """What follows a turn's sampled tokens: the rest of its closing, the observation, the next turn's opening.

        It is tokenized in one piece and then shortened by what the sampler had already said of the closing, so
        that no token depends on whether a backend hands out the stop token.
        """
        tokens = _encode(self.tokenizer, f"{self._found.before}{self._found.fit(observation)}{self._found.after}")
        return tokens[self._said_already(sampled, tokens) :]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of sampled tokens, for `parse_tool_call`: all of it but the tokens that end a turn."""
        kept = [int(token) for token in tokens if token not in self.stop_token_ids]
        text: str = self.tokenizer.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    def _said_already(self, sampled: Sequence[int], tokens: list[int]) -> int:
        if len(sampled) == 0:
            return 0
        if self._end_at is not None and sampled[-1] in self._enders:
            return self._end_at + 1
        longest = min(len(sampled), _common(tokens, self._closing))
        tail = list(sampled[len(sampled) - longest :])
        return next((said for said in range(longest, 0, -1) if tail[longest - said :] == tokens[:said]), 0)


def _encode(tokenizer: Any, text: str) -> list[int]:
    tokens: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return tokens


def _own_tokens(tokenizer: Any) -> frozenset[int]:
    """Tokens that plain text is never made of: where one stands, a turn may begin or end."""
    return frozenset(getattr(tokenizer, "added_tokens_decoder", {})) | frozenset(tokenizer.all_special_ids)


def _first(tokens: Sequence[int], wanted: Collection[int]) -> int | None:
    return next((token for token in tokens if token in wanted), None)


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two sequences have in common at the front."""
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def _stops(
    tokenizer: Any, found: Findings, own: frozenset[int], end_in_history: int | None, end_at_last: int | None
) -> tuple[int, ...]:
    """The tokens that end an assistant turn.

    Where the template ends the last message of all with a token, that is the one (gpt-oss ends its own thoughts
    with the token that ends a message in history, so that one must not stop it). Where it does not, the next
    message's first token ends the turn, whoever speaks next. A model that falls back into its own tool-call
    markup must stop too.
    """
    stops = [end_at_last]
    if end_at_last is None:
        stops += [end_in_history, _first(_encode(tokenizer, found.before_user), own)]
    if found.native_call_tail is not None:
        special = frozenset(tokenizer.all_special_ids) | frozenset(
            token for token, added in getattr(tokenizer, "added_tokens_decoder", {}).items() if added.special
        )
        call_end = _first(_encode(tokenizer, found.native_call_tail)[::-1], special)
        if call_end is not None and "tool_call" not in tokenizer.convert_ids_to_tokens(call_end):
            stops.append(call_end)
    stops.append(tokenizer.eos_token_id)
    return tuple(dict.fromkeys(token for token in stops if token is not None))
