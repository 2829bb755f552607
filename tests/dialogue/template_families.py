"""Real chat templates on real tokenizers: one byte-level BPE a template, with that family's own tokens.

No model hub is asked: the merges are learned here from a few sentences, the templates come from TRL's package, and
the tokens are those that the family's published tokenizer has.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from agentic_rl.dialogue import ChatFormat

CORPUS = (
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, a drawer 2, and a fridge 1.",
    "Your task is to: put a clean mug in the cabinet. You open the fridge 1. The fridge 1 is open. Nothing happens.",
    'go to cabinet 1\ntake mug 1 from fridge 1\n{"name": "alfworld_step", "arguments": {"action": "look"}}',
    "Task: Step: Observation: Available actions: Status: Action executed. Call alfworld_step exactly once. Tools:",
    "system user assistant tool model ipython developer User Assistant Tool\n\n\n</ >. <b> ' \\ & é — 中文",
)


@dataclass(frozen=True)
class Family:
    """The tokens of one family of tokenizers; `special` and `plain` (added, not special) are told apart by blanks."""

    bos: str | None
    eos: str | None
    special: str = ""
    plain: str = ""


_CALL = "<tool_call> </tool_call> <tool_response> </tool_response>"
_THINK = "<think> </think>"

# By the first word of the template's name that matches.
FAMILIES = {
    "qwen": Family(None, "<|im_end|>", "<|im_start|> <|endoftext|>", f"{_CALL} {_THINK}"),
    "nemotron": Family("<s>", "<|im_end|>", "<|im_start|>", f"{_CALL} {_THINK}"),
    "lfm2": Family(
        "<|startoftext|>",
        "<|im_end|>",
        "<|im_start|> <|tool_list_start|> <|tool_list_end|> <|tool_call_start|> <|tool_call_end|> "
        "<|tool_response_start|> <|tool_response_end|>",
        _THINK,
    ),
    "llama3": Family("<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|> <|end_header_id|> <|eom_id|>"),
    "gemma4": Family(
        "<bos>",
        "<eos>",
        "<|turn> <turn|> <|tool> <tool|> <|tool_call> <tool_call|> <|tool_response> <tool_response|> "
        '<|channel> <channel|> <|"|> <|think|>',
    ),
    "gemma": Family("<bos>", "<eos>", "<start_of_turn> <end_of_turn>"),
    "cohere": Family(
        "<BOS_TOKEN>",
        "<|END_OF_TURN_TOKEN|>",
        "<|START_OF_TURN_TOKEN|> <|SYSTEM_TOKEN|> <|USER_TOKEN|> <|CHATBOT_TOKEN|> <|START_RESPONSE|> <|END_RESPONSE|>",
    ),
    "phi3": Family(None, "<|endoftext|>", "<|system|> <|user|> <|assistant|> <|end|>"),
    "deepseek": Family(
        "<｜begin▁of▁sentence｜>",
        "<｜end▁of▁sentence｜>",
        "",
        "<｜User｜> <｜Assistant｜> <｜tool▁calls▁begin｜> <｜tool▁call▁begin｜> <｜tool▁sep｜> <｜tool▁call▁end｜> "
        f"<｜tool▁calls▁end｜> <｜tool▁outputs▁begin｜> <｜tool▁output▁begin｜> <｜tool▁output▁end｜> "
        f"<｜tool▁outputs▁end｜> {_THINK}",
    ),
    "glm4moe": Family(
        None,
        "<|endoftext|>",
        "[gMASK] <sop> <|system|> <|user|> <|assistant|> <|observation|>",
        f"{_CALL} {_THINK} <arg_key> </arg_key> <arg_value> </arg_value>",
    ),
    "gptoss": Family(
        "<|startoftext|>", "<|return|>", "<|start|> <|end|> <|message|> <|channel|> <|call|> <|constrain|>"
    ),
    "muse_glimmer": Family("<|begin_of_text|>", "<|eot|>", "<|start|> <|message|> <|eom|> <|patch|>"),
    "idefics3": Family("<|begin_of_text|>", "<|end_of_text|>", "<end_of_utterance> <image>"),
    "smolvlm": Family("<|im_start|>", "<end_of_utterance>", "<image>"),
    "llava_next": Family("<s>", "</s>", "<image>"),
}


def _folder() -> Path:
    found = importlib.util.find_spec("trl")  # found, not imported: importing it would load torch
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "chat_templates"


TEMPLATES: dict[str, str] = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted(_folder().glob("*.jinja"))
    if not path.stem.endswith("_training")
}


# Words and line breaks as Llama 3, Qwen and their like take them apart: line breaks at the end of a prompt are the
# same tokens whatever is said next. (GPT-2's rule looks ahead.)
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


@cache
def merges() -> str:
    """The byte-level BPE all families share here, as JSON."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer.to_str()


@cache
def pieces() -> str:
    """A BPE as SentencePiece makes them (Llama 2, Phi 3): a blank before every text, bytes for unknown letters."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(parts)
    letters = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=letters, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer.to_str()


def make_tokenizer(template: str | None, family: Family, model: str | None = None) -> Any:
    """A tokenizer with a family's tokens and this chat template."""
    backend = Tokenizer.from_str(model or merges())
    backend.add_tokens([AddedToken(token, normalized=False) for token in family.plain.split()])
    names = [token for token in (family.bos, family.eos, *family.special.split()) if token]
    backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in names])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token=family.bos, eos_token=family.eos)
    tokenizer.chat_template = template
    return tokenizer


def family_of(name: str) -> Family:
    """The tokens of the family that a template belongs to."""
    name = name.replace("diffusion_gemma", "gemma4")  # which it speaks
    return next(family for prefix, family in FAMILIES.items() if name.startswith(prefix))


@cache
def tokenizer_of(name: str) -> Any:
    """The tokenizer with the chat template of that name and its family's tokens."""
    return make_tokenizer(TEMPLATES[name], family_of(name))


@cache
def format_of(name: str) -> ChatFormat:
    """What the probe makes of that template."""
    return ChatFormat.from_tokenizer(tokenizer_of(name))
