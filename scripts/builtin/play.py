"""Plays games with a model and counts: wins, valid actions, turns, by task type.

    python scripts/builtin/play.py --model <folder> --games household:2 --count 200

A small sampler of its own keeps the training script free of the package's engine: waves of games in lockstep, keys
and values kept across turns.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from data import prompt_tokens
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen3ForCausalLM
from transformers.models.qwen3.modeling_qwen3 import apply_rotary_pos_emb

from agentic_rl.dialogue.prompts import (
    SYSTEM_PROMPT,
    TurnStatus,
    first_message,
    shown_actions,
    tool_message,
    with_skills,
)
from agentic_rl.dialogue.tool import parse_tool_call
from agentic_rl.games import Episode, StepResult, load_game, task_of
from agentic_rl.games.generate import household_games
from agentic_rl.skills import SkillBook, builtin_skills_dir

MAX_CALL = 24


class Lockstep:
    """Keys and values of several dialogues; each reads on from where it stands."""

    def __init__(self, model: Qwen3ForCausalLM, rows: int) -> None:
        self.model = model
        self.lengths = torch.zeros(rows, dtype=torch.long)
        config = model.config
        shape = (config.num_hidden_layers, rows, config.num_key_value_heads, 1024, config.head_dim)
        self.keys, self.values = torch.zeros(shape), torch.zeros(shape)

    def keep(self, rows: list[int]) -> None:
        """Go on with these rows only."""
        self.lengths, self.keys, self.values = self.lengths[rows], self.keys[:, rows], self.values[:, rows]

    @torch.inference_mode()
    def read(self, pieces: Sequence[Sequence[int]]) -> Tensor:
        """Read one piece a row; the logits after its last token, shape (rows, vocabulary). Empty pieces give noise."""
        counts = torch.tensor([len(piece) for piece in pieces])
        width = int(counts.max())
        tokens = torch.tensor([[*piece, *[0] * (width - len(piece))] for piece in pieces])
        positions = self.lengths[:, None] + torch.arange(width)
        end = int(positions.max()) + 1
        while end > self.keys.shape[3]:
            self.keys, self.values = (F.pad(x, (0, 0, 0, x.shape[3])) for x in (self.keys, self.values))
        visible = (torch.arange(end) <= positions[:, :, None])[:, None]
        hidden = self.model.model.embed_tokens(tokens)
        rotary = self.model.model.rotary_emb(hidden, positions)
        for i, layer in enumerate(self.model.model.layers):
            hidden = hidden + self._attend(i, layer, layer.input_layernorm(hidden), positions, rotary, visible, end)
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        self.lengths += counts
        last = hidden[torch.arange(len(pieces)), (counts - 1).clamp(min=0)]
        logits: Tensor = self.model.lm_head(self.model.model.norm(last))
        return logits

    def _attend(
        self,
        index: int,
        layer: Any,
        hidden: Tensor,
        positions: Tensor,
        rotary: tuple[Tensor, Tensor],
        visible: Tensor,
        end: int,
    ) -> Tensor:
        own = layer.self_attn
        rows, width, _ = hidden.shape
        heads = (rows, width, -1, own.head_dim)
        query = own.q_norm(own.q_proj(hidden).view(heads)).transpose(1, 2)
        key = own.k_norm(own.k_proj(hidden).view(heads)).transpose(1, 2)
        query, key = apply_rotary_pos_emb(query, key, *rotary)
        # What stands behind a row's own tokens is overwritten by its next piece before anything looks at it.
        at = (torch.arange(rows)[:, None], slice(None), positions)
        self.keys[index][at] = key.transpose(1, 2)
        self.values[index][at] = own.v_proj(hidden).view(heads)
        keys, values = self.keys[index][:, :, :end], self.values[index][:, :, :end]
        mixed = F.scaled_dot_product_attention(query, keys, values, attn_mask=visible, enable_gqa=True)
        output: Tensor = own.o_proj(mixed.transpose(1, 2).reshape(rows, width, -1))
        return output


@dataclass
class Game:
    """One game being played."""

    name: str
    task_type: str
    episode: Episode
    piece: list[int] = field(default_factory=list)
    result: StepResult | None = None
    turns: int = 0
    valid: int = 0
    malformed: int = 0
    won: bool = False


def play(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    games: list[Game],
    *,
    max_turns: int,
    temperature: float,
    seed: int,
    listed: bool = True,
    skills: SkillBook | None = None,
    show: int = 0,
) -> None:
    """Play the games to their ends, in lockstep; the counts are left in them."""
    random = torch.Generator().manual_seed(seed)
    cache = Lockstep(model, len(games))
    for game in games:
        result = game.result = game.episode.reset()
        system = with_skills(SYSTEM_PROMPT, skills.for_task(game.task_type) if skills else "")
        actions = shown_actions(result.admissible_actions) if listed else None
        game.piece = prompt_tokens(
            tokenizer, system, first_message(task_of(result.observation), result.observation, actions)
        )
    live = list(games)
    for _ in range(max_turns):
        calls = _sample_calls(cache, live, temperature, random, tokenizer.eos_token_id)
        for game, call in zip(live, calls, strict=True):
            said = tokenizer.decode(call[:-1])
            parsed = parse_tool_call(said)
            before = game.result
            assert before is not None
            fits = parsed.action in before.admissible_actions
            game.turns += 1
            game.valid += fits
            game.malformed += not parsed.valid
            result = game.result = game.episode.step(parsed.action or "")
            game.won = result.won
            status = TurnStatus.EXECUTED if fits else TurnStatus.NOT_ADMISSIBLE
            status = status if parsed.valid else TurnStatus.MALFORMED
            actions = shown_actions(result.admissible_actions) if listed else None
            answer = tool_message(game.turns, status, result.observation, actions)
            game.piece = tokenizer.encode(f"<|tool|>{answer}<|end|><|assistant|>", add_special_tokens=False)
            if game in games[:show]:
                print(f"[{game.name}] {parsed.action!r} -> {result.observation[:150]!r}")
        rows = [row for row, game in enumerate(live) if not game.won]
        if not rows:
            return
        live = [live[row] for row in rows]
        cache.keep(rows)


def _sample_calls(
    cache: Lockstep, live: list[Game], temperature: float, random: torch.Generator, stop: int
) -> list[list[int]]:
    calls: list[list[int]] = [[] for _ in live]
    logits = cache.read([game.piece for game in live])
    for _ in range(MAX_CALL):
        if temperature:
            tokens = torch.multinomial((logits / temperature).softmax(-1), 1, generator=random)[:, 0].tolist()
        else:
            tokens = logits.argmax(-1).tolist()
        pieces = []
        for call, token in zip(calls, tokens, strict=True):
            going = not call or call[-1] != stop
            if going:
                call.append(token)
            pieces.append([token] if going else [])
        logits = cache.read(pieces)
        if all(call[-1] == stop for call in calls):
            break
    return calls


def panel(games: str, split: str, count: int, data_root: Path | None, seed: int = 0) -> list[Game]:
    """`household:<difficulty>`, or `alfworld` for the files under `data_root`."""
    if games.startswith("household"):
        entries = household_games(split, count, int(games.partition(":")[2] or 1), seed)
        return [Game(entry.game_id, entry.task_type, entry.open()) for entry in entries]
    if data_root is None:
        raise SystemExit("error: --games alfworld needs --data-root")
    paths = sorted(data_root.glob(f"**/{split}/*/*/game.tw-pddl"))
    paths = [path for path in paths if "movable" not in str(path) and "Sliced" not in str(path)]
    if count and len(paths) > count:
        paths = paths[:: math.ceil(len(paths) / count)]
    return [Game(p.parent.name, p.parent.parent.name.partition("-")[0], load_game(p).episode()) for p in paths]


def summary(games: list[Game]) -> dict[str, object]:
    turns = sum(game.turns for game in games)
    all_types, won_types = Counter(game.task_type for game in games), Counter(g.task_type for g in games if g.won)
    return {
        "games": len(games),
        "success": round(sum(game.won for game in games) / len(games), 4),
        "valid_actions": round(sum(game.valid for game in games) / turns, 4),
        "malformed": round(sum(game.malformed for game in games) / turns, 4),
        "turns": round(turns / len(games), 2),
        "success_by_turn": {
            cap: round(sum(g.won and g.turns <= cap for g in games) / len(games), 3) for cap in (8, 12, 16, 20, 30, 50)
        },
        "by_type": {kind: f"{won_types[kind]}/{n}" for kind, n in sorted(all_types.items())},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--games", default="household:2")
    parser.add_argument("--split", default="valid_unseen")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--max-turns", type=int, default=20)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--wave", type=int, default=64)
    parser.add_argument("--skills", action="store_true", help="with the skill texts in the system prompt")
    parser.add_argument("--no-lists", action="store_true", help="without the available actions")
    parser.add_argument("--show", type=int, default=0, help="print the actions of so many games of each wave")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = Qwen3ForCausalLM.from_pretrained(options.model, dtype=torch.float32)
    games = panel(options.games, options.split, options.count, options.data_root)
    skills = SkillBook.load(builtin_skills_dir()) if options.skills else None
    for start in range(0, len(games), options.wave):
        play(
            model,
            tokenizer,
            games[start : start + options.wave],
            max_turns=options.max_turns,
            temperature=options.temperature,
            seed=options.seed + start,
            listed=not options.no_lists,
            skills=skills,
            show=options.show,
        )
    print(json.dumps(summary(games)))


if __name__ == "__main__":
    main()
