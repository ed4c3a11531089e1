"""Model folders for the benchmarks on a GPU: random weights in shapes that are named here, written by transformers.

    from h200_models import make
    folder = make("qwen3-43.8m", "/tmp/models")

Speed and parity do not depend on the weights' values; `scale` keeps logits apart enough that the likeliest token is not
decided by rounding.
"""

import os

SHAPES = {
    # 43.8 M: 16,384 x 512 tied, 12 layers of 8 heads (4 for keys and values) of 64, 1,408 inside
    "qwen3-43.8m": {
        "family": "qwen3",
        "vocab_size": 16384,
        "hidden_size": 512,
        "intermediate_size": 1408,
        "num_hidden_layers": 12,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 64,
    },
    # 197 M: 20,480 x 1,024 tied, 14 layers of 16 heads (8) of 64, 3,072 inside
    "qwen3-197m": {
        "family": "qwen3",
        "vocab_size": 20480,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 14,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 64,
    },
    # SmolLM2-135M's own shape
    "smollm2-135m": {
        "family": "llama",
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "head_dim": 64,
    },
    # Qwen3-1.7B's own shape, for generation where weights are larger than the cache
    "qwen3-1.7b": {
        "family": "qwen3",
        "vocab_size": 151936,
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
    # Qwen3.5-0.8B's text trunk: three gated DeltaNet layers to one of attention
    "qwen3.5-0.8b": {
        "family": "qwen3_5",
        "vocab_size": 248320,
        "hidden_size": 1024,
        "intermediate_size": 3584,
        "num_hidden_layers": 24,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "linear_num_value_heads": 16,
        "linear_num_key_heads": 16,
    },
    "tiny-llama": {
        "family": "llama",
        "vocab_size": 1000,
        "hidden_size": 256,
        "intermediate_size": 704,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
    },
    "tiny-qwen2": {
        "family": "qwen2",
        "vocab_size": 1003,
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
    },
    "tiny-qwen3": {
        "family": "qwen3",
        "vocab_size": 1000,
        "hidden_size": 192,
        "intermediate_size": 512,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 128,
    },
    "tiny-qwen3.5": {
        "family": "qwen3_5",
        "vocab_size": 1000,
        "hidden_size": 192,
        "intermediate_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 64,
        "linear_value_head_dim": 64,
    },
}


def config_of(name):
    import transformers

    settings = dict(SHAPES[name])
    kind = {
        "qwen3": transformers.Qwen3Config,
        "qwen2": transformers.Qwen2Config,
        "llama": transformers.LlamaConfig,
        "qwen3_5": transformers.Qwen3_5TextConfig,
    }[settings.pop("family")]
    return kind(
        max_position_embeddings=4096, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, **settings
    )


def make(name, folder, dtype="bfloat16", seed=1):
    """Path of the model's folder below `folder`; made when it is not there."""
    path = os.path.join(folder, f"{name}-{dtype}")
    if os.path.exists(os.path.join(path, "config.json")):
        return path
    import torch
    import transformers

    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config_of(name))
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.dim() == 1 and "bias" not in parameter_name:  # norms: not all ones
                parameter.add_(torch.randn_like(parameter) * 0.1)
            elif "bias" in parameter_name:
                parameter.copy_(torch.randn_like(parameter) * 0.1)
    model.to(getattr(torch, dtype)).cpu().save_pretrained(path)
    return path
