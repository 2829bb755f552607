"""The builtin model's shape, and how it is written to disk."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

ROPE_THETA = 1_000_000.0
"""High, so that many coordinates turn slowly enough to compare tokens at any distance."""


def new_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """The model before it has learnt anything, in float32."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=5,
        num_attention_heads=6,
        num_key_value_heads=6,
        head_dim=32,
        tie_word_embeddings=True,
        max_position_embeddings=tokenizer.model_max_length,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        attn_implementation="sdpa",
    )
    model = Qwen3ForCausalLM(config)
    _prime_copying(model)
    _prime_recognition(model)
    return model


@torch.no_grad()
def _prime_copying(model: Qwen3ForCausalLM) -> None:
    """Start the first two layers off as an induction circuit (Olsson et al. 2022): copying, the hurdle, is given.

    The residual stream begins as: coordinate 0 constant, 1 to 63 the token, 64 to 127 free. Two heads of layer 0
    look one token back and write that token into 64 to 127; two heads of layer 1 look for places where the token
    before is the present one, and add what stands there to the prediction. Training is free to undo all of it.
    """
    config = model.config
    size, pairs = config.head_dim, config.head_dim // 2
    half = config.hidden_size // 2
    embedding = model.model.embed_tokens.weight
    embedding.normal_(0.0, 0.06)
    embedding[:, half:] *= 0.1
    embedding[:, 0] = 0.3
    speed = ROPE_THETA ** (-torch.arange(pairs) / pairs)  # how fast each pair of coordinates turns with the position
    fast = torch.tensor([1.0, 1.0, 0.7, 0.5] + [0.3] * 4 + [0.0] * (pairs - 8))
    back, match = (model.model.layers[i].self_attn for i in (0, 1))
    for attention in (back, match):
        attention.q_norm.weight.fill_(2.0)
        attention.k_norm.weight.fill_(2.0)
    for head in (0, 1):
        rows = slice(head * size, (head + 1) * size)
        token = torch.arange(head * size, (head + 1) * size)  # this head's half of the coordinates 0 to 63
        for matrix in (back.q_proj, back.k_proj, back.v_proj, match.q_proj, match.k_proj, match.v_proj):
            matrix.weight[rows] *= 0.2
        for matrix in (back.o_proj, match.o_proj):
            matrix.weight[:, rows] *= 0.2
        # Constant queries and keys: after the rotation their product depends on the distance alone, best at 1.
        back.q_proj.weight[rows, 0] += 0.3 * torch.cat([fast, torch.zeros(pairs)])
        back.k_proj.weight[rows, 0] += 0.3 * torch.cat([fast * speed.cos(), fast * speed.sin()])
        back.v_proj.weight[rows, token] += 0.5 * torch.eye(size)
        back.o_proj.weight[half + token, rows] += 0.2 * torch.eye(size)
        # The slow pairs hardly turn over a few hundred tokens, so that a match is one at any distance.
        look = torch.randn(size, half - 1) / half**0.5
        look[:pairs][: pairs // 2] = look[pairs:][: pairs // 2] = 0.0
        match.q_proj.weight[rows, 1:half] += look
        match.k_proj.weight[rows, half + 1 :] += look
        match.v_proj.weight[rows, token] += 0.5 * torch.eye(size)
        match.o_proj.weight[token, rows] += 0.5 * torch.eye(size)


@torch.no_grad()
def _prime_recognition(model: Qwen3ForCausalLM) -> None:
    """Start two more heads of layer 1 off by looking for the token itself, wherever else it stands.

    Seeing that something in a list is what the task asks for needs the same name to be found again hundreds of tokens
    away. Nothing in the gradient leads there until it is done. Queries and keys read the token in the same way; what
    to make of the places that are found is left to training.
    """
    config = model.config
    size, half = config.head_dim, config.hidden_size // 2
    attention = model.model.layers[1].self_attn
    slow = torch.arange(size).view(2, -1)[:, size // 4 :].flatten()  # the pairs that hardly turn with the position
    for head in (4, 5):
        rows = slice(head * size, (head + 1) * size)
        look = torch.zeros(size, half - 1)
        look[slow] = torch.linalg.qr(torch.randn(half - 1, len(slow)))[0].T
        for matrix in (attention.q_proj, attention.k_proj):
            matrix.weight[rows] = 0.0
            matrix.weight[rows, 1:half] = look
        attention.v_proj.weight[rows] = 0.05 * torch.randn(size, config.hidden_size)


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
