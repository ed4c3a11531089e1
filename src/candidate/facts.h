// What Python's own parser says about a candidate (runtime/python/ast_facts.py). Facts describe, they never judge.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "port/rename_table.h"

namespace musacoder::candidate {

struct ClassFact {
  std::string name;
  int line = 0;
  std::vector<std::string> bases;    // full dotted names: "torch.nn.Module"; "?" where not a name
  std::vector<std::string> methods;
};

// A call of load_inline or load.
struct BuildFact {
  std::string call, name, function;  // function: the innermost enclosing one, "" at module level
  int line = 0;
  bool in_try = false;               // its failure can be swallowed
};

// A string literal that holds C++ or CUDA.
struct LiteralFact {
  int line = 0;                      // of the literal's first character in the .py
  bool exact = false;                // line k of the text is line `line` + k of the file
  std::string text;
};

struct NameAtLine {
  std::string name;
  int line = 0;
};

struct ModelNewFact {
  bool usable = false;               // bound at module level, derived from something, with a forward of its own or inherited
  std::string why;                   // when not usable
  int line = 0;
  std::vector<std::string> bases;
  std::optional<std::vector<std::string>> forward;  // argument names without self; "*inputs" for varargs; nullopt: inherited
};

// Whose names a candidate speaks: NVIDIA's (cuda_runtime.h, torch.cuda) or Moore Threads' (musa_runtime.h, torch_musa).
using port::Dialect;
using port::dialect_name;

struct Facts {
  bool parsed = false;               // false: syntax_* say why
  int syntax_line = 0;               // 0 when the parser names none
  std::string syntax_message;
  ModelNewFact model_new;
  std::vector<ClassFact> classes;
  std::vector<NameAtLine> imports;
  Dialect dialect = Dialect::kCuda;
  NameAtLine dialect_why;                     // of kMusa: "musa_sources", "#include <musa_runtime.h>"; facts, never words in strings
  std::vector<BuildFact> builds;
  std::vector<NameAtLine> torch_calls;        // inside forward methods, full dotted names; advisory
  std::vector<LiteralFact> literals;
  std::vector<std::int64_t> constants_python; // integers ≥ 8, sorted, unique
  std::vector<std::int64_t> constants_cuda;   // integers ≥ 8 in C++ and CUDA literals, comments left out
};

// Errors: kInvalidArgument when the text is not the facts' JSON.
Result<Facts> facts_from_json(const std::string& json);

// The line of the candidate's .py that holds line `line` (1-based) of an extension source, or nullopt when no literal
// with a known place contains it. `source` is the text that was given to the builder.
std::optional<int> python_line_of(const Facts& facts, const std::string& source, int line);

}  // namespace musacoder::candidate
