"""Every real chat template either carries the dialogue token by token, or is refused before anything is sampled."""

from __future__ import annotations

from typing import Any

import pytest
from template_families import TEMPLATES, Family, family_of, format_of, make_tokenizer, pieces

from agentic_rl.dialogue import TOOL_NAME, TOOL_SCHEMA, ChatFormat, Transcript, parse_tool_call
from agentic_rl.errors import TemplateError

SYSTEM, TASK = "You act in a household.", "Your task is to: put a mug in the fridge 1.\ngo to fridge 1\nCall it once."
ANSWERS = ("I look around first.", 'I open it.\n\n<tool_call>{"name": "x"}</tool_call>', "Something  else, é — 中文.")
OBSERVATIONS = ("Step: 1\nYou see a mug 1.", 'You open the fridge 1.\nIt says "cold" & <b>.', "  Nothing happens.\n\n")

# What each template got: how the system text and the observations are said, and who explains the tool call.
NATIVE, TOLD = "native", "told"
TOOL, USER = "tool", "user"
WORKS: dict[str, tuple[str, str, str]] = {
    "cohere": ("system", USER, TOLD),
    "cohere2": ("system", USER, TOLD),
    "deepseek_r1_distill": ("system", USER, TOLD),
    "deepseekv3": ("system", USER, TOLD),
    "diffusion_gemma": ("system", USER, TOLD),
    "gemma": ("in user", USER, TOLD),
    "gemma3": ("system", USER, TOLD),
    "gemma4": ("system", USER, TOLD),
    "gemma4_v2": ("system", TOOL, TOLD),
    "gemma4_v3": ("system", USER, TOLD),
    "gemma4_v4": ("system", USER, TOLD),
    "gemma4_v5": ("system", USER, TOLD),
    "glm4moe": ("system", TOOL, TOLD),
    "gptoss": ("system", USER, TOLD),
    "idefics3": ("system", TOOL, TOLD),
    "lfm2": ("system", TOOL, TOLD),
    "lfm2_2_5": ("system", TOOL, TOLD),
    "lfm2_2_5_v2": ("system", TOOL, TOLD),
    "lfm2_2_5_vl": ("system", TOOL, TOLD),
    "lfm2_v2": ("system", TOOL, TOLD),
    "llama3": ("system", TOOL, TOLD),
    "llama3_1": ("system", TOOL, TOLD),
    "llama3_2": ("system", TOOL, TOLD),
    "llava_next": ("system", USER, TOLD),
    "muse_glimmer": ("system", TOOL, TOLD),
    "nemotron_3_5_lightning": ("system", TOOL, NATIVE),
    "nemotron_3_nano": ("system", TOOL, NATIVE),
    "nemotron_3_super": ("system", TOOL, NATIVE),
    "nemotron_3_ultra": ("system", TOOL, NATIVE),
    "phi3": ("system", USER, TOLD),
    "phi3_5": ("system", USER, TOLD),
    "qwen2_5": ("system", TOOL, NATIVE),
    "qwen2_5_vl": ("system", TOOL, TOLD),
    "qwen3": ("system", TOOL, NATIVE),
    "qwen3_5_nothink": ("system", TOOL, NATIVE),
    "qwen3_5_think": ("system", TOOL, NATIVE),
    "qwen3_6": ("system", TOOL, NATIVE),
    "qwen3_8": ("system", TOOL, NATIVE),
    "qwen3_instruct_2507": ("system", TOOL, NATIVE),
    "qwen3_vl": ("system", TOOL, NATIVE),
    "smolvlm": ("system", TOOL, TOLD),
}
REFUSED: dict[str, str] = {}

# These render a past assistant message otherwise than they open one: their history is not what the model said.
REWRITES = {
    "deepseek_r1_distill": "opens with a thinking block that history lacks",
    "deepseekv3": "opens with a thinking block that history lacks",
    "qwen3": "drops the empty thinking block from history",
}
EXACT = sorted(WORKS.keys() - REWRITES)
NATIVE_EXACT = [name for name in EXACT if WORKS[name][2] == NATIVE]


def rendered(chat: ChatFormat, messages: list[dict[str, Any]], *, generate: bool = True) -> str:
    """The template's own full rendering, with nothing of ours in between."""
    text = chat.tokenizer.apply_chat_template(
        messages,
        tools=[TOOL_SCHEMA] if chat.dialect.native_tools else None,
        add_generation_prompt=generate,
        enable_thinking=False,
        tokenize=False,
    )
    assert isinstance(text, str)
    return text


def encoded(chat: ChatFormat, text: str) -> list[int]:
    ids: list[int] = chat.tokenizer.encode(text, add_special_tokens=False)
    return ids


def ending_of(chat: ChatFormat) -> str:
    """The token that ends an assistant message in history."""
    text = rendered(chat, [*chat.first_messages("", "u"), *chat.dialect.turn("qqq", "o")])
    first, *_ = encoded(chat, text.partition("qqq")[2])
    name: str = chat.tokenizer.convert_ids_to_tokens(first)
    return name


def said_by_template(chat: ChatFormat, turns: list[list[dict[str, Any]]]) -> tuple[list[str], str]:
    """What an assistant must have said, turn by turn, for the template to render these turns; and that rendering."""
    messages, ending = chat.first_messages(SYSTEM, TASK), ending_of(chat)
    prompt, samples = rendered(chat, messages), []
    for turn in turns:
        messages = [*messages, *turn]
        full = rendered(chat, messages)
        assert full.startswith(prompt), "the template rewrites history"
        samples.append(full[len(prompt) :].partition(ending)[0])
        prompt = full
    return samples, prompt


def test_the_tables_name_every_template() -> None:
    assert len(TEMPLATES) == 41
    assert sorted(TEMPLATES) == sorted([*WORKS, *REFUSED])
    assert len(WORKS) >= 38


@pytest.mark.parametrize("name", WORKS)
def test_a_template_gets_its_dialect(name: str) -> None:
    dialect = format_of(name).dialect
    system = "system" if dialect.system_role else "in user"
    call = NATIVE if dialect.native_tools else TOLD
    assert (system, TOOL if dialect.tool_role else USER, call) == WORKS[name]


@pytest.mark.parametrize("name", WORKS)
def test_the_first_prompt_says_everything_once(name: str) -> None:
    chat = format_of(name)
    tokens = chat.render_first(SYSTEM, TASK)
    text = chat.tokenizer.decode(tokens)
    assert tokens == encoded(chat, rendered(chat, chat.first_messages(SYSTEM, TASK)))
    assert text.count(SYSTEM) == text.count(TASK) == 1
    assert text.index(SYSTEM) < text.index(TASK)
    assert TOOL_NAME in text
    assert "<tool_call>" in text, "nobody tells the model how to spell a call"


@pytest.mark.parametrize("stop", [True, False], ids=["with stop token", "without stop token"])
@pytest.mark.parametrize("name", EXACT)
def test_the_prompt_equals_the_templates_own_rendering(name: str, stop: bool) -> None:
    chat = format_of(name)
    turns = [chat.dialect.turn(*turn) for turn in zip(ANSWERS, OBSERVATIONS, strict=True)]
    samples, full = said_by_template(chat, turns)
    transcript = Transcript(chat, system=SYSTEM, user=TASK)
    for sample, observation in zip(samples, OBSERVATIONS, strict=True):
        transcript.add_turn(encoded(chat, sample + ending_of(chat) * stop), observation)
    assert chat.tokenizer.decode(transcript.prompt) == full
    assert transcript.prompt == encoded(chat, full)


@pytest.mark.parametrize("name", ["gemma", "gemma3", "llava_next", "phi3", "phi3_5"])
def test_pieces_that_mark_the_start_of_a_text_are_equal_too(name: str) -> None:
    chat = ChatFormat.from_tokenizer(make_tokenizer(TEMPLATES[name], family_of(name), pieces()))
    turns = [chat.dialect.turn(*turn) for turn in zip(ANSWERS, OBSERVATIONS, strict=True)]
    samples, full = said_by_template(chat, turns)
    whole = chat.tokenizer(full, add_special_tokens=False, return_offsets_mapping=True)
    starts = [start for start, _ in whole["offset_mapping"]]
    transcript, messages = Transcript(chat, system=SYSTEM, user=TASK), chat.first_messages(SYSTEM, TASK)
    for sample, turn, observation in zip(samples, turns, OBSERVATIONS, strict=True):
        begin = len(rendered(chat, messages))  # cut the sample out of the whole: alone it would be marked as a start
        first, last = starts.index(begin), starts.index(begin + len(sample))
        transcript.add_turn(whole["input_ids"][first:last], observation)
        messages = [*messages, *turn]
    assert transcript.prompt == whole["input_ids"]


@pytest.mark.parametrize("reasoning", ["", "I open it."])
@pytest.mark.parametrize("stop", [True, False], ids=["with stop token", "without stop token"])
@pytest.mark.parametrize("name", NATIVE_EXACT)
def test_a_structured_call_in_the_templates_spelling_is_read_and_rendered_equal(
    name: str, stop: bool, reasoning: str
) -> None:
    chat = format_of(name)
    actions = ["go to fridge 1", "open fridge 1", 'say "é"']
    turns = []
    for action, observation in zip(actions, OBSERVATIONS, strict=True):
        call = {"type": "function", "function": {"name": TOOL_NAME, "arguments": {"action": action}}}
        answer = {"role": "assistant", "content": reasoning, "tool_calls": [call]}
        turns.append([answer, {"role": "tool", "content": observation}])
    samples, full = said_by_template(chat, turns)
    transcript = Transcript(chat, system=SYSTEM, user=TASK)
    for sample, action, observation in zip(samples, actions, OBSERVATIONS, strict=True):
        tokens = encoded(chat, sample + ending_of(chat) * stop)
        assert parse_tool_call(chat.decode(tokens)).action == action
        transcript.add_turn(tokens, observation)
    assert chat.tokenizer.decode(transcript.prompt) == full
    assert transcript.prompt == encoded(chat, full)


@pytest.mark.parametrize("name", REWRITES)
def test_what_a_template_rewrites_in_history_stays_as_it_was(name: str) -> None:
    chat = format_of(name)
    transcript = Transcript(chat, system=SYSTEM, user=TASK)
    history: list[dict[str, Any]] = chat.first_messages(SYSTEM, TASK)
    for answer, observation in zip(ANSWERS, OBSERVATIONS, strict=True):
        before, sampled = transcript.prompt, encoded(chat, answer)
        transcript.add_turn(sampled, observation)
        history += chat.dialect.turn(answer, observation)
        rest = chat.tokenizer.decode(transcript.prompt[len(before) + len(sampled) :])
        assert transcript.prompt[: len(before) + len(sampled)] == [*before, *sampled]
        assert rendered(chat, history).endswith(answer + rest)
    assert not rendered(chat, history).startswith(chat.tokenizer.decode(chat.render_first(SYSTEM, TASK)))


@pytest.mark.parametrize("name", WORKS)
def test_the_turn_ends_with_a_token_the_template_ends_it_with(name: str) -> None:
    chat = format_of(name)
    stops = chat.tokenizer.convert_ids_to_tokens(chat.stop_token_ids)
    assert chat.tokenizer.eos_token in stops
    assert len(stops) == len(set(stops))
    assert not {"<tool_call>", "</tool_call>", "</think>"} & set(stops)
    expected = {"gptoss": "<|return|>"}.get(name, ending_of(chat))  # gpt-oss ends its own thoughts with <|end|>
    assert stops[0] == expected


def test_gpt_oss_goes_on_after_its_thoughts_and_its_return_is_not_doubled() -> None:
    chat = format_of("gptoss")
    assert chat.tokenizer.convert_ids_to_tokens(chat.stop_token_ids) == ["<|return|>", "<|call|>"]
    transcript = Transcript(chat, system=SYSTEM, user=TASK)
    said = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Done.<|return|>"
    transcript.add_turn(encoded(chat, said), "Nothing happens.")
    text = chat.tokenizer.decode(transcript.prompt)
    assert text.endswith("Done.<|return|><|start|>user<|message|>Nothing happens.<|end|><|start|>assistant")


def test_glm_stops_where_the_next_speaker_begins() -> None:
    chat = format_of("glm4moe")
    stops = chat.tokenizer.convert_ids_to_tokens(chat.stop_token_ids)
    assert stops == ["<|observation|>", "<|user|>", "<|endoftext|>"]


def test_a_call_made_of_special_tokens_is_read() -> None:
    family = Family("<s>", "<|im_end|>", "<|im_start|> <tool_call> </tool_call> <tool_response> </tool_response>")
    chat = ChatFormat.from_tokenizer(make_tokenizer(TEMPLATES["qwen3_instruct_2507"], family))
    said = '<tool_call>\n{"name": "alfworld_step", "arguments": {"action": "look"}}\n</tool_call><|im_end|>'
    tokens = encoded(chat, said)
    assert chat.tokenizer.decode(tokens, skip_special_tokens=True) != said.removesuffix("<|im_end|>")
    assert parse_tool_call(chat.decode(tokens)).action == "look"


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content BEND }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PLAIN = CHATML.replace(" BEND", "")
QWEN = Family(None, "<|im_end|>", "<|im_start|> <|endoftext|>")


def test_a_plain_template_needs_nothing_more() -> None:
    assert ChatFormat.from_tokenizer(make_tokenizer(PLAIN, QWEN)).dialect.tool_role


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (None, "has no chat template"),
        ("{{ raise_exception('No chat here') }}", "No chat here"),
        ("{{ messages[0].content }", "TemplateSyntaxError"),
        ("Hello!", "dropped or repeated"),
        (CHATML.replace("BEND", "| upper"), "dropped or repeated"),
        (CHATML.replace("BEND", "| replace('q', 'qq')"), "dropped or repeated"),
        (CHATML.replace("BEND", "| replace('\"', '')"), "altered in an unknown way"),
        (PLAIN.replace("{{ m.role }}", "{{ m.role }} {{ loop.index }}"), "not the same at every turn"),
        (PLAIN.replace("messages %}", "messages if m.role != 'assistant' %}"), "assistant message is dropped"),
        (PLAIN.replace("messages %}", "messages[:2] %}"), "dropped or repeated"),
        (PLAIN.replace("if add_generation_prompt", "if false"), "add_generation_prompt is ignored"),
    ],
)
def test_a_template_that_cannot_carry_the_dialogue_is_refused(template: str | None, reason: str) -> None:
    with pytest.raises(TemplateError, match=reason) as refusal:
        ChatFormat.from_tokenizer(make_tokenizer(template, QWEN))
    assert "\n" not in str(refusal.value)
    assert refusal.value.hint


def test_a_text_the_template_refuses_is_told_in_one_line() -> None:
    template = "{% if 'forbidden' in messages[-1].content %}{{ raise_exception('Not\nthat word') }}{% endif %}" + PLAIN
    chat = ChatFormat.from_tokenizer(make_tokenizer(template, QWEN))
    with pytest.raises(TemplateError, match="Not that word"):
        Transcript(chat, system=SYSTEM, user="forbidden")


def test_a_dialogue_whose_turns_nothing_ends_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
    assert ChatFormat.from_tokenizer(make_tokenizer(template, Family(None, "</s>"))).stop_token_ids
    assert not caplog.records
    assert ChatFormat.from_tokenizer(make_tokenizer(template, Family(None, None))).stop_token_ids == ()
    assert "every turn runs to its limit" in caplog.text
