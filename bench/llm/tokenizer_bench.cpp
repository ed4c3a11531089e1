// Encodes and decodes a file's documents with one tokenizer and prints the times as JSON; bench/llm/tokenizer.py runs it
// beside PyPI tokenizers. Not a Google Benchmark program: texts, threads and rounds are the caller's.
//
//   llm_tokenizer_bench TOKENIZER DOCUMENTS.jsonl THREADS ROUNDS
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "llm/tokenizer/tokenizer.h"

int main(int argc, char** argv) {
  using namespace musacoder::llm;
  using Clock = std::chrono::steady_clock;
  if (argc != 5) {
    std::fprintf(stderr, "bench/llm/tokenizer.py runs this program: TOKENIZER DOCUMENTS.jsonl THREADS ROUNDS\n");
    return 0;
  }
  const auto seconds_since = [](Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const auto start = Clock::now();
  const auto tokenizer = Tokenizer::open(argv[1]);
  if (!tokenizer) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    return 2;
  }
  const double load_s = seconds_since(start);
  std::vector<std::string> texts;
  std::ifstream file(argv[2]);
  for (std::string line; std::getline(file, line);) texts.push_back(nlohmann::json::parse(line).get<std::string>());
  double encode_s = 1e9, decode_s = 1e9;
  std::size_t tokens = 0;
  for (int round = 0; round < std::atoi(argv[4]); ++round) {
    const auto begin = Clock::now();
    const auto ids = tokenizer->encode_batch(texts, {}, std::atoi(argv[3]));
    encode_s = std::min(encode_s, seconds_since(begin));
    if (!ids) return 2;
    const auto decode_begin = Clock::now();
    std::size_t bytes = 0;
    for (const auto& one : *ids) bytes += tokenizer->decode(one).size();
    decode_s = std::min(decode_s, seconds_since(decode_begin));
    tokens = 0;
    for (const auto& one : *ids) tokens += one.size();
    if (bytes == 0) return 2;
  }
  const nlohmann::json out = {{"load_s", load_s}, {"encode_s", encode_s}, {"decode_s", decode_s}, {"tokens", tokens}};
  std::printf("%s\n", out.dump().c_str());
  return 0;
}
