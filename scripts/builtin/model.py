"""The builtin model's shape, and how it is written to disk."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

ROPE_THETA = 100_000.0
"""High enough that contexts longer than the trained ones look much like them."""


def new_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """The model before it has learnt anything, in float32."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,
        tie_word_embeddings=True,
        max_position_embeddings=tokenizer.model_max_length,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        attn_implementation="sdpa",
    )
    return Qwen3ForCausalLM(config)


def save_model(model: Qwen3ForCausalLM, folder: Path) -> None:
    """Write config, generation config and weights in bf16. `model` keeps its float32 weights."""
    folder.mkdir(parents=True, exist_ok=True)
    half = Qwen3ForCausalLM(model.config).to(torch.bfloat16)
    half.load_state_dict({name: tensor.to(torch.bfloat16) for name, tensor in model.state_dict().items()})
    half.generation_config = GenerationConfig(
        eos_token_id=model.config.eos_token_id, pad_token_id=model.config.pad_token_id, do_sample=True, temperature=1.0
    )
    half.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    # Loaders from before transformers 5 look for the base of the rotary embedding here.
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["rope_theta"] = ROPE_THETA
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
