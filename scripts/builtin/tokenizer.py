"""Builds the builtin model's tokenizer: `tokenizer.json`, `tokenizer_config.json`, `chat_template.jinja`.

A regular expression cuts text into phrases, words and numbers; whatever is in the vocabulary is one token, all else
falls into byte pairs and bytes, so that every text can be written and comes back exactly.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import vocabulary
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

CONTEXT = 16384
MERGES = 200

TEMPLATE = """\
{%- set ns = namespace(system='', rest=messages) -%}
{%- if messages and messages[0].role == 'system' -%}
{%- set ns.system = messages[0].content -%}
{%- set ns.rest = messages[1:] -%}
{%- endif -%}
{%- if ns.system or tools -%}
{{- '<|system|>' + ns.system -}}
{%- if tools -%}
{{- '\\n\\nTools:\\n' -}}
{%- for tool in tools -%}{{- tool | tojson -}}{%- if not loop.last -%}{{- '\\n' -}}{%- endif -%}{%- endfor -%}
{%- endif -%}
{{- '<|end|>' -}}
{%- endif -%}
{%- for message in ns.rest -%}
{%- if message.role not in ['system', 'user', 'assistant', 'tool'] -%}
{{- raise_exception('unknown role: ' + message.role) -}}
{%- endif -%}
{{- '<|' + message.role + '|>' + (message.content or '') -}}
{%- if message.role == 'assistant' and message.tool_calls -%}
{%- for tool_call in message.tool_calls -%}
{%- set call = tool_call.function if tool_call.function is defined else tool_call -%}
{{- '<tool_call>\\n<function=' + call.name + '>' -}}
{%- if call.arguments is mapping -%}
{%- for name, value in call.arguments.items() -%}
{{- '\\n<parameter=' + name + '>\\n' + (value if value is string else value | tojson) + '\\n</parameter>' -}}
{%- endfor -%}
{%- else -%}
{{- '\\n' + call.arguments -}}
{%- endif -%}
{{- '\\n</function>\\n</tool_call>' -}}
{%- endfor -%}
{%- endif -%}
{{- '<|end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}
"""


def build() -> PreTrainedTokenizerFast:
    """The tokenizer, the same on every call."""
    phrases = vocabulary.phrases()
    pieces = [
        *phrases,
        *(f"{blank}{name}" for blank in (" ", "") for name in vocabulary.NAMES),
        *(word for verb in vocabulary.VERBS for word in verb.split()),
        *(f" {number}" for number in vocabulary.NUMBERS),
        *(f" {word}" for word in vocabulary.words()),
    ]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    vocab = {symbol: i for i, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = _merges([f" {word}" for word in (*vocabulary.words(), *vocabulary.NAMES)])
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    for piece in pieces:
        [(spelled, _)] = byte_level.pre_tokenize_str(piece)
        vocab.setdefault(spelled, len(vocab))

    # ignore_merges: a piece that is in the vocabulary is taken whole, without merging its way there.
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=True))
    cut = pre_tokenizers.Split(Regex(_pattern(phrases)), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(role, normalized=False, special=True) for role in vocabulary.ROLES])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|end|>",
        pad_token="<|pad|>",
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = TEMPLATE
    return fast


def save(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write the three files; the class is named as every version of transformers knows it."""
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config.pop("backend", None)
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _pattern(phrases: list[str]) -> str:
    """Phrases first, the longest first; one that ends in a letter must not be cut out of a longer word."""
    longest_first = sorted(phrases, key=lambda phrase: (-len(phrase), phrase))
    fixed = [re.escape(phrase) + (r"(?!\p{L})" if phrase[-1].isalpha() else "") for phrase in longest_first]
    return "|".join([*fixed, r" ?\p{L}+", r" ?\p{N}+", r" ?[^\s\p{L}\p{N}]", r"\s"])


def _merges(corpus: list[str]) -> list[tuple[str, str]]:
    """Frequent pairs in the project's own word lists, for words that are not in them."""
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=len(alphabet) + MERGES, initial_alphabet=alphabet, show_progress=False, max_token_length=4
    )
    learner.train_from_iterator(corpus, trainer)
    return [tuple(merge) for merge in json.loads(learner.to_str())["model"]["merges"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = build()
    save(tokenizer, folder)
    print(f"{len(tokenizer)} tokens in {folder}")


if __name__ == "__main__":
    main()
