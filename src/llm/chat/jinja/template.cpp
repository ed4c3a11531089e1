#include "llm/chat/jinja/template.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "llm/chat/jinja/interpreter.h"
#include "llm/chat/jinja/parser.h"
#include "llm/tokenizer/unicode.h"

namespace musacoder::llm::jinja {

struct Template::Program {
  std::string name;
  Block block;
};

Result<Template> Template::parse(std::string_view source, std::string_view name) {
  if (valid_prefix(source) != source.size()) return fail(Code::kInvalidArgument, "{}: not UTF-8 at byte {}", name, valid_prefix(source));
  try {
    auto program = std::make_shared<Program>();
    program->name = name;
    program->block = parse_template(source);
    Template result;
    result.program_ = std::move(program);
    return result;
  } catch (const Fault& fault) {
    return fail(Code::kInvalidArgument, "{}:{}: {}", name, fault.line, base::printable(fault.what(), false));
  }
}

Result<Rendered> Template::render(const nlohmann::ordered_json& context, const RenderOptions& options) const {
  Budget budget{.steps = options.max_steps, .bytes = options.max_bytes};
  double now = options.now_s;
  if (now < 0) now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  try {
    Rendered out;
    if (!context.is_object()) throw Fault("the context is not an object");
    Interpreter interpreter(value_of(context), budget, now);
    interpreter.run(program_->block, out.text);
    out.generations = std::move(interpreter.generations);
    return out;
  } catch (const Fault& fault) {
    const bool spent = budget.steps == 0 || budget.bytes == 0 || std::string_view(fault.what()).rfind("the template ", 0) == 0;
    return fail(spent ? Code::kResourceExhausted : Code::kInvalidArgument, "{}:{}: {}", program_->name, fault.line, base::printable(fault.what()));
  }
}

}  // namespace musacoder::llm::jinja
