"""Tiny models with random weights, made on the spot: the real architectures at a size that a test can afford."""

from __future__ import annotations

from pathlib import Path
from typing import Any

VOCABULARY = 320
_SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 2048,
    "initializer_range": 0.2,
    "bos_token_id": None,
    "eos_token_id": 1,
    "pad_token_id": 0,
}


def config_of(family: str) -> Any:
    """A small config of a model family."""
    import transformers

    match family:
        case "qwen3":
            return transformers.Qwen3Config(**_SHAPE, tie_word_embeddings=True)
        case "llama":
            return transformers.LlamaConfig(**_SHAPE, tie_word_embeddings=False)
        case "gemma3":
            return transformers.Gemma3TextConfig(
                **_SHAPE, sliding_window=24, layer_types=["sliding_attention", "full_attention"]
            )
        case "gemma2":
            return transformers.Gemma2Config(**_SHAPE, sliding_window=24, attn_logit_softcapping=5.0)
        case "qwen3_5":
            return transformers.Qwen3_5TextConfig(
                **_SHAPE,
                layer_types=["linear_attention", "full_attention"],
                linear_num_key_heads=2,
                linear_num_value_heads=4,
                linear_key_head_dim=16,
                linear_value_head_dim=16,
            )
    raise ValueError(family)


def build(folder: Path, family: str = "qwen3", seed: int = 0) -> Path:
    """Write a model with its tokenizer (one token a byte) into a folder."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(seed)
    AutoModelForCausalLM.from_config(config_of(family)).float().save_pretrained(folder)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = ["<pad>", "<end>", *letters]
    tokenizer = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>").save_pretrained(folder)
    return folder
