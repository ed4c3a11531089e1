#include "build/dialect.h"

#include <cctype>
#include <string_view>
#include <utility>

#include "build/flags.h"
#include "build/text.h"
#include "port/port.h"

namespace musacoder::build {
namespace {

using port::Dialect;
using port::Language;

// is_cuda() exists beside torch_musa and is false there.
constexpr std::string_view kIsCuda = "is_cuda", kAlwaysFalse = "is_xpu";

// CUDA's names in a MUSA text made unknown.
std::string without_cuda(const std::string& text, const std::vector<port::Rename>& names) {
  std::string out;
  std::size_t copied = 0, line = 1, line_start = 0;
  for (const port::Rename& name : names) {
    for (; line < name.line; ++line) {
      const std::size_t end = text.find('\n', line_start);
      if (end == std::string::npos) break;
      line_start = end + 1;
    }
    const std::size_t begin = line_start + name.column - 1;
    if (line != name.line || begin < copied || text.compare(begin, name.from.size(), name.from) != 0) continue;
    out.append(text, copied, begin - copied);
    out += name.from == kIsCuda ? std::string(kAlwaysFalse) : name.from + kForeign;
    copied = begin + name.from.size();
  }
  return out.append(text, copied);
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace

Result<std::string> source_in_cuda(const port::RenameTable& table, const std::string& musa) {
  const port::PortOptions options{.attention = false};
  MC_ASSIGN_OR_RETURN(port::Ported foreign, port_text(table, musa, Language::kCpp, Dialect::kMusa, options));
  MC_ASSIGN_OR_RETURN(port::Ported ported, port_text(table, foreign.renames.empty() ? musa : without_cuda(musa, foreign.renames), Language::kCpp,
                                                     Dialect::kCuda, options));
  return std::move(ported.text);
}

Result<CudaSources> sources_in_cuda(const port::RenameTable& table, const Extension& musa) {
  CudaSources out{.extension = musa};
  for (auto* list : {&out.extension.cpp_sources, &out.extension.cuda_sources})
    for (auto& source : *list) {
      MC_ASSIGN_OR_RETURN(source, source_in_cuda(table, source));
    }
  for (auto& [name, text] : out.extension.files) {
    MC_ASSIGN_OR_RETURN(text, source_in_cuda(table, text));
  }
  MccFlags flags = mcc_flags_for_nvcc(musa.extra_cuda_cflags);
  out.extension.extra_cuda_cflags = std::move(flags.nvcc);
  for (auto& reason : flags.remarks) out.remarks.push_back({.severity = Severity::kWarning, .file = "extra_musa_cflags", .message = std::move(reason), .kind = "other"});
  for (auto& flag : out.extension.extra_ldflags)
    if (auto renamed = table.python_string(flag, Dialect::kCuda)) flag = renamed->to;
  return out;
}

std::string in_musa(const port::RenameTable& table, const std::string& prose) {
  std::string out;
  std::vector<std::string> foreign;
  std::size_t copied = 0;
  const std::string_view mark = kForeign;
  const std::string musa = port::rename_words(table, prose, Dialect::kMusa);
  for (std::size_t at = 0; (at = musa.find(mark, at)) != std::string::npos; at += mark.size()) {
    out.append(musa, copied, at - copied);
    copied = at + mark.size();
    std::size_t begin = at;
    while (begin > 0 && (is_word(musa[begin - 1]) || musa[begin - 1] == '.' || musa[begin - 1] == '/')) --begin;
    std::string name = musa.substr(begin, at - begin);
    if (std::find(foreign.begin(), foreign.end(), name) == foreign.end()) foreign.push_back(std::move(name));
  }
  out.append(musa, copied);
  for (const auto& name : foreign) {
    auto renamed = table.name(name, Dialect::kMusa);
    if (!renamed) renamed = table.header(name, false, Dialect::kMusa);
    out += renamed ? fmt::format(" ({} is CUDA's; MUSA has {})", name, renamed->to) : fmt::format(" ({} is CUDA's)", name);
  }
  return out;
}

void put_in_musa(const port::RenameTable& table, BuildResult& result) {
  result.message = in_musa(table, result.message);
  result.headers_reason = in_musa(table, result.headers_reason);
  for (auto& d : result.diagnostics) d.message = in_musa(table, d.message);
  // The log quotes source lines too.
  result.log = port::rename_words(table, replaced(std::move(result.log), kForeign, ""), Dialect::kMusa);
}

}  // namespace musacoder::build
