// Jinja templates, as chat templates use the language: https://jinja.palletsprojects.com/en/stable/templates/ with
// transformers' environment (trim_blocks, lstrip_blocks, loop controls, tojson without HTML escapes, raise_exception,
// strftime_now, generation blocks), in a sandbox of limits.
//
//   MC_ASSIGN_OR_RETURN(Template t, Template::parse("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"));
//   MC_ASSIGN_OR_RETURN(Rendered out, t.render({{"messages", {{{"role", "user"}, {"content", "hi"}}}}}));
//   out.text;                       // "user: hi\n"
//
// There: if, for with else and filter, set (also blocks, tuples, namespaces), macro, call, filter, with, raw, generation,
// break, continue; the filters, tests and methods of builtins.h. Not there, each an error that names it: inheritance,
// include, import, recursive loops, autoescape, integers beyond 64 bits. Upper and lower case map one character to one.
//
// Errors: kInvalidArgument "name:line: what" for a template that does not parse or fails (raise_exception included),
// kResourceExhausted when it takes more steps, text or depth than its budget. Thread safety: const.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace musacoder::llm::jinja {

struct Span {
  std::size_t begin = 0, end = 0;   // bytes
  bool operator==(const Span&) const = default;
};

struct Rendered {
  std::string text;
  std::vector<Span> generations;    // what {% generation %} blocks made: the model's own words
};

struct RenderOptions {
  double now_s = -1;                              // for strftime_now; < 0: the system's clock
  std::uint64_t max_steps = 20'000'000;           // evaluated nodes and visited items
  std::uint64_t max_bytes = 256u << 20;           // of all text that is made on the way
};

class Template {
 public:
  static Result<Template> parse(std::string_view source, std::string_view name = "template");
  // `context`: an object; its keys are the template's variables.
  Result<Rendered> render(const nlohmann::ordered_json& context, const RenderOptions& options = {}) const;

 private:
  struct Program;
  std::shared_ptr<const Program> program_;
};

}  // namespace musacoder::llm::jinja
