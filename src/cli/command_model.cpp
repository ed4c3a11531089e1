// `musacoder model inspect|tokenize|convert`.
#include <fmt/ranges.h>

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json_lines.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "cli/model_facts.h"
#include "llm/chat/chat_template.h"
#include "llm/checkpoint/gguf_import.h"
#include "llm/checkpoint/strict_json.h"
#include "llm/tokenizer/gguf_tokenizer.h"
#include "llm/tokenizer/tokenizer.h"
#include "llm/tokenizer/unicode.h"

namespace musacoder::cli {
namespace {

using nlohmann::json;
using namespace musacoder::llm;

int failed(const char* command, const Error& error) {
  fmt::print(stderr, "musacoder model {}: {}\n", command, error.message);
  return error.code == Code::kResourceExhausted || error.code == Code::kInternal ? 3 : 2;
}

std::string dumped(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

void print_facts(const json& f) {
  const base::Terminal term(stdout);
  const auto text = [](const json& v) { return v.is_string() ? base::printable(v.get<std::string>(), false) : v.is_null() ? std::string("unknown") : v.dump(); };
  const auto row = [](std::string_view name, std::string_view value) { fmt::print("  {:<25}{}\n", name, value); };
  fmt::print("{}\n", term.bold(f["path"].get<std::string>()));
  row("format", text(f["format"]));
  row("architecture", text(f["architecture"]));
  row("model type", text(f["model_type"]));
  for (const auto& [key, value] : f["sizes"].items()) row(key, text(value));
  const json& t = f["tensors"];
  row("parameters", fmt::format("{} ({:.1f} M)", t["parameters"].get<std::int64_t>(), t["parameters"].get<double>() / 1e6));
  row("weights", fmt::format("{} tensors, {}", t["count"].get<int>(), base::human_bytes(t["bytes"].get<std::uint64_t>())));
  if (const json& k = f["tokenizer"]; k.is_object()) {
    row("tokenizer", fmt::format("{}, {} ids, {} merges, {} added ({} special)", text(k["kind"]), k["ids"].get<int>(), k["merges"].get<int>(), k["added"].get<int>(), k["special"].get<int>()));
    for (const auto& [name, token] : k["named"].items()) row(name, text(token["text"]) + " " + text(token["id"]));
  } else {
    row("tokenizer", "none that can be read");
  }
  row("chat template", f["chat_template"].is_object() ? fmt::format("{} bytes", f["chat_template"]["bytes"].get<int>()) : "none");
  fmt::print("\n");
  base::Table types({"type", "tensors", "parameters", "bytes"}, {base::Align::kLeft, base::Align::kRight, base::Align::kRight, base::Align::kRight});
  for (const auto& [name, row] : t["by_type"].items())
    types.add({name, row["tensors"].dump(), row["parameters"].dump(), base::human_bytes(row["bytes"].get<std::uint64_t>())});
  fmt::print("{}\n", types.text());
  base::Table files({"file", "tensors", "bytes"}, {base::Align::kLeft, base::Align::kRight, base::Align::kRight});
  for (const json& file : f["files"]) files.add({text(file["name"]), file["tensors"].dump(), base::human_bytes(file["bytes"].get<std::uint64_t>())});
  fmt::print("{}", files.text());
  if (f.contains("list")) {
    base::Table list({"tensor", "type", "shape"});
    for (const json& one : f["list"]) list.add({text(one["name"]), text(one["type"]), one["shape"].dump()});
    fmt::print("\n{}", list.text());
  }
  for (const json& note : f["notes"]) fmt::print("\n{} {}\n", term.yellow("note:"), base::printable(note.get<std::string>()));
  if (!f.contains("problems")) return;
  for (const json& problem : f["problems"]) fmt::print("\n{} {}\n", term.red("✗"), base::printable(problem.get<std::string>()));
  if (f["problems"].empty()) fmt::print("\n{} everything fits\n", term.green("✓"));
}

Result<std::string> input_text(const std::string& given) {
  if (!given.empty() && given != "-") return given;
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

// The text that the chat file's conversation makes: an array of messages, or an object with messages, tools, …
Result<std::string> chat_text(const ModelTokenizeOptions& options, const Tokenizer& tokenizer) {
  MC_ASSIGN_OR_RETURN(std::string bytes, options.chat == "-" ? input_text("-") : base::read_file(options.chat, 256 << 20));
  MC_ASSIGN_OR_RETURN(auto given, parse_strict_json(bytes, options.chat, 100));
  ChatRequest request{.add_generation_prompt = options.generation_prompt};
  const auto part = [&](const char* name) { return given.is_object() && given.contains(name) ? given[name].dump() : std::string(); };
  request.messages = given.is_array() ? given.dump() : part("messages");
  if (request.messages.empty()) return fail(Code::kInvalidArgument, "{}: an array of messages, or an object with messages, is expected", options.chat);
  request.tools = part("tools");
  request.documents = part("documents");
  request.variables = options.variables.empty() ? part("variables") : options.variables;
  MC_ASSIGN_OR_RETURN(auto chat, ChatTemplate::open(options.model));
  MC_ASSIGN_OR_RETURN(auto control, find_control_text(tokenizer, request.messages));
  if (control) fmt::print(stderr, "musacoder model tokenize: a message holds the special token {}, which the model will read as such\n", *control);
  MC_ASSIGN_OR_RETURN(auto rendered, chat.render(request));
  return std::move(rendered.text);
}

EncodeOptions encode_options(const ModelTokenizeOptions& options) {
  const bool chat = !options.chat.empty();   // the template has put in what belongs around a text
  return {.specials = options.plain ? Specials::kPlain : Specials::kAll, .template_tokens = !chat && !options.no_template_tokens};
}

json tokens_json(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  json pieces = json::array();
  for (const TokenId id : ids) pieces.push_back(tokenizer.token_bytes(id));
  return {{"ids", ids}, {"pieces", pieces}};
}

// A token's bytes in quotes, so that spaces are seen; what is no character as \xNN.
std::string piece_text(std::string_view bytes) {
  std::string out = "'";
  while (!bytes.empty()) {
    const std::size_t good = valid_prefix(bytes);
    out += base::printable(bytes.substr(0, good), false);
    bytes.remove_prefix(good);
    if (bytes.empty()) break;
    out += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[0]));
    bytes.remove_prefix(1);
  }
  return out + "'";
}

int print_tokens(const ModelTokenizeOptions& options, const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  if (options.json) {
    fmt::print("{}\n", dumped(tokens_json(tokenizer, ids)));
  } else if (options.ids) {
    fmt::print("{}\n", fmt::join(ids, " "));
  } else {
    base::Table table({"id", "piece"}, {base::Align::kRight, base::Align::kLeft});
    for (const TokenId id : ids) table.add({std::to_string(id), piece_text(tokenizer.token_bytes(id))});
    fmt::print("{}{} tokens\n", table.text(), ids.size());
  }
  return 0;
}

// Each line of stdin a text; each line of stdout its tokens.
int tokenize_lines(const ModelTokenizeOptions& options, const Tokenizer& tokenizer) {
  std::vector<std::string> lines;
  std::size_t bytes = 0;
  const auto flush = [&]() -> int {
    const auto all = tokenizer.encode_batch(lines, encode_options(options));
    if (!all) return failed("tokenize", all.error());
    for (const auto& ids : *all) {
      if (options.json) fmt::print("{}\n", dumped(tokens_json(tokenizer, ids)));
      else fmt::print("{}\n", fmt::join(ids, " "));
    }
    lines.clear();
    bytes = 0;
    return 0;
  };
  for (std::string line; std::getline(std::cin, line);) {
    bytes += line.size();
    lines.push_back(std::move(line));
    if (bytes > 8u << 20)
      if (const int code = flush(); code != 0) return code;
  }
  return lines.empty() ? 0 : flush();
}

int decode_ids(const ModelTokenizeOptions& options, const Tokenizer& tokenizer) {
  const auto text = input_text(options.text);
  std::vector<TokenId> ids;
  std::uint64_t number = 0;
  bool digits = false;
  for (const char c : *text + " ") {
    if (c >= '0' && c <= '9') {
      number = number * 10 + static_cast<std::uint64_t>(c - '0');
      digits = true;
      if (number > UINT32_MAX) return failed("tokenize", {Code::kInvalidArgument, "an id beyond 32 bits"});
    } else if (std::string_view(" \t\r\n,[]").find(c) != std::string_view::npos) {
      if (digits) ids.push_back(static_cast<TokenId>(number));
      number = 0;
      digits = false;
    } else {
      return failed("tokenize", {Code::kInvalidArgument, fmt::format("'{}' is not of an id; --decode takes numbers with spaces or commas between", base::printable({&c, 1}))});
    }
  }
  const std::string decoded = tokenizer.decode(ids, options.skip_special);
  if (options.json) fmt::print("{}\n", dumped({{"text", decoded}}));
  else fmt::print("{}\n", decoded);
  return 0;
}

}  // namespace

int run_model_inspect(const ModelInspectOptions& options) {
  const auto facts = model_facts(options.model, {.tensors = options.tensors, .check = options.check});
  if (!facts) {
    // A file that is there and cannot be read as a model is what --check is to find.
    const int code = failed("inspect", facts.error());
    return options.check && code == 2 && base::exists(options.model) ? 1 : code;
  }
  if (options.json) fmt::print("{}\n", dumped(*facts));
  else print_facts(*facts);
  return options.check && !(*facts)["problems"].empty() ? 1 : 0;
}

int run_model_tokenize(const ModelTokenizeOptions& options) {
  const auto tokenizer = Tokenizer::open(options.model);
  if (!tokenizer) return failed("tokenize", tokenizer.error());
  if (options.decode) return decode_ids(options, *tokenizer);
  if (options.lines) return tokenize_lines(options, *tokenizer);
  const auto text = options.chat.empty() ? input_text(options.text) : chat_text(options, *tokenizer);
  if (!text) return failed("tokenize", text.error());
  if (options.show_text) {
    fmt::print("{}\n", *text);
    return 0;
  }
  const auto ids = tokenizer->encode(*text, encode_options(options));
  if (!ids) return failed("tokenize", ids.error());
  return print_tokens(options, *tokenizer, *ids);
}

int run_model_convert(const ModelConvertOptions& options) {
  const auto file = Gguf::open(options.model);
  if (!file) return failed("convert", file.error());
  const auto model = import_gguf(*file, options.dtype == "float32" ? DType::kF32 : DType::kBF16);
  if (!model) return failed("convert", model.error());
  NewCheckpoint out{.tensors = model->tensors, .files = {{"config.json", model->config}, {"generation_config.json", model->generation_config}},
                    .max_shard_bytes = static_cast<std::uint64_t>(options.shard_gb * 1e9)};
  if (const auto spec = read_gguf_tokenizer(**file)) {
    json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
    for (const auto& [name, text] : spec->named) config[name] = text;
    out.files.emplace_back("tokenizer.json", tokenizer_json(*spec));
    out.files.emplace_back("tokenizer_config.json", config.dump(2) + "\n");
  } else if (!options.without_tokenizer) {
    return failed("convert", {spec.error().code, spec.error().message + "; --without-tokenizer converts the weights alone"});
  }
  if (const std::string source = gguf_chat_template(**file); !source.empty()) out.files.emplace_back("chat_template.jinja", source);
  if (const auto status = write_checkpoint(out, options.out); !status) return failed("convert", status.error());
  for (const std::string& note : model->notes) fmt::print(stderr, "musacoder model convert: {}\n", note);
  fmt::print("{}: {} tensors\n", options.out, out.tensors.size());
  return 0;
}

}  // namespace musacoder::cli
