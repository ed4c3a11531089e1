// The library behind JSON lines, for the differential tests in tests/python: one request a line on stdin, one reply a line
// on stdout. Texts that may be any bytes travel as hex.
//
//   {"op":"open","path":"DIR"}                                        → {}
//   {"op":"encode","hex":["6869"],"specials":"all","template":true}   → {"ids":[[1,2]]}
//   {"op":"decode","ids":[[1,2]],"skip":false}                        → {"texts":["hi"],"streamed":["hi"]}
//   {"op":"split","pattern":"…","hex":[…]}                            → {"words":[["…"]],"scanned":true}
//   {"op":"normalize","form":"NFC","texts":[…]}                       → {"texts":[…]}
//
// A failure is {"error":"…"}.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

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

json answer(const json& request) {
  const std::string op = request.at("op");
  if (op == "open") {
    auto opened = Tokenizer::open(request.at("path"));
    if (!opened) return error_of(opened.error());
    tokenizer = std::move(*opened);
    return {{"size", tokenizer->size()}, {"named", tokenizer->spec().named}};
  }
  if (op == "encode") return encode(request);
  if (op == "decode") return decode(request);
  if (op == "split") return split(request);
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
      reply = answer(json::parse(line));
    } catch (const json::exception& error) {
      reply = {{"error", error.what()}};
    }
    std::cout << reply.dump(-1, ' ', true) << std::endl;
  }
}
