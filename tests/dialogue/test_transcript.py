"""A dialogue as token ids grows at its end and nowhere else, and a turn costs what it adds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from template_families import TEMPLATES, format_of
from transformers import PreTrainedTokenizerFast

import agentic_rl
from agentic_rl.dialogue import SYSTEM_PROMPT, TOOL_SCHEMA, ChatFormat, Transcript, parse_tool_call, with_skills
from agentic_rl.dialogue.template_probe import Dialect

USER = "Your task is to: put a mug in the fridge 1."
OBSERVATION = "Step: 1\nStatus: Action executed.\nObservation:\nYou open the fridge 1."
CALL = '<tool_call>{"name": "alfworld_step", "arguments": {"action": "open fridge 1"}}</tool_call>'
SOME = [
    "deepseekv3",
    "gemma",
    "gptoss",
    "llama3_1",
    "nemotron_3_nano",
    "qwen2_5",
    "qwen3",
    "qwen3_5_nothink",
    "smolvlm",
]


@pytest.fixture(params=SOME)
def chat(request: pytest.FixtureRequest) -> ChatFormat:
    return format_of(request.param)


def encoded(chat: ChatFormat, text: str) -> list[int]:
    ids: list[int] = chat.tokenizer.encode(text, add_special_tokens=False)
    return ids


def begun(chat: ChatFormat) -> Transcript:
    return Transcript(chat, system=SYSTEM_PROMPT, user=USER)


def test_200_turns_through_a_bpe_that_does_not_round_trip() -> None:
    chat = format_of("qwen3")
    rng, words = random.Random(7), range(len(chat.tokenizer) - 40)  # tokens of text, in any order
    transcript, changed = begun(chat), 0
    for turn in range(200):
        before = transcript.prompt
        sampled = rng.choices(words, k=rng.randrange(1, 60))
        changed += encoded(chat, chat.decode(sampled)) != sampled
        transcript.add_turn([*sampled, *([chat.stop_token_ids[0]] * rng.randrange(2))], f"{OBSERVATION} {turn}")
        after = transcript.prompt
        assert len(after) > len(before)
        assert after[: len(before) + len(sampled)] == before + sampled
    assert changed > 150, "this tokenizer is too kind to prove anything"
    assert len(transcript.spans) == 200


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), name=st.sampled_from(sorted(TEMPLATES)))
def test_whatever_is_sampled_stays(data: st.DataObject, name: str) -> None:
    chat = format_of(name)
    ids = st.lists(st.integers(0, len(chat.tokenizer) - 1), max_size=12)
    transcript, said = begun(chat), []
    for sampled, observation in data.draw(st.lists(st.tuples(ids, st.text()), max_size=5)):
        before = transcript.prompt
        transcript.add_turn(sampled, observation)
        assert transcript.prompt[: len(before) + len(sampled)] == before + sampled
        assert len(transcript) == len(transcript.prompt) > len(before)
        said.append(sampled)
    assert [transcript.prompt[start:end] for start, end in transcript.spans] == said


def test_a_turn_reads_the_same_with_and_without_its_stop_token(chat: ChatFormat) -> None:
    said = encoded(chat, CALL)
    bare, stopped = begun(chat), begun(chat)
    bare.add_turn(said, OBSERVATION)
    stopped.add_turn([*said, chat.stop_token_ids[0]], OBSERVATION)
    if chat.tokenizer.eos_token == "<|return|>":  # gpt-oss ends the last message of all with a token of its own
        assert len(bare) == len(stopped)
    else:
        assert bare.prompt == stopped.prompt


def test_a_turn_may_have_said_any_part_of_its_closing(chat: ChatFormat) -> None:
    said = encoded(chat, CALL)
    whole = begun(chat)
    whole.add_turn(said, OBSERVATION)
    closing = whole.prompt[whole.spans[0][1] :][:2]
    for part in range(1, len(closing) + 1):
        partial = begun(chat)
        partial.add_turn([*said, *closing[:part]], OBSERVATION)
        assert partial.prompt == whole.prompt, f"{part} tokens of the closing were said"


@pytest.mark.parametrize("cut", [1, 5, 9])
def test_a_turn_cut_short_is_closed(chat: ChatFormat, cut: int) -> None:
    said = encoded(chat, f"I think that {CALL}")[:-cut]
    whole, transcript = begun(chat), begun(chat)
    whole.add_turn(encoded(chat, CALL), OBSERVATION)
    transcript.add_turn(said, OBSERVATION)
    (start, end), (_, whole_end) = transcript.spans[0], whole.spans[0]
    assert transcript.prompt[start:end] == said
    assert transcript.prompt[end:] == whole.prompt[whole_end:]


def test_another_end_of_sequence_token_does_not_replace_the_closing() -> None:
    chat = format_of("phi3")
    eos, end = chat.tokenizer.convert_tokens_to_ids(["<|endoftext|>", "<|end|>"])
    assert chat.stop_token_ids == (end, eos)
    transcript = begun(chat)
    transcript.add_turn([*encoded(chat, CALL), eos], OBSERVATION)
    assert transcript.prompt[transcript.spans[0][1] - 1 :][:2] == [eos, end]


def test_sampled_tokens_may_come_as_an_array_and_are_kept_as_integers() -> None:
    transcript = begun(format_of("qwen3"))
    transcript.add_turn(np.array([5, 6, 7]), OBSERVATION)
    (start, end), *_ = transcript.spans
    assert transcript.prompt[start:end] == [5, 6, 7]
    assert {type(token) for token in transcript.prompt} == {int}


def test_half_a_token_is_no_token() -> None:
    transcript = begun(format_of("qwen3"))
    before = transcript.prompt
    with pytest.raises(TypeError):
        transcript.add_turn([5, 6.5], OBSERVATION)  # type: ignore[list-item]
    assert transcript.prompt == before


def test_the_caller_cannot_rewrite_the_past() -> None:
    transcript = begun(format_of("qwen3"))
    before = transcript.prompt
    transcript.prompt.clear()
    transcript.add_turn([5], OBSERVATION)
    transcript.spans.clear()
    assert transcript.prompt[: len(before)] == before
    assert len(transcript.spans) == 1


def test_branches_of_a_fork_do_not_hear_each_other(chat: ChatFormat) -> None:
    trunk = begun(chat)
    trunk.add_turn([5, 6], OBSERVATION)
    past, branch = trunk.prompt, trunk.fork()
    branch.add_turn([7], "one")
    trunk.add_turn([8], "two")
    assert branch.prompt[: len(past)] == trunk.prompt[: len(past)] == past
    assert branch.prompt[len(past)] == 7
    assert trunk.prompt[len(past)] == 8
    assert branch.spans[0] == trunk.spans[0]


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_action_is_found_again_in_the_teachers_sequence(name: str) -> None:
    chat = format_of(name)
    student = begun(chat)
    for turn in range(3):
        student.add_turn([*encoded(chat, f"{turn} {CALL}"), chat.stop_token_ids[0]], OBSERVATION)
    own_first = len(chat.render_first(SYSTEM_PROMPT, USER))
    teacher_first = chat.render_first(with_skills(SYSTEM_PROMPT, "Look in the fridge.\nThen shut it."), USER)
    shift = len(teacher_first) - own_first
    teacher = teacher_first + student.prompt[own_first:]
    assert shift > 0
    assert [teacher[start + shift : end + shift] for start, end in student.spans] == [
        student.prompt[start:end] for start, end in student.spans
    ]
    # The teacher would have written the very same sequence itself.
    taught = Transcript(chat, system=with_skills(SYSTEM_PROMPT, "Look in the fridge.\nThen shut it."), user=USER)
    for start, end in student.spans:
        taught.add_turn(student.prompt[start:end], OBSERVATION)
    assert taught.prompt == teacher


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_skill_is_no_change(name: str) -> None:
    chat = format_of(name)
    assert chat.render_first(with_skills(SYSTEM_PROMPT, ""), USER) == chat.render_first(SYSTEM_PROMPT, USER)


class CountingTokenizer:
    """A tokenizer that notes how much it is asked to do."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.rendered = 0
        self.characters: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def apply_chat_template(self, *arguments: Any, **named: Any) -> Any:
        self.rendered += 1
        return self._tokenizer.apply_chat_template(*arguments, **named)

    def encode(self, text: str, **named: Any) -> Any:
        self.characters.append(len(text))
        return self._tokenizer.encode(text, **named)


def test_a_turn_costs_what_it_adds_however_long_the_history(chat: ChatFormat) -> None:
    counting = CountingTokenizer(chat.tokenizer)
    transcript = Transcript(counting, system=SYSTEM_PROMPT, user=USER)
    probing, counting.characters = counting.rendered, []
    sampled = encoded(chat, CALL)
    for _ in range(100):
        transcript.add_turn(sampled, OBSERVATION)
    assert counting.rendered == probing, "the template ran again"
    assert len(counting.characters) == 100
    assert len(set(counting.characters)) == 1, "a later turn costs more than an earlier one"
    assert counting.characters[0] < len(OBSERVATION) + 200


@pytest.mark.parametrize("name", TEMPLATES)
def test_sampled_text_is_read_without_its_stop_token(name: str) -> None:
    chat = format_of(name)
    for stop in chat.stop_token_ids:
        call = parse_tool_call(chat.decode([*encoded(chat, f"I open it. {CALL}"), stop]))
        assert call.valid
        assert call.action == "open fridge 1"
        assert call.reasoning == "I open it."


def test_the_shipped_model_speaks_the_tools_own_language() -> None:
    folder = Path(agentic_rl.__file__).parent / "policy" / "local" / "builtin"
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    chat = ChatFormat.from_tokenizer(tokenizer)
    assert chat.dialect == Dialect(parts=False, system_role=True, tool_role=True, native_tools=True)
    assert tokenizer.eos_token_id in chat.stop_token_ids
    messages = chat.first_messages(SYSTEM_PROMPT, USER)
    transcript = begun(chat)
    for turn in range(3):
        transcript.add_turn([*encoded(chat, f"{turn} {CALL}"), tokenizer.eos_token_id], OBSERVATION)
        messages += chat.dialect.turn(f"{turn} {CALL}", OBSERVATION)
    whole = tokenizer.apply_chat_template(messages, tools=[TOOL_SCHEMA], add_generation_prompt=True, tokenize=False)
    assert transcript.prompt == encoded(chat, whole)


def test_tokens_beyond_the_vocabulary_can_be_decoded() -> None:
    chat = format_of("qwen3")  # models pad their embeddings: such tokens can be sampled
    assert chat.decode([*encoded(chat, "look"), len(chat.tokenizer) + 100]).startswith("look")
