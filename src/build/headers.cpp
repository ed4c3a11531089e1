#include "build/headers.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <mutex>
#include <string_view>
#include <unordered_set>

#include "base/files.h"
#include "base/hash.h"
#include "base/paths.h"

namespace fs = std::filesystem;

namespace musacoder::build {
namespace {

const char* const kIncludeRoots[] = {"/include", "/include/torch/csrc/api/include"};

bool is_word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

template <typename F>
void each_word(std::string_view text, F&& f) {
  for (std::size_t i = 0; i < text.size();) {
    if (!is_word_char(text[i])) {
      ++i;
      continue;
    }
    std::size_t start = i;
    while (i < text.size() && is_word_char(text[i])) ++i;
    if (!std::isdigit(static_cast<unsigned char>(text[start])) && i - start >= 2 && i - start <= 80) f(text.substr(start, i - start));
  }
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// What compilers put between quotes: "x", 'x', ‘x’ (as UTF-8).
std::vector<std::string> quoted_parts(std::string_view message) {
  std::vector<std::string> list;
  const std::pair<std::string_view, std::string_view> kMarks[] = {{"\"", "\""}, {"'", "'"}, {"\u2018", "\u2019"}};
  for (auto [open, close] : kMarks) {
    std::size_t from = 0;
    for (;;) {
      std::size_t a = message.find(open, from);
      if (a == std::string_view::npos) break;
      std::size_t b = message.find(close, a + open.size());
      if (b == std::string_view::npos) break;
      list.emplace_back(message.substr(a + open.size(), b - a - open.size()));
      from = b + close.size();
    }
  }
  return list;
}

std::string missing_header_name(std::string_view message) {
  if (auto names = quoted_parts(message); !names.empty()) return names[0];
  std::size_t colon = message.find(": No such file");
  return colon == std::string_view::npos ? "" : std::string(message.substr(0, colon));
}

bool names_torch(std::string_view message) {
  for (std::string_view part : {"torch", "at::", "c10", "Tensor", "pybind11", "py::", "\"at\"", "'at'"})
    if (has(message, part)) return true;
  for (const auto& name : quoted_parts(message))
    for (std::string_view prefix : {"TORCH_", "AT_", "C10_", "PYBIND11_"})
      if (name.starts_with(prefix)) return true;
  return false;
}

// What does not convert into these behind the slim headers does not behind torch's own: the slim classes have all of
// their constructors and conversions.
bool converts_alike(const std::string& target) {
  static const std::vector<std::string_view> kClasses = {"at::Tensor", "c10::ArrayRef", "c10::IntArrayRef", "at::IntArrayRef", "std::"};
  static const std::unordered_set<std::string_view> kBuiltIn = {"const", "unsigned", "signed", "bool", "char", "short", "int", "long", "float", "double", "void",
                                                               "size_t", "int32_t", "int64_t", "uint8_t", "uint32_t", "uint64_t"};
  for (std::string_view name : kClasses)
    if (target.starts_with(name) && (name.ends_with(':') || target.size() == name.size() || !is_word_char(target[name.size()]))) return true;
  bool built_in = true;
  each_word(target, [&](std::string_view word) { built_in = built_in && kBuiltIn.count(word) > 0; });
  return built_in;
}

// A conversion, a constructor's arguments, or a function with no one signature, and none of it is a matter of headers.
bool is_mismatch(const std::string& message, const std::vector<std::string>& parts) {
  if (has(message, "<unresolved overloaded function type>") || has(message, "(*)(...)") || message.starts_with("return-statement")) return true;
  for (std::string_view begin : {"no suitable conversion function from", "no suitable user-defined conversion from", "no suitable constructor exists to convert",
                                 "no instance of constructor"})
    if (message.starts_with(begin)) return !parts.empty() && converts_alike(parts.back());
  return false;
}

}  // namespace

struct TorchNames::Impl {
  std::string torch, cache;
  std::once_flag once;
  std::string text;  // the words, one a line; the set points into it
  std::unordered_set<std::string_view> words;

  void load() {
    std::string version = base::read_file(torch + "/version.py", 1 << 16).value_or("");
    std::string file = fmt::format("{}/torch-words-{}.txt", cache, base::sha256_hex(torch + version).substr(0, 16));
    auto stored = base::read_file(file);
    if (stored && stored->ends_with("\n#end\n")) {
      text = std::move(*stored);
    } else {
      std::unordered_set<std::string> found;
      std::error_code error;
      for (fs::recursive_directory_iterator it(torch + "/include", error), end; !error && it != end; it.increment(error)) {
        std::string ext = it->path().extension();
        if (ext != ".h" && ext != ".hpp" && ext != ".cuh" && ext != ".inl") continue;
        auto source = base::read_file(it->path(), 64u << 20);
        if (source) each_word(*source, [&](std::string_view word) { found.emplace(word); });
      }
      for (const auto& word : found) text += word + "\n";
      text += "#end\n";
      if (!found.empty() && base::make_dirs(cache)) (void)base::write_file_atomic(file, text);
    }
    for (std::size_t from = 0; from < text.size();) {
      std::size_t to = text.find('\n', from);
      if (to == std::string::npos) break;
      words.insert(std::string_view(text).substr(from, to - from));
      from = to + 1;
    }
  }
};

TorchNames::TorchNames(std::string torch_dir, std::string cache_dir) : impl_(std::make_unique<Impl>()) {
  impl_->torch = std::move(torch_dir);
  impl_->cache = std::move(cache_dir);
}
TorchNames::~TorchNames() = default;

bool TorchNames::has_header(const std::string& name) {
  if (impl_->torch.empty() || name.empty() || name[0] == '/' || has(name, "..")) return false;
  return std::any_of(std::begin(kIncludeRoots), std::end(kIncludeRoots),
                     [&](const char* root) { return base::exists(impl_->torch + root + "/" + name); });
}

bool TorchNames::has_word(const std::string& word) {
  if (impl_->torch.empty()) return false;
  std::call_once(impl_->once, [&] { impl_->load(); });
  return impl_->words.count(word) > 0;
}

std::string lacking_in_slim(const std::vector<Diagnostic>& diagnostics, TorchNames& names) {
  for (const auto& d : diagnostics) {
    if (d.severity != Severity::kError) continue;
    if (d.kind == "missing_header") {
      std::string header = missing_header_name(d.message);
      if (names.has_header(header)) return "header " + header;
      continue;
    }
    // A missing definition cannot be declared by other headers either.
    if (d.kind == "syntax" || d.kind == "ptxas" || d.kind == "link" || !names_torch(d.message)) continue;
    std::vector<std::string> parts = quoted_parts(d.message);
    if (is_mismatch(d.message, parts)) continue;
    // The last name is the one that is missing: class "at::Tensor" has no member "foo".
    for (auto it = parts.rbegin(); it != parts.rend(); ++it) {
      std::string last;
      each_word(*it, [&](std::string_view word) { last = std::string(word); });
      if (!last.empty() && names.has_word(last)) return d.message.substr(0, 200);
      if (d.kind == "no_member" || d.kind == "undefined_identifier") break;
    }
  }
  return "";
}

std::string torch_dir_of(const std::string& python) {
  std::string site = base::site_packages(python);
  return !site.empty() && base::is_directory(site + "/torch/include") ? site + "/torch" : "";
}

}  // namespace musacoder::build
