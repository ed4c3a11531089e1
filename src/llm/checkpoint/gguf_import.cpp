#include "llm/checkpoint/gguf_import.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/terminal.h"

namespace musacoder::llm {
namespace {

using Json = nlohmann::ordered_json;

struct Sizes {
  std::int64_t hidden = 0, layers = 0, inner = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0;
};

struct Name {
  std::string name;
  Shape shape;
  std::int64_t permute_heads = 0;   // > 0: rows are interleaved within each of so many heads
};

struct Part {
  const char *gguf, *hf;
};
constexpr Part kLayerParts[] = {
    {"attn_norm.weight", "input_layernorm.weight"}, {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},   {"attn_q.bias", "self_attn.q_proj.bias"},
    {"attn_k.weight", "self_attn.k_proj.weight"},   {"attn_k.bias", "self_attn.k_proj.bias"},
    {"attn_v.weight", "self_attn.v_proj.weight"},   {"attn_v.bias", "self_attn.v_proj.bias"},
    {"attn_output.weight", "self_attn.o_proj.weight"}, {"attn_output.bias", "self_attn.o_proj.bias"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"}, {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
};

std::optional<Shape> layer_shape(std::string_view part, const Sizes& s) {
  const std::int64_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
  const auto is = [&](const char* name) { return part == name; };
  if (is("attn_norm.weight") || is("ffn_norm.weight") || is("attn_output.bias")) return Shape{s.hidden};
  if (is("attn_q.weight")) return Shape{q, s.hidden};
  if (is("attn_q.bias")) return Shape{q};
  if (is("attn_k.weight") || is("attn_v.weight")) return Shape{kv, s.hidden};
  if (is("attn_k.bias") || is("attn_v.bias")) return Shape{kv};
  if (is("attn_output.weight")) return Shape{s.hidden, q};
  if (is("attn_q_norm.weight") || is("attn_k_norm.weight")) return Shape{s.head_dim};
  if (is("ffn_gate.weight") || is("ffn_up.weight")) return Shape{s.inner, s.hidden};
  if (is("ffn_down.weight")) return Shape{s.hidden, s.inner};
  return std::nullopt;
}

// Hugging Face's name and shape of a tensor; nullopt for one that is not known.
std::optional<Name> name_of(const std::string& name, const Sizes& s, bool permuted) {
  if (name == "token_embd.weight") return Name{"model.embed_tokens.weight", {s.vocab, s.hidden}};
  if (name == "output_norm.weight") return Name{"model.norm.weight", {s.hidden}};
  if (name == "output.weight") return Name{"lm_head.weight", {s.vocab, s.hidden}};
  for (const Part& part : kLayerParts) {
    const std::string tail = std::string(".") + part.gguf;
    if (name.size() <= 4 + tail.size() || name.compare(0, 4, "blk.") != 0 || name.compare(name.size() - tail.size(), tail.size(), tail) != 0) continue;
    const std::string number = name.substr(4, name.size() - 4 - tail.size());
    if (number.size() > 6 || number.find_first_not_of("0123456789") != std::string::npos || (number.size() > 1 && number[0] == '0')) return std::nullopt;
    if (std::stol(number) >= s.layers) return std::nullopt;
    const bool query = std::strncmp(part.gguf, "attn_q.", 7) == 0, key = std::strncmp(part.gguf, "attn_k.", 7) == 0;
    return Name{fmt::format("model.layers.{}.{}", number, part.hf), *layer_shape(part.gguf, s), permuted && query ? s.heads : permuted && key ? s.kv_heads : 0};
  }
  return std::nullopt;
}

// Row r of the Hugging Face tensor is row source_row(r) of the file: within a head of d rows the file has the halves
// interleaved, 0, d/2, 1, d/2 + 1, …
std::int64_t source_row(std::int64_t row, std::int64_t head_dim) {
  const std::int64_t head = row / head_dim, in_head = row % head_dim, half = head_dim / 2;
  return head * head_dim + in_head % half * 2 + in_head / half;
}

Result<std::string> converted(const GgufTensor& tensor, DType type, std::int64_t permute_heads) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  if (values.empty()) return std::string();
  MC_RETURN_IF_ERROR(dequantize(tensor, 0, tensor.elements(), values.data()));
  const std::int64_t rows = tensor.shape.empty() ? 1 : tensor.shape.front(), width = tensor.elements() / rows;
  const std::size_t size = type == DType::kF32 ? 4 : 2;
  std::string bytes(values.size() * size, '\0');
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* from = values.data() + (permute_heads ? source_row(r, rows / permute_heads) : r) * width;
    char* to = bytes.data() + static_cast<std::size_t>(r * width) * size;
    if (type == DType::kF32) {
      std::memcpy(to, from, static_cast<std::size_t>(width) * 4);
      continue;
    }
    for (std::int64_t i = 0; i < width; ++i) {
      const std::uint16_t brain = f32_to_bf16(from[i]);
      std::memcpy(to + i * 2, &brain, 2);
    }
  }
  return bytes;
}

// The rows' bytes as they are in the file.
std::string reordered(const GgufTensor& tensor, std::int64_t permute_heads) {
  const std::int64_t rows = tensor.shape.front();
  const std::size_t row_bytes = tensor.bytes.size() / static_cast<std::size_t>(rows);
  std::string bytes;
  bytes.reserve(tensor.bytes.size());
  for (std::int64_t r = 0; r < rows; ++r)
    bytes += tensor.bytes.substr(static_cast<std::size_t>(source_row(r, rows / permute_heads)) * row_bytes, row_bytes);
  return bytes;
}

class Importer {
 public:
  Importer(std::shared_ptr<const Gguf> file, DType type, std::vector<GgmlType> keep_blocks)
      : file_(std::move(file)), type_(type), keep_blocks_(std::move(keep_blocks)) {}

  Result<GgufImport> run() {
    const auto architecture = file_->text("general.architecture");
    if (!architecture) return bad("general.architecture is missing");
    arch_ = *architecture;
    if (arch_ != "llama" && arch_ != "qwen2" && arch_ != "qwen3")
      return fail(Code::kUnsupported, "{}: architecture '{}' is not supported; llama, qwen2 and qwen3 are", file_->where(), base::printable(arch_.substr(0, 100), false));
    if (integer("expert_count").value_or(0) > 0) return fail(Code::kUnsupported, "{}: a mixture of experts is not supported", file_->where());
    MC_RETURN_IF_ERROR(read_sizes());
    MC_RETURN_IF_ERROR(read_tensors());
    write_config();
    return std::move(out_);
  }

 private:
  tl::unexpected<Error> bad(const std::string& what) const { return fail(Code::kInvalidArgument, "{}: {}", file_->where(), what); }
  std::optional<std::int64_t> integer(const char* key) const { return file_->integer(arch_ + "." + key); }
  std::optional<double> number(const char* key) const { return file_->number(arch_ + "." + key); }

  Status read_sizes() {
    const std::pair<const char*, std::int64_t*> needed[] = {{"embedding_length", &s_.hidden}, {"block_count", &s_.layers},
                                                            {"feed_forward_length", &s_.inner}, {"attention.head_count", &s_.heads}};
    for (const auto& [key, place] : needed) {
      const auto value = integer(key);
      if (!value || *value <= 0 || *value > (1 << 24)) return bad(fmt::format("{}.{} is missing or no sensible number", arch_, key));
      *place = *value;
    }
    s_.kv_heads = integer("attention.head_count_kv").value_or(s_.heads);
    s_.head_dim = integer("attention.key_length").value_or(s_.hidden / s_.heads);
    if (s_.kv_heads <= 0 || s_.heads % s_.kv_heads != 0 || s_.head_dim <= 0 || s_.head_dim % 2 != 0 || s_.head_dim > (1 << 16))
      return bad(fmt::format("{} heads, {} of them for keys, of {} do not fit together", s_.heads, s_.kv_heads, s_.head_dim));
    if (integer("attention.value_length").value_or(s_.head_dim) != s_.head_dim) return fail(Code::kUnsupported, "{}: heads of keys and values differ in size", file_->where());
    const GgufTensor* embedding = file_->find("token_embd.weight");
    if (!embedding || embedding->shape.size() != 2) return bad("token_embd.weight is missing or no matrix");
    s_.vocab = embedding->shape[0];
    return ok();
  }

  Status read_tensors() {
    for (const GgufTensor& tensor : file_->tensors()) {
      if (tensor.name == "rope_freqs.weight") {
        out_.notes.push_back("rope_freqs.weight is left out: it stands for a rope_scaling that GGUF does not spell out; see config.json of the original model");
        continue;
      }
      const auto name = name_of(tensor.name, s_, arch_ == "llama");
      if (!name) return bad(fmt::format("tensor '{}' is not one of {}", base::printable(tensor.name, false), arch_));
      if (name->shape != tensor.shape)
        return bad(fmt::format("tensor '{}' is {}, the metadata make it {}", tensor.name, shape_text(tensor.shape), shape_text(name->shape)));
      const auto block = ggml_block(tensor.type);
      if (!block->readable) return fail(Code::kUnsupported, "{}: tensor '{}' has type {}, which is not read here", file_->where(), tensor.name, block->name);
      if (tensor.shape.size() == 2 && std::count(keep_blocks_.begin(), keep_blocks_.end(), tensor.type))
        out_.tensors.push_back({name->name, DType::kU8, {tensor.shape[0], tensor.shape[1] / block->elements, block->bytes}, blocks_of(tensor, name->permute_heads)});
      else
        out_.tensors.push_back({name->name, type_, name->shape, bytes_of(tensor, name->permute_heads)});
      lm_head_ |= name->name == "lm_head.weight";
      attention_bias_ |= tensor.name == "blk.0.attn_q.bias";
    }
    for (std::int64_t layer = 0; layer < s_.layers; ++layer)
      for (const Part& part : kLayerParts) {
        const std::string_view tail = part.gguf;
        const bool norm = tail.find("q_norm") != tail.npos || tail.find("k_norm") != tail.npos, bias = tail.substr(tail.size() - 4) == "bias";
        const bool wanted = norm ? arch_ == "qwen3" : bias ? arch_ == "qwen2" && tail != "attn_output.bias" : true;
        const std::string name = fmt::format("blk.{}.{}", layer, part.gguf);
        if (wanted && !file_->find(name)) return bad(fmt::format("tensor '{}' is missing", name));
      }
    if (!file_->find("output_norm.weight")) return bad("tensor 'output_norm.weight' is missing");
    return ok();
  }

  // The tensor's values when they are asked for. The last one asked for stays in memory.
  std::function<Result<std::string_view>()> bytes_of(const GgufTensor& tensor, std::int64_t permute_heads) {
    return [file = file_, &tensor, type = type_, permute_heads, buffer = buffer_]() -> Result<std::string_view> {
      MC_ASSIGN_OR_RETURN(*buffer, converted(tensor, type, permute_heads));
      return std::string_view(*buffer);
    };
  }

  std::function<Result<std::string_view>()> blocks_of(const GgufTensor& tensor, std::int64_t permute_heads) {
    return [file = file_, &tensor, permute_heads, buffer = buffer_]() -> Result<std::string_view> {
      if (!permute_heads) return tensor.bytes;
      *buffer = reordered(tensor, permute_heads);
      return std::string_view(*buffer);
    };
  }

  void write_config() {
    const bool llama = arch_ == "llama";
    Json config = {{"architectures", {llama ? "LlamaForCausalLM" : arch_ == "qwen2" ? "Qwen2ForCausalLM" : "Qwen3ForCausalLM"}}, {"model_type", arch_},
                   {"hidden_act", "silu"}, {"hidden_size", s_.hidden}, {"intermediate_size", s_.inner}, {"num_hidden_layers", s_.layers},
                   {"num_attention_heads", s_.heads}, {"num_key_value_heads", s_.kv_heads}, {"head_dim", s_.head_dim}, {"vocab_size", s_.vocab},
                   {"max_position_embeddings", integer("context_length").value_or(2048)},
                   // float32 in the file: the shortest decimal that gives it back
                   {"rms_norm_eps", shortest(number("attention.layer_norm_rms_epsilon").value_or(1e-6))},
                   {"rope_theta", shortest(number("rope.freq_base").value_or(10000.0))},
                   {"tie_word_embeddings", !lm_head_}, {"torch_dtype", type_ == DType::kF32 ? "float32" : "bfloat16"}};
    if (llama || arch_ == "qwen3") config["attention_bias"] = attention_bias_;
    if (llama) config["mlp_bias"] = false;
    if (const auto kind = file_->text(arch_ + ".rope.scaling.type"); kind && *kind != "none") {
      Json scaling = {{"rope_type", std::string(*kind)}, {"factor", number("rope.scaling.factor").value_or(1.0)}};
      if (const auto original = integer("rope.scaling.original_context_length")) scaling["original_max_position_embeddings"] = *original;
      config["rope_scaling"] = scaling;
    }
    Json generation = Json::object();
    const std::pair<const char*, const char*> names[] = {{"bos", "bos_token_id"}, {"eos", "eos_token_id"}, {"padding", "pad_token_id"}};
    for (const auto& [key, name] : names)
      if (const auto id = file_->integer(fmt::format("tokenizer.ggml.{}_token_id", key))) config[name] = generation[name] = *id;
    out_.config = config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    out_.generation_config = generation.dump(2) + "\n";
  }

  static double shortest(double value) { return std::stod(fmt::format("{}", static_cast<float>(value))); }

  std::shared_ptr<const Gguf> file_;
  DType type_;
  std::vector<GgmlType> keep_blocks_;
  std::string arch_;
  Sizes s_;
  bool lm_head_ = false, attention_bias_ = false;
  std::shared_ptr<std::string> buffer_ = std::make_shared<std::string>();
  GgufImport out_;
};

}  // namespace

Result<GgufImport> import_gguf(std::shared_ptr<const Gguf> file, DType type, const std::vector<GgmlType>& keep_blocks) {
  if (type != DType::kF32 && type != DType::kBF16) return fail(Code::kInvalidArgument, "GGUF weights are read as F32 or BF16, not {}", dtype_name(type));
  return Importer(std::move(file), type, keep_blocks).run();
}

}  // namespace musacoder::llm
