#include "candidate/candidate.h"

#include <algorithm>
#include <optional>

#include "base/hash.h"
#include "candidate/answer.h"
#include "candidate/ast_worker.h"
#include "candidate/cuda_scan.h"
#include "sandbox/launcher.h"

namespace musacoder::candidate {
namespace {

constexpr const char* kExtract = "compile_error:extract";
constexpr const char* kSyntax = "compile_error:syntax";
constexpr const char* kInterface = "compile_error:interface";

// 1-based line of the first byte that is not UTF-8 text (NUL and other control bytes count); 0 when all is well.
int first_bad_line(std::string_view text) {
  int line = 1;
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '\n') ++line;
    if (c < 0x80) {
      if (c < 0x20 && c != '\n' && c != '\t' && c != '\r' && c != '\f' && c != '\v' && c != 0x1b) return line;
      ++i;
      continue;
    }
    const int more = c >= 0xf0 && c <= 0xf4 ? 3 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xc2 && c < 0xe0 ? 1 : 0;
    if (more == 0 || i + static_cast<std::size_t>(more) >= text.size()) return line;
    std::uint32_t value = c & (0x3f >> more);
    for (int k = 1; k <= more; ++k) {
      const auto next = static_cast<unsigned char>(text[i + static_cast<std::size_t>(k)]);
      if ((next & 0xc0) != 0x80) return line;
      value = value << 6 | (next & 0x3f);
    }
    if ((more == 2 && value < 0x800) || (more == 3 && (value < 0x10000 || value > 0x10ffff)) ||
        (value >= 0xd800 && value < 0xe000))
      return line;
    i += static_cast<std::size_t>(more) + 1;
  }
  return 0;
}

// Bytes that no text has: more than one in a hundred of a sample.
bool is_binary(std::string_view text) {
  const std::string_view sample = text.substr(0, 64 << 10);
  std::size_t odd = 0;
  for (const char c : sample) odd += c == '\0' || (static_cast<unsigned char>(c) < 9);
  return odd * 100 > sample.size();
}

std::string unix_lines(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      out += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    } else {
      out += text[i];
    }
  }
  if (!out.empty() && out.back() != '\n') out += '\n';
  return out;
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos; }

// A line that begins a definition of ModelNew. Chooses between blocks, decides nothing.
bool claims_model(std::string_view text) {
  for (std::size_t at = text.find("ModelNew"); at != std::string_view::npos; at = text.find("ModelNew", at + 1)) {
    std::size_t start = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    std::string_view before = text.substr(start, at - start);
    before.remove_prefix(std::min(before.find_first_not_of(" \t"), before.size()));
    std::string_view after = text.substr(at + 8, 64);
    after.remove_prefix(std::min(after.find_first_not_of(" \t"), after.size()));
    if (before.starts_with("class ")) return true;
    if (before.empty() && after.starts_with("=")) return true;
  }
  return false;
}

// A line that only Python begins with.
bool claims_python(std::string_view text) {
  for (std::size_t at = 0, lines = 0; at < text.size() && lines < 400; ++lines) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    for (std::string_view word : {"import ", "from ", "class ", "def "})
      if (line.starts_with(word) && line.find(word == "import " || word == "from " ? "torch" : ":") != std::string_view::npos &&
          line.find(';') == std::string_view::npos)
        return true;
    at = end + 1;
  }
  return false;
}

bool is_python_language(const std::string& language) {
  return language == "python" || language == "py" || language == "python3";
}
bool is_cuda_language(const std::string& language) {
  static const char* const kNames[] = {"cuda", "cu", "cpp", "c++", "cxx", "c", "cc", "musa", "mu"};
  return std::any_of(std::begin(kNames), std::end(kNames), [&](const char* name) { return language == name; });
}
bool is_other_language(const std::string& language) {
  static const char* const kNames[] = {"bash", "sh", "shell", "console", "json", "diff", "yaml", "toml", "markdown", "md", "text",
                                       "txt", "plaintext", "output", "latex", "mermaid"};
  return std::any_of(std::begin(kNames), std::end(kNames), [&](const char* name) { return language == name; });
}

void reject(Candidate& candidate, const char* status, std::string message, int line = 0) {
  candidate.status = status;
  candidate.message = std::move(message);
  candidate.line = line;
}

const char* dialect_title(Dialect dialect) { return dialect == Dialect::kMusa ? "MUSA" : "CUDA"; }

void note_facts(Candidate& candidate) {
  const Facts& facts = candidate.facts;
  for (const BuildFact& build : facts.builds)
    if (build.in_try)
      candidate.notes.push_back(fmt::format("line {}: a failed {} is caught, so the candidate may run without its kernels",
                                            build.line, build.call));
  if (facts.builds.empty()) candidate.notes.emplace_back("no call of load_inline or load: nothing builds a kernel");
  std::string calls;
  std::size_t shown = 0;
  for (const NameAtLine& call : facts.torch_calls) {
    if (++shown > 8) break;
    calls += fmt::format("{}{} (line {})", calls.empty() ? "" : ", ", call.name, call.line);
  }
  if (!calls.empty())
    candidate.notes.push_back(fmt::format("forward calls torch: {}{}", calls, facts.torch_calls.size() > 8 ? ", …" : ""));
}

}  // namespace

struct Extractor::Impl {
  ExtractOptions options;
  AstWorker worker;

  explicit Impl(ExtractOptions given)
      : options(std::move(given)),
        worker({options.python, options.runtime_dir + "/python/ast_facts.py",
                options.launcher.empty() ? sandbox::launcher_path(options.runtime_dir) : options.launcher,
                options.parse_timeout_s}) {}

  // Size and encoding of the code that was chosen.
  bool is_text(Candidate& candidate) const {
    if (candidate.code.size() > options.max_code_bytes) {
      reject(candidate, kExtract, fmt::format("the code in the {} has {} bytes or more; the limit is {}", candidate.source,
                                              candidate.code.size(), options.max_code_bytes));
      return false;
    }
    if (const int line = first_bad_line(candidate.code)) {
      reject(candidate, kExtract, fmt::format("the {} is not UTF-8 text (line {})", candidate.source, line), line);
      return false;
    }
    return true;
  }

  Status take_python(Candidate& candidate) {
    candidate.kind = Kind::kPython;
    MC_ASSIGN_OR_RETURN(candidate.facts, worker.read(candidate.code));
    const Facts& facts = candidate.facts;
    candidate.dialect = facts.dialect;
    if (facts.dialect == Dialect::kMusa)
      candidate.dialect_why = fmt::format("{} (line {})", facts.dialect_why.name, facts.dialect_why.line);
    if (!facts.parsed) {
      reject(candidate, kSyntax, "Python does not parse: " + facts.syntax_message, facts.syntax_line);
    } else if (!facts.model_new.usable) {
      reject(candidate, kInterface, facts.model_new.why, facts.model_new.line);
    } else {
      reject(candidate, "ok", "");
      note_facts(candidate);
    }
    return ok();
  }

  // `named_musa`: the file's suffix or the block's language says that it is MUSA, else its includes do.
  void take_cuda(Candidate& candidate, bool named_musa) const {
    candidate.kind = Kind::kBareCuda;
    const CudaFacts facts = scan_cuda(candidate.code);
    if (named_musa || !facts.musa_include.empty()) {
      candidate.dialect = Dialect::kMusa;
      candidate.dialect_why = named_musa ? "a MUSA file by its name" : fmt::format("#include <{}>", facts.musa_include);
    }
    const char* what = dialect_title(candidate.dialect);
    reject(candidate, "ok", "");
    if (facts.has_module) return;
    std::string function;
    if (std::find(facts.host_functions.begin(), facts.host_functions.end(), "forward") != facts.host_functions.end()) {
      function = "forward";
    } else if (facts.host_functions.size() == 1) {
      function = facts.host_functions[0];
    } else {
      reject(candidate, kInterface,
             facts.host_functions.empty()
                 ? fmt::format("a bare {} file must bind a function with PYBIND11_MODULE or define torch::Tensor forward(…)", what)
                 : fmt::format("a bare {} file with {} host functions must bind one with PYBIND11_MODULE or call it forward", what,
                               facts.host_functions.size()));
      return;
    }
    candidate.code += fmt::format("\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def(\"{0}\", &{0}, \"{0}\"); }}\n", function);
    candidate.notes.push_back(fmt::format("bound {} of a bare {} file", function, what));
  }

  Status take(Candidate& candidate, bool cuda, bool named_musa) {
    if (!is_text(candidate)) return ok();
    if (!cuda) return take_python(candidate);
    take_cuda(candidate, named_musa);
    return ok();
  }

  // The whole body as one file, when it is one. Returns false when it should be read as Markdown or prose.
  Result<bool> take_whole(std::string_view body, Candidate& candidate, bool fences, std::string_view name) {
    if (body.size() > options.max_code_bytes) {
      if (fences) return false;
      candidate.code = std::string(body.substr(0, options.max_code_bytes + 1));
      reject(candidate, kExtract, fmt::format("no fenced block in the answer, and as a whole its {} bytes are over the limit of {}",
                                              body.size(), options.max_code_bytes));
      return true;
    }
    candidate.code = unix_lines(body);
    candidate.source = "whole answer";
    const bool named_musa = name.ends_with(".mu") || name.ends_with(".muh");
    const bool named_cuda = name.ends_with(".cu") || named_musa || name.ends_with(".cuh") || name.ends_with(".cpp");
    if (first_bad_line(candidate.code)) {
      if (fences) return false;
      (void)is_text(candidate);
      return true;
    }
    if (named_cuda && !fences) {
      take_cuda(candidate, named_musa);
      return true;
    }
    MC_RETURN_IF_ERROR(take_python(candidate));
    const bool parsed = candidate.facts.parsed;
    if (parsed && (candidate.status == "ok" || !fences)) {
      // Prose of one word parses as Python too; what has no statement of a program is not code.
      if (candidate.status == "ok" || !candidate.facts.classes.empty() || !candidate.facts.imports.empty() ||
          claims_python(candidate.code))
        return true;
    }
    if (fences) return false;
    if (!parsed && claims_model(candidate.code)) return true;   // a Python file with a syntax error
    if (const CudaFacts cuda = scan_cuda(candidate.code); looks_like_cuda(cuda, candidate.code)) {
      candidate.facts = {};
      take_cuda(candidate, named_musa);
      return true;
    }
    return !parsed && claims_python(candidate.code);
  }

  static std::string describe(const Block& block, std::size_t index, std::size_t count) {
    return fmt::format("fenced block {} of {}{}{}", index + 1, count, block.language.empty() ? "" : " (" + block.language + ")",
                       block.closed ? "" : ", not closed");
  }

  Status take_block(const std::vector<Block>& blocks, Candidate& candidate) {
    int model = -1, cuda = -1, python = -1, bound_cuda = -1;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const Block& block = blocks[i];
      const int at = static_cast<int>(i);
      if (is_blank(block.code) || is_other_language(block.language)) continue;
      if (is_cuda_language(block.language) || (!is_python_language(block.language) && !claims_python(block.code))) {
        const CudaFacts facts = scan_cuda(block.code);
        if (facts.has_module || !facts.host_functions.empty()) bound_cuda = at;
        if (is_cuda_language(block.language) || looks_like_cuda(facts, block.code)) cuda = at;
        if (is_cuda_language(block.language)) continue;
      }
      if (claims_model(block.code)) model = at;
      if (is_python_language(block.language) || claims_python(block.code)) python = at;
    }
    const int chosen = model >= 0 ? model : bound_cuda >= 0 ? bound_cuda : python >= 0 ? python : cuda;
    if (chosen < 0) {
      reject(candidate, kExtract, fmt::format("none of the {} fenced blocks holds Python or CUDA code", blocks.size()));
      return ok();
    }
    const auto index = static_cast<std::size_t>(chosen);
    candidate.code = blocks[index].code;
    candidate.source = describe(blocks[index], index, blocks.size());
    const std::string& language = blocks[index].language;
    return take(candidate, model < 0 && (bound_cuda >= 0 || python < 0), language == "musa" || language == "mu");
  }

  Status read(std::string_view answer, std::string_view name, Candidate& candidate) {
    if (is_blank(answer)) {
      reject(candidate, kExtract, "the answer is empty");
      return ok();
    }
    if (is_binary(answer)) {
      reject(candidate, kExtract, "the answer is binary data, not text");
      return ok();
    }
    const AnswerText text = cut_answer(answer);
    if (text.thinking_cut) candidate.notes.emplace_back("a thinking block was left out");
    if (text.ends_in_thinking) {
      reject(candidate, kExtract, "the answer ends inside its thinking block");
      return ok();
    }
    if (is_blank(text.body)) {
      reject(candidate, kExtract, "nothing is left of the answer without its thinking and chat markers");
      return ok();
    }
    const std::vector<Block> blocks = fenced_blocks(text.body, options.max_code_bytes);
    // A file whose strings or comments hold markers is code as it is.
    const bool marked = text.thinking_cut || text.end_marker_cut;
    if (marked && answer.size() <= options.max_code_bytes) {
      Candidate whole;
      MC_ASSIGN_OR_RETURN(bool is_file, take_whole(answer, whole, true, name));
      if (is_file) {
        candidate = std::move(whole);
        return ok();
      }
    }
    MC_ASSIGN_OR_RETURN(bool is_file, take_whole(text.body, candidate, !blocks.empty(), name));
    if (is_file) return ok();
    std::vector<std::string> notes = std::move(candidate.notes);
    candidate = {};
    candidate.notes = std::move(notes);
    if (blocks.empty()) {
      reject(candidate, kExtract, "no code in the answer: no fenced block, and as a whole it is neither Python nor CUDA");
      return ok();
    }
    return take_block(blocks, candidate);
  }
};

Extractor::Extractor(ExtractOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Extractor::~Extractor() = default;

Result<Candidate> Extractor::extract(std::string_view answer, std::string_view name) {
  Candidate candidate;
  MC_RETURN_IF_ERROR(impl_->read(answer, name, candidate));
  base::Sha256 hash;
  if (candidate.status == kExtract) {
    candidate.code.clear();
    hash.field("answer");
    hash.field(answer);
  } else {
    // What a Python file speaks is in its text; of a bare file the name may say it.
    hash.field(candidate.kind == Kind::kPython ? "python" : dialect_name(candidate.dialect));
    hash.field(candidate.code);
  }
  candidate.hash = hash.hex();
  return candidate;
}

Result<Candidate> extract(std::string_view answer, const ExtractOptions& options) {
  return Extractor(options).extract(answer);
}

}  // namespace musacoder::candidate
