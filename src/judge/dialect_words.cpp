#include "judge/dialect_words.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "port/port.h"

namespace musacoder::judge {
namespace {

constexpr std::pair<std::string_view, std::string_view> kWords[] = {
    {"CUDA", "MUSA"},
    {"nvcc", "mcc"},
    {"NVRTC", "MTRTC"},
    {"cuda_sources", "musa_sources"},
    {"extra_cuda_cflags", "extra_musa_cflags"},
    {"torch.cuda", "torch.musa"},
    {"torch.utils.cpp_extension", "torch_musa.utils.musa_extension"},
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::string replaced_words(std::string text) {
  for (const auto& [from, to] : kWords)
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += 1) {
      const std::size_t end = at + from.size();
      if ((at > 0 && is_word(text[at - 1])) || (end < text.size() && is_word(text[end]))) continue;
      text.replace(at, from.size(), to);
    }
  return text;
}

// Device errors come from torch and our own runtime as "CUDA error: …"; the rest of an exception's text is the candidate's.
std::string device_words(std::string text) {
  for (std::string_view from : {"CUDA error", "CUDA out of memory", "CUDA warning"})
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; ++at) text.replace(at, 4, "MUSA");
  return text;
}

// Names of C and C++ in a text that may quote the candidate's Python, which stays.
std::string names_in_musa(const port::RenameTable& table, const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end == at) {
      out += text[at++];
      continue;
    }
    const std::string word = text.substr(at, end - at);
    const auto renamed = table.name(word, port::Dialect::kMusa);
    out += renamed ? renamed->to : word;
    at = end;
  }
  return out;
}

}  // namespace

std::string worded(std::string_view sentence, std::string_view dialect) {
  return dialect == "musa" ? replaced_words(std::string(sentence)) : std::string(sentence);
}

void put_in_musa(const port::RenameTable& table, Verdict& verdict) {
  // What repeats a build's sentence is in the candidate's names already, and those of CUDA in it are meant.
  const auto quotes_build = [&](const std::string& text) {
    return std::any_of(verdict.builds.begin(), verdict.builds.end(),
                       [&](const auto& result) { return !result.message.empty() && text.find(result.message) != std::string::npos; });
  };
  const auto put = [&](std::string& text) {
    if (!text.empty() && !quotes_build(text)) text = device_words(names_in_musa(table, text));
  };
  const auto put_fault = [&](vgpu::Fault& fault) {
    put(fault.message);
    put(fault.detail);
  };
  put(verdict.cause);
  for (auto& level : verdict.levels) put(level.detail);
  for (auto& text : verdict.notes) put(text);
  for (auto& trial : verdict.trials) put(trial.message);
  put(verdict.exception_message);
  verdict.traceback = device_words(std::move(verdict.traceback));   // quotes the candidate's lines
  if (verdict.fault) put_fault(*verdict.fault);
  for (auto* ledger : {&verdict.ledger, &verdict.outside}) {
    for (auto& call : ledger->vendor_calls) {
      put(call.function);
      if (auto library = table.build_word(call.library, port::Dialect::kMusa)) call.library = library->to;
    }
    put(ledger->unread_launch_error);
    put(ledger->protocol_error);
    if (ledger->fault) put_fault(*ledger->fault);
  }
}

std::string warp_assumptions(const port::RenameTable& table, const candidate::Candidate& candidate) {
  constexpr std::size_t kMost = 8;
  std::map<int, std::string> found;   // line of the candidate's code → token
  const auto look = [&](const std::string& text, int first_line) {
    auto cuda = port_text(table, text, port::Language::kCpp, port::Dialect::kCuda, {.attention = false});
    if (!cuda) return;
    auto musa = port_text(table, cuda->text, port::Language::kCpp, port::Dialect::kMusa);
    if (!musa) return;
    for (const auto& item : musa->attention)
      if (item.kind == "warp_size") found.emplace(first_line > 0 ? first_line + static_cast<int>(item.line) - 1 : 0, item.what);
  };
  if (candidate.kind == candidate::Kind::kBareCuda) look(candidate.code, 1);
  for (const auto& literal : candidate.facts.literals) look(literal.text, literal.exact ? literal.line : 0);
  if (found.empty()) return "";
  std::string lines;
  std::size_t shown = 0;
  for (const auto& [line, what] : found) {
    if (++shown > kMost) break;
    lines += (lines.empty() ? "" : ", ") + (line ? fmt::format("{} (line {})", what, line) : what);
  }
  return fmt::format("assumes warps of 32 threads: {}{}; right on S5000, not on S80 and S4000, whose warps have 128", lines,
                     found.size() > kMost ? fmt::format(" and {} more", found.size() - kMost) : "");
}

}  // namespace musacoder::judge
