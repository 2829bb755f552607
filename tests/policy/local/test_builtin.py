"""The shipped model: small, Qwen3-shaped, at home in its world's words, and a fair player of unknown games."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_rl.dialogue.prompts import SYSTEM_PROMPT, TurnStatus, first_message, tool_message
from agentic_rl.dialogue.tool import TOOL_NAME, TOOL_SCHEMA, parse_tool_call
from agentic_rl.skills import SkillBook, builtin_skills_dir

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "scripts" / "builtin"
BUILTIN = ROOT / "src" / "agentic_rl" / "policy" / "local" / "builtin"
NAMES = (SCRIPTS / "names.txt").read_text().split()

ACTIONS = ["examine cabinet 2", "go to cabinet 13", "go to shelf 1", "inventory", "look", "open cabinet 2"]
OPENING = [
    {"role": "system", "content": SYSTEM_PROMPT},
    {"role": "user", "content": first_message("put some apple in shelf.", "You see a cabinet 2.", ACTIONS)},
]


@cache
def load_tokenizer() -> Any:
    return transformers.AutoTokenizer.from_pretrained(BUILTIN)


@pytest.fixture
def tokenizer() -> Any:
    return load_tokenizer()


def encode(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False).input_ids)


def call(action: str) -> dict[str, Any]:
    function = {"name": TOOL_NAME, "arguments": {"action": action}}
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}


def run(script: str, *arguments: object) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPTS / script), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


# What is shipped ---------------------------------------------------------------------------------------------------


def test_the_weights_are_at_most_eight_megabytes_of_bf16() -> None:
    from safetensors import safe_open

    assert sum(file.stat().st_size for file in BUILTIN.iterdir() if file.is_file()) <= 8_000_000
    with safe_open(BUILTIN / "model.safetensors", "pt") as weights:
        assert {weights.get_tensor(name).dtype for name in weights.keys()} == {torch.bfloat16}  # noqa: SIM118


def test_transformers_loads_it_as_qwen3_with_one_embedding_a_token(tokenizer: Any) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(BUILTIN)
    assert type(model).__name__ == "Qwen3ForCausalLM"
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert model.config.vocab_size == len(tokenizer)
    assert model.config.max_position_embeddings >= 8192
    assert model.config.eos_token_id == tokenizer.eos_token_id


# The tokenizer -----------------------------------------------------------------------------------------------------


PIECES = [*NAMES, *ACTIONS, "\n", " ", "<tool_call>", "<|end|>", ", a", ", and a", "12", "É", "</parameter>"]


@given(st.text() | st.lists(st.sampled_from(PIECES)).map("".join))
def test_any_text_comes_back_exactly(text: str) -> None:
    assert load_tokenizer().decode(encode(load_tokenizer(), text)) == text


@pytest.mark.parametrize("blank", ["", " "])
def test_every_name_is_one_token(tokenizer: Any, blank: str) -> None:
    assert [name for name in NAMES if len(encode(tokenizer, blank + name)) != 1] == []


def test_every_number_of_the_games_is_one_token(tokenizer: Any) -> None:
    assert [number for number in range(100) if len(encode(tokenizer, f" {number}")) != 1] == []


def test_the_names_of_the_real_training_games_are_all_known(full_root: Path) -> None:
    from agentic_rl.games import load_game

    seen = set()
    for path in sorted(full_root.glob("**/train/*/*/game.tw-pddl"))[::40]:
        actions = load_game(path).episode().reset().admissible_actions
        seen |= {action.removeprefix("go to ").split()[0] for action in actions if action.startswith("go to ")}
    assert seen <= set(NAMES)


def test_a_call_repeats_the_very_tokens_of_the_listed_action(tokenizer: Any) -> None:
    listed = encode(tokenizer, "\nAvailable actions:\ngo to cabinet 13\ngo to shelf 1\nlook")
    said = encode(tokenizer, "<parameter=action>\ngo to cabinet 13\n</parameter>")
    action = encode(tokenizer, "\ngo to cabinet 13")
    assert len(action) == 3
    assert listed[1:4] == action
    assert any(said[i : i + 3] == action for i in range(len(said)))


def test_skill_texts_cost_few_tokens(tokenizer: Any) -> None:
    book = SkillBook.load(builtin_skills_dir())
    for text in book.texts.values():
        assert len(encode(tokenizer, text)) < len(text) / 2.5


# The chat template -------------------------------------------------------------------------------------------------


def test_the_template_shows_the_tools_and_opens_the_answer(tokenizer: Any) -> None:
    text = tokenizer.apply_chat_template(OPENING, tools=[TOOL_SCHEMA], add_generation_prompt=True, tokenize=False)
    assert json.dumps(TOOL_SCHEMA) in text
    assert text.startswith("<|system|>" + SYSTEM_PROMPT)
    assert text.endswith("<|end|><|assistant|>")


def test_a_rendered_call_is_read_back_as_that_call(tokenizer: Any) -> None:
    messages = [*OPENING, call("go to shelf 1")]
    before = tokenizer.apply_chat_template(OPENING, tools=[TOOL_SCHEMA], add_generation_prompt=True, tokenize=False)
    text = tokenizer.apply_chat_template(messages, tools=[TOOL_SCHEMA], tokenize=False)
    said = text.removeprefix(before).removesuffix("<|end|>")
    parsed = parse_tool_call(said)
    assert (parsed.valid, parsed.action) == (True, "go to shelf 1")


def test_every_prompt_extends_the_last_one(tokenizer: Any) -> None:
    messages: list[dict[str, Any]] = list(OPENING)
    prompts = []
    for step, action in enumerate(ACTIONS, start=1):
        prompts.append(
            tokenizer.apply_chat_template(messages, tools=[TOOL_SCHEMA], add_generation_prompt=True, return_dict=False)
        )
        answer = tool_message(step, TurnStatus.EXECUTED, "Yes.", ACTIONS)
        messages += [call(action), {"role": "tool", "content": answer}]
    for earlier, later in pairwise(prompts):
        assert later[: len(earlier)] == earlier


# The expert it imitates --------------------------------------------------------------------------------------------


def test_the_expert_wins_from_what_it_was_shown_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from agentic_rl.games import task_of
    from agentic_rl.games.generate import household_games

    monkeypatch.syspath_prepend(str(SCRIPTS))
    explorer_type = importlib.import_module("explorer").Explorer
    for difficulty in (1, 2, 3):
        for entry in household_games("valid_unseen", 30, difficulty, seed=3):
            episode = entry.open()
            result = episode.reset()
            explorer = explorer_type(entry.task_type, task_of(result.observation), result.admissible_actions)
            for _ in range(50):
                action = explorer.act(result.admissible_actions)
                assert action in result.admissible_actions
                result = episode.step(action)
                explorer.observe(action, result.observation)
                if result.won:
                    break
            assert result.won, entry.location


# What it is trained on ---------------------------------------------------------------------------------------------


def test_the_marks_of_a_dialogue_tell_what_is_sought_and_what_the_expert_would_do(
    monkeypatch: pytest.MonkeyPatch, tokenizer: Any
) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    data = importlib.import_module("data")
    mixture = data.Mixture({"1": 1.0}, 4000, clumsy=0.5, clumsiness=0.4, stumbles=0.2)
    dialogues = data.Dialogues(tokenizer, None, 0)
    head = encode(tokenizer, importlib.import_module("vocabulary").CALL_HEAD)[0]
    taken_in_list = agreed = calls = 0
    for i in range(20):
        example = dialogues.example(mixture, f"marks/{i}")
        words = [tokenizer.decode([token]) for token in example.tokens]
        task = "".join(words).partition("Task:")[2].partition("\n")[0].replace(".", " ").split()
        for at in (example.sought >= 0).nonzero()[0]:
            assert words[at - 1] == "\ntake"
            assert example.roles[at] == data.WORLD
            assert bool(example.sought[at]) == (words[at].strip() in task), (words[at], task)
            taken_in_list += int(example.sought[at])
        aimed = (example.aims >= 0).nonzero()[0]
        assert [int(token) for token in example.tokens[aimed]] == [head] * len(aimed)
        assert len(aimed) == list(example.tokens).count(head)
        calls += len(aimed)
        agreed += int((example.tokens[aimed + 1] == example.aims[aimed]).sum())
    assert taken_in_list > 20
    assert 0.6 * calls < agreed < calls, "the clumsy do not always what the expert would"


@pytest.mark.parametrize("distance", [60, 600, 2000])
def test_the_new_model_already_finds_a_token_again_at_any_distance(
    monkeypatch: pytest.MonkeyPatch, tokenizer: Any, distance: int
) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    model = importlib.import_module("model").new_model(tokenizer, 0)
    model.set_attn_implementation("eager")
    names = [encode(tokenizer, f" {name}")[0] for name in NAMES]
    others = names[8:]
    times_as_heavy = []
    for name in names[:8]:
        text = [name, *(others[i % len(others)] for i in range(distance)), name]
        with torch.no_grad():
            attentions = model.model(torch.tensor([text]), output_attentions=True).attentions
        weights = attentions[1][0, 4:, -1]
        times_as_heavy.append(float((weights[:, 0] / weights[:, 1:-1].mean(-1)).max()))
    assert sorted(times_as_heavy)[4] > 10


# How it plays ------------------------------------------------------------------------------------------------------


def test_it_plays_households_it_has_never_seen_with_valid_actions() -> None:
    out = run("play.py", "--model", BUILTIN, "--games", "household:1", "--count", 40, "--max-turns", 12, "--wave", 40)
    result = json.loads(out.splitlines()[-1])
    assert result["games"] == 40
    assert result["valid_actions"] >= 0.9
    assert result["malformed"] <= 0.02
    assert 0.15 <= result["success"] <= 0.6


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_training_twice_with_one_seed_gives_the_same_bits_also_when_interrupted(tmp_path: Path) -> None:
    short = ("--scale", "0.002", "--batch-tokens", "1024", "--log-every", "1", "--save-every", "2")
    for name in ("once", "again"):
        run("train.py", "--run", tmp_path / name, "--out", tmp_path / name / "model", *short)
    run("train.py", "--run", tmp_path / "stopped", *short, "--stop-after", "3")
    run("train.py", "--run", tmp_path / "stopped", "--out", tmp_path / "stopped" / "model", *short)
    run("train.py", "--run", tmp_path / "other", "--out", tmp_path / "other" / "model", *short, "--seed", "1")
    once, again, stopped, other = (
        (tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("once", "again", "stopped", "other")
    )
    assert once == again
    assert once == stopped
    assert once != other
