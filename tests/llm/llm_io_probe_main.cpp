// The library behind JSON lines, for the differential tests in tests/python: one request a line on stdin, one reply a line
// on stdout. Texts that may be any bytes travel as hex.
//
//   {"op":"open","path":"DIR"}                                        → {}
//   {"op":"encode","hex":["6869"],"specials":"all","template":true}   → {"ids":[[1,2]]}
//   {"op":"spans","hex":["6869"]}                                     → {"spans":[[[1,0,2]]]}
//   {"op":"decode","ids":[[1,2]],"skip":false}                        → {"texts":["hi"],"streamed":["hi"]}
//   {"op":"split","pattern":"…","hex":[…]}                            → {"words":[["…"]],"scanned":true}
//   {"op":"normalize","form":"NFC","texts":[…]}                       → {"texts":[…]}
//   {"op":"template","source":"…","context":{…},"now":0}              → {"text":"…","spans":[[0,3]]}
//   {"op":"chat","source":"…","named":{…},"request":{…}}              → {"text":"…","spans":[…]}
//   {"op":"chat_source","path":"DIR"}                                 → {"source":"…"}
//   {"op":"blocks"}                                                   → {"Q4_0":[2,32,18,true],…}
//   {"op":"dequantize","type":2,"hex":["…"]}                          → {"hex":["…"]}
//   {"op":"gguf","path":"x.gguf"}                                     → {"metadata":{…},"tensors":[…]}
//   {"op":"import","path":"x.gguf","out":"DIR","dtype":"F32"}         → {"notes":[…]}
//   {"op":"save","path":"DIR","out":"DIR","changed":{"name":"hex"}}   → {}
//   {"op":"rewrite","path":"DIR","out":"DIR","shard":1000}            → {}
//
// A failure is {"error":"…"}.
#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <memory>
#include <optional>
#include <string>

#include "llm/chat/chat_template.h"
#include "llm/checkpoint/checkpoint_writer.h"
#include "llm/checkpoint/gguf_import.h"
#include "llm/tokenizer/tokenizer.h"
#include "llm/tokenizer/unicode.h"

namespace {

using namespace musacoder;
using namespace musacoder::llm;
using nlohmann::json;

std::string unhex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}
std::vector<std::string> texts_of(const json& request) {
  std::vector<std::string> texts;
  if (request.contains("hex")) for (const auto& one : request["hex"]) texts.push_back(unhex(one));
  else texts = request.at("texts").get<std::vector<std::string>>();
  return texts;
}
json error_of(const Error& error) { return {{"error", error.message}, {"code", code_name(error.code)}}; }

std::optional<Tokenizer> tokenizer;

json encode(const json& request) {
  EncodeOptions options{.template_tokens = request.value("template", true)};
  const std::string specials = request.value("specials", "all");
  options.specials = specials == "none" ? Specials::kNone : specials == "plain" ? Specials::kPlain : specials == "listed" ? Specials::kListed : Specials::kAll;
  options.allowed = request.value("allowed", std::vector<std::string>());
  const auto ids = tokenizer->encode_batch(texts_of(request), options, request.value("threads", 0));
  return ids ? json{{"ids", *ids}} : error_of(ids.error());
}

json spans(const json& request) {
  json all = json::array();
  for (const std::string& text : texts_of(request)) {
    const auto found = tokenizer->encode_spans(text);
    if (!found) return error_of(found.error());
    json one = json::array();
    for (const TokenSpan& s : *found) one.push_back({s.id, s.begin, s.end});
    all.push_back(std::move(one));
  }
  return {{"spans", all}};
}

json decode(const json& request) {
  json texts = json::array(), streamed = json::array();
  const bool skip = request.value("skip", false);
  for (const auto& ids : request.at("ids").get<std::vector<std::vector<TokenId>>>()) {
    texts.push_back(tokenizer->decode(ids, skip));
    StreamDecoder stream(*tokenizer, skip);
    std::string all;
    for (const TokenId id : ids) {
      const std::string part = stream.put(id);
      if (valid_prefix(part) != part.size()) return {{"error", "a part of the stream is not UTF-8"}};
      all += part;
    }
    streamed.push_back(all + stream.end());
  }
  return {{"texts", texts}, {"streamed", streamed}};
}

json split(const json& request) {
  const auto splitter = Splitter::regex(request.at("pattern"), SplitBehaviour::kIsolated, false);
  if (!splitter) return error_of(splitter.error());
  json all = json::array();
  for (const std::string& text : texts_of(request)) {
    std::vector<std::string_view> words;
    if (auto status = splitter->run(text, words); !status) return error_of(status.error());
    all.push_back(words);
  }
  return {{"words", all}, {"scanned", splitter->scanned()}};
}

json normalized(const json& request) {
  const std::string form = request.at("form");
  const NormalForm which = form == "NFC" ? NormalForm::kNfc : form == "NFD" ? NormalForm::kNfd : form == "NFKC" ? NormalForm::kNfkc : NormalForm::kNfkd;
  json texts = json::array();
  for (const std::string& text : texts_of(request)) texts.push_back(normalize(text, which));
  return {{"texts", texts}};
}

std::string hex_of(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

json blocks() {
  json all = json::object();
  for (std::uint32_t i = 0; i < 64; ++i)
    if (const auto block = ggml_block(static_cast<GgmlType>(i))) all[block->name] = {i, block->elements, block->bytes, block->readable};
  return all;
}

json dequantized(const json& request) {
  const auto type = static_cast<GgmlType>(request.at("type").get<std::uint32_t>());
  const std::string bytes = texts_of(request)[0];
  const auto block = ggml_block(type);
  std::vector<float> values(bytes.size() / block->bytes * block->elements);
  if (!dequantize_blocks(type, bytes, values.data())) return {{"error", "not read"}};
  return {{"hex", {hex_of({reinterpret_cast<const char*>(values.data()), values.size() * 4})}}};
}

json value_json(const Gguf& file, const std::string& key, const GgufValue& value) {
  if (value.type == GgufType::kString) return std::string(value.text);
  if (value.type == GgufType::kBool) return *file.boolean(key);
  if (value.type == GgufType::kArray) {
    json all = {{"element", static_cast<int>(value.element)}, {"count", value.count}, {"hex", hex_of(value.data)}, {"texts", value.texts}};
    for (const GgufValue& one : value.arrays) all["arrays"].push_back(value_json(file, key, one));
    return all;
  }
  if (value.type == GgufType::kU64) return value.bits;
  if (const auto whole = file.integer(key)) return *whole;
  return *file.number(key);
}

json gguf(const json& request) {
  const auto file = Gguf::open(request.at("path"));
  if (!file) return error_of(file.error());
  json metadata = json::object(), tensors = json::array();
  for (const auto& [key, value] : (*file)->metadata()) metadata[key] = value_json(**file, key, value);
  for (const GgufTensor& t : (*file)->tensors()) tensors.push_back({t.name, t.shape, ggml_block(t.type)->name, t.offset, t.bytes.size()});
  return {{"version", (*file)->version()}, {"metadata", metadata}, {"tensors", tensors}};
}

json imported(const json& request) {
  auto file = Gguf::open(request.at("path"));
  if (!file) return error_of(file.error());
  auto model = import_gguf(*file, *parse_dtype(request.at("dtype").get<std::string>()));
  if (!model) return error_of(model.error());
  const auto status = write_checkpoint({.tensors = model->tensors, .files = {{"config.json", model->config}}}, request.at("out"));
  return status ? json{{"notes", model->notes}} : error_of(status.error());
}

json saved(const json& request) {
  const auto source = Checkpoint::open(request.at("path"));
  if (!source) return error_of(source.error());
  std::vector<NewTensor> changed;
  const json given = request.value("changed", json::object());
  for (const auto& [name, hex] : given.items()) {
    const TensorView* old = source->find(name);
    auto bytes = std::make_shared<std::string>(unhex(hex.get<std::string>()));
    changed.push_back({name, old ? old->dtype : DType::kF32, old ? old->shape : Shape{}, [bytes]() -> Result<std::string_view> { return *bytes; }});
  }
  const auto status = save_checkpoint(*source, request.at("out"), changed);
  return status ? json::object() : error_of(status.error());
}

json rewritten(const json& request) {
  const auto source = Checkpoint::open(request.at("path"));
  if (!source) return error_of(source.error());
  NewCheckpoint fresh{.max_shard_bytes = request.at("shard")};
  for (const TensorView& tensor : source->tensors()) fresh.tensors.push_back(same_tensor(tensor));
  const auto status = write_checkpoint(fresh, request.at("out"));
  return status ? json::object() : error_of(status.error());
}

json rendered_json(const Result<jinja::Rendered>& out) {
  if (!out) return error_of(out.error());
  json spans = json::array();
  for (const auto& span : out->generations) spans.push_back({span.begin, span.end});
  return {{"text", out->text}, {"spans", spans}};
}

json templated(const nlohmann::ordered_json& request) {
  const auto parsed = jinja::Template::parse(request.at("source").get<std::string>());
  if (!parsed) return error_of(parsed.error());
  return rendered_json(parsed->render(request.at("context"), {.now_s = request.value("now", -1.0), .max_steps = request.value("steps", std::uint64_t{2'000'000})}));
}

json chat(const nlohmann::ordered_json& request) {
  auto made = ChatTemplate::create(request.at("source").get<std::string>(), request.value("named", std::map<std::string, std::string>()));
  if (!made) return error_of(made.error());
  const auto& r = request.at("request");
  const auto text = [&](const char* name) { return r.contains(name) ? r[name].dump() : std::string(); };
  return rendered_json(made->render({.messages = text("messages"), .tools = text("tools"), .documents = text("documents"), .variables = text("variables"),
                                     .add_generation_prompt = r.value("add_generation_prompt", false),
                                     .continue_final_message = r.value("continue_final_message", false), .now_s = r.value("now", -1.0)}));
}

json chat_source(const json& request) {
  auto opened = ChatTemplate::open(request.at("path"), request.value("which", "default"));
  return opened ? json{{"source", opened->source()}} : error_of(opened.error());
}

json answer(const json& request) {
  const std::string op = request.at("op");
  if (op == "open") {
    auto opened = Tokenizer::open(request.at("path"));
    if (!opened) return error_of(opened.error());
    tokenizer = std::move(*opened);
    return {{"size", tokenizer->size()}, {"named", tokenizer->spec().named}};
  }
  if (op == "encode") return encode(request);
  if (op == "spans") return spans(request);
  if (op == "decode") return decode(request);
  if (op == "split") return split(request);
  if (op == "chat_source") return chat_source(request);
  if (op == "blocks") return blocks();
  if (op == "dequantize") return dequantized(request);
  if (op == "gguf") return gguf(request);
  if (op == "import") return imported(request);
  if (op == "save") return saved(request);
  if (op == "rewrite") return rewritten(request);
  if (op == "normalize") return normalized(request);
  if (op == "tokenizer_json") return {{"text", tokenizer_json(tokenizer->spec())}};
  return {{"error", "unknown op"}};
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    json reply;
    try {
      const auto ordered = nlohmann::ordered_json::parse(line);   // templates see keys in their order
      const std::string op = ordered.at("op");
      reply = op == "template" ? templated(ordered) : op == "chat" ? chat(ordered) : answer(json::parse(line));
    } catch (const json::exception& error) {
      reply = {{"error", error.what()}};
    }
    std::cout << reply.dump(-1, ' ', true) << std::endl;
  }
}
