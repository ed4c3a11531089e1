"""Small GGUF files made by PyPI gguf, and the names of a layer's tensors there and at Hugging Face."""

import gguf
from gguf import quants

NAMES = {
    "attn_norm": ("input_layernorm", "h"), "ffn_norm": ("post_attention_layernorm", "h"),
    "attn_q": ("self_attn.q_proj", "qh"), "attn_k": ("self_attn.k_proj", "kh"), "attn_v": ("self_attn.v_proj", "kh"),
    "attn_output": ("self_attn.o_proj", "hq"), "ffn_gate": ("mlp.gate_proj", "ih"), "ffn_up": ("mlp.up_proj", "ih"),
    "ffn_down": ("mlp.down_proj", "hi"),
}  # fmt: skip


def as_q8_0(name, value):
    return quants.quantize(value, gguf.GGMLQuantizationType.Q8_0), gguf.GGMLQuantizationType.Q8_0


def write_gguf(path, arch, sizes, weights, extra=lambda writer: None, pack=as_q8_0):
    """Vectors stay float32; a matrix becomes what `pack` makes of its name and value: bytes and their type."""
    writer = gguf.GGUFWriter(path, arch)
    extra(writer)
    writer.add_embedding_length(sizes["hidden"])
    writer.add_block_count(sizes["layers"])
    writer.add_feed_forward_length(sizes["inner"])
    writer.add_head_count(sizes["heads"])
    writer.add_head_count_kv(sizes["kv"])
    writer.add_context_length(512)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(100000.0)
    if "head_dim" in sizes:
        writer.add_key_length(sizes["head_dim"])
        writer.add_value_length(sizes["head_dim"])
    for name, value in weights.items():
        data, kind = (value, gguf.GGMLQuantizationType.F32) if value.ndim == 1 else pack(name, value)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
