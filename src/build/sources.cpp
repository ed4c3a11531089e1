#include "build/sources.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>
#include <string_view>

#include <algorithm>
#include <filesystem>

namespace musacoder::build {
namespace {

bool is_blank(const std::string& text) { return text.find_first_not_of(" \t\r\n") == std::string::npos; }

// A C string literal's content.
std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') out += "\\n";
    else if (static_cast<unsigned char>(c) >= 32) out += c;
  }
  return out;
}

std::string joined(const std::vector<std::string>& implicit, const std::vector<std::string>& sources, const char* label) {
  std::string text;
  for (const auto& line : implicit) text.append(line).push_back('\n');
  for (std::size_t i = 0; i < sources.size(); ++i) text += fmt::format("#line 1 \"{}[{}]\"\n{}\n", label, i, sources[i]);
  return text;
}

}  // namespace

Result<Units> make_units(const Extension& extension) {
  Units result;
  const std::string musa_names = "#include <musacoder/musa_names.h>";
  if (extension.from_files) {
    for (const auto& [name, text] : extension.files) {
      std::filesystem::path path(name);
      if (path.is_absolute() || std::any_of(path.begin(), path.end(), [](const auto& p) { return p == ".." || p.empty(); }))
        return fail(Code::kInvalidArgument, "source file '{}' is outside the extension's folder", name);
      std::string ext = path.extension();
      bool cuda = ext == ".cu" || ext == ".mu", cpp = ext == ".cpp" || ext == ".cc" || ext == ".cxx" || ext == ".c" || ext == ".C";
      // nvcc goes by the suffix; #line keeps the candidate's name.
      const std::string file = ext == ".mu" ? name + ".cu" : name;
      if (cuda || cpp) result.units.push_back({file, cuda, fmt::format("{}#line 1 \"{}\"\n{}\n", extension.musa ? musa_names + "\n" : "", escaped(name), text)});
      else result.headers.emplace_back(name, text);
      // Renamed sources include it by CUDA's suffix.
      if (ext == ".muh") result.headers.emplace_back(name.substr(0, name.size() - 4) + ".cuh", text);
    }
    if (result.units.empty()) return fail(Code::kInvalidArgument, "the extension has no .cpp or {} source", extension.musa ? ".mu" : ".cu");
    return result;
  }

  std::vector<std::string> cpp_implicit, cuda_implicit;
  if (!extension.no_implicit_headers) {
    cpp_implicit = {"#include <torch/extension.h>"};
    cuda_implicit = {"#include <torch/types.h>", "#include <cuda.h>", "#include <cuda_runtime.h>"};
  }
  if (extension.musa)
    for (auto* implicit : {&cpp_implicit, &cuda_implicit}) implicit->push_back(musa_names);
  bool has_cpp = std::any_of(extension.cpp_sources.begin(), extension.cpp_sources.end(), [](const auto& s) { return !is_blank(s); });
  bool has_cuda = extension.with_cuda && !extension.cuda_sources.empty();
  if (!has_cpp && !has_cuda) return fail(Code::kInvalidArgument, "the extension has no source");
  // torch compiles an empty main.cpp too; it can neither fail nor define anything.
  if (has_cpp || extension.functions) {
    std::string text = joined(cpp_implicit, extension.cpp_sources, "cpp_sources");
    if (extension.functions) {
      text += "#line 1 \"functions\"\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n";
      for (const auto& [name, doc] : *extension.functions)
        text += fmt::format("m.def(\"{}\", &{}, \"{}\");\n", escaped(name), name, escaped(doc));
      text += "}\n";
    }
    result.units.push_back({"main.cpp", false, text});
  }
  if (has_cuda) result.units.push_back({"cuda.cu", true, joined(cuda_implicit, extension.cuda_sources, extension.musa ? "musa_sources" : "cuda_sources")});
  return result;
}

std::vector<std::string> lean_macros(const Units& units) {
  // Names of std:: that std.h brings along in its lean form.
  static const std::set<std::string, std::less<>> kLean = {
      "string",   "vector",    "optional", "nullopt", "tuple",     "make_tuple", "get",     "pair",          "make_pair", "array",
      "move",     "forward",   "swap",     "min",     "max",       "int8_t",     "int16_t", "int32_t",       "int64_t",   "uint8_t",
      "uint16_t", "uint32_t",  "uint64_t", "size_t",  "ptrdiff_t", "to_string",  "tie",     "numeric_limits", "isnan",    "isinf",
      "exp",      "log",       "sqrt",     "pow",     "floor",     "ceil",       "fabs",    "abs",           "tanh",      "round",
      "runtime_error", "invalid_argument", "exception", "logic_error", "string_view", "initializer_list", "memcpy", "memset", "printf"};
  bool lean_std = true, lean_half = true;
  auto look = [&](std::string_view text) {
    for (std::size_t at = text.find("std"); at != std::string_view::npos; at = text.find("std", at + 3)) {
      std::size_t i = at + 3;
      auto skip = [&] { while (i < text.size() && std::isspace(static_cast<unsigned char>(text[i]))) ++i; };
      skip();
      if (text.substr(i, 2) != "::") {
        // "using namespace std;" is the other way to its names.
        if (at >= 10 && text.substr(0, at).find_last_not_of(" \t\n") != std::string_view::npos &&
            text.substr(0, text.substr(0, at).find_last_not_of(" \t\n") + 1).ends_with("namespace"))
          lean_std = false;
        continue;
      }
      i += 2;
      skip();
      std::size_t end = i;
      while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
      if (!kLean.contains(text.substr(i, end - i))) lean_std = false;
    }
    std::string lower(text);
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    for (const char* word : {"half", "bf16", "fp16", "bfloat16"})
      if (lower.find(word) != std::string::npos) lean_half = false;
  };
  for (const auto& unit : units.units) look(unit.text);
  for (const auto& [name, text] : units.headers) look(text);
  std::vector<std::string> macros;
  if (lean_std) macros.push_back("-DMUSACODER_LEAN_STD");
  if (lean_half) macros.push_back("-DMUSACODER_LEAN_HALF");
  return macros;
}

}  // namespace musacoder::build
