#include "build/sources.h"

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
  if (extension.from_files) {
    for (const auto& [name, text] : extension.files) {
      std::filesystem::path path(name);
      if (path.is_absolute() || std::any_of(path.begin(), path.end(), [](const auto& p) { return p == ".." || p.empty(); }))
        return fail(Code::kInvalidArgument, "source file '{}' is outside the extension's folder", name);
      std::string ext = path.extension();
      bool cuda = ext == ".cu" || ext == ".mu", cpp = ext == ".cpp" || ext == ".cc" || ext == ".cxx" || ext == ".c" || ext == ".C";
      if (cuda || cpp) result.units.push_back({name, cuda, fmt::format("#line 1 \"{}\"\n{}\n", escaped(name), text)});
      else result.headers.emplace_back(name, text);
    }
    if (result.units.empty()) return fail(Code::kInvalidArgument, "the extension has no .cpp or .cu source");
    return result;
  }

  std::vector<std::string> cpp_implicit, cuda_implicit;
  if (!extension.no_implicit_headers) {
    cpp_implicit = {"#include <torch/extension.h>"};
    cuda_implicit = {"#include <torch/types.h>", "#include <cuda.h>", "#include <cuda_runtime.h>"};
  }
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
  if (has_cuda) result.units.push_back({"cuda.cu", true, joined(cuda_implicit, extension.cuda_sources, "cuda_sources")});
  return result;
}

}  // namespace musacoder::build
