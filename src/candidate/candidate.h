// A model's answer → a candidate: one Python file with ModelNew, or one bare CUDA or MUSA file.
//
//   Extractor extractor({.python = python, .runtime_dir = rt});
//   MC_ASSIGN_OR_RETURN(Candidate candidate, extractor.extract(answer));
//   if (candidate.status != "ok") show(candidate.status, candidate.message, candidate.line);
//
// An answer may be the file itself or Markdown around it: thinking blocks and chat markers are cut, and the last suitable
// fenced block is taken: one that defines ModelNew first, else CUDA or C++ with PYBIND11_MODULE or a host function. What a
// Python file holds is decided by Python's own parser in a separate process (ast_worker.h), never by searching words; words
// only choose between blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "candidate/facts.h"

namespace musacoder::candidate {

enum class Kind { kPython, kBareCuda };

struct Candidate {
  // ok, compile_error:extract (nothing to judge in the answer), compile_error:syntax (Python does not parse),
  // compile_error:interface (no ModelNew, or one that cannot work; a bare file that binds nothing).
  std::string status = "compile_error:extract";
  std::string message;             // one sentence: what is wrong; "" when ok
  int line = 0;                    // of `code`, 1-based; 0 when no line is at fault
  Kind kind = Kind::kPython;
  std::string code;                // \n line ends; a bare file that binds nothing itself has its binding appended
  std::string hash;                // SHA-256 of kind and code, hex; of the answer when nothing was extracted
  std::string source;              // where it was found: "whole answer", "fenced block 2 of 3 (python)"
  Facts facts;                     // of Python candidates
  Dialect dialect = Dialect::kCuda;
  std::string dialect_why;         // of kMusa: "musa_sources (line 41)"
  std::vector<std::string> notes;  // remarks that decide nothing: thinking cut, failed builds are swallowed, …
};

struct ExtractOptions {
  std::string python;              // a Python 3 interpreter
  std::string runtime_dir;         // holds python/ast_facts.py and bin/musacoder-sandbox
  std::uint64_t max_code_bytes = 1u << 20;  // of the extracted code, not of the answer
  double parse_timeout_s = 20;
  std::string launcher = {};       // of the sandbox; "": the one in runtime_dir
};

// Thread safe. Keeps one parser process.
class Extractor {
 public:
  explicit Extractor(ExtractOptions options);
  ~Extractor();
  // `name` is the answer's file name, if it came from one: ".cu" and ".mu" say that it is a bare CUDA or MUSA file.
  // An error is the machine's fault (no Python): infra. Everything about the answer is in Candidate::status.
  Result<Candidate> extract(std::string_view answer, std::string_view name = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// One answer with a parser process of its own.
Result<Candidate> extract(std::string_view answer, const ExtractOptions& options);

}  // namespace musacoder::candidate
