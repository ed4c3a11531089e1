#include "build/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace musacoder::build {
namespace {

bool starts(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view p) { return text.substr(0, p.size()) == p; });
}

bool is_plain(std::string_view text) {
  return !text.empty() && std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 32 || c == 127; });
}

bool keep_cxx(std::string_view flag) {
  if (!is_plain(flag)) return false;
  if (starts(flag, {"-D", "-U"})) return flag.size() > 2;
  if (flag == "-pthread" || flag == "-w" || flag == "-ansi" || starts(flag, {"-std=", "-pedantic"})) return true;
  if (starts(flag, {"-Wl,", "-Wa,", "-Wp,", "-Werror"})) return false;
  if (starts(flag, {"-W"})) return true;
  if (starts(flag, {"-fplugin", "-fuse-ld", "-fsanitize", "-fprofile", "-flto", "-fdump", "-fno-exceptions", "-fno-rtti",
                    "-fcompare-debug", "-fcoverage", "-fsave", "-fopt-info", "-fmodule", "-fvisibility", "-fpch", "-ftest"}))
    return false;
  if (starts(flag, {"-f"})) return true;
  if (starts(flag, {"-mavx", "-msse", "-mfma", "-march=", "-mtune=", "-mf16c", "-mbmi"})) return true;
  return false;
}

// nvcc accepts one or two dashes.
std::string_view bare(std::string_view flag) {
  while (!flag.empty() && flag.front() == '-') flag.remove_prefix(1);
  return flag;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from <= text.size();) {
    std::size_t to = std::min(text.find(separator, from), text.size());
    if (to > from) parts.emplace_back(text.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

}  // namespace

std::vector<std::string> filter_cxx_flags(const std::vector<std::string>& flags) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if ((flags[i] == "-D" || flags[i] == "-U") && i + 1 < flags.size()) {
      if (is_plain(flags[i + 1])) kept.push_back(flags[i] + flags[i + 1]);
      ++i;
    } else if (keep_cxx(flags[i])) {
      kept.push_back(flags[i]);
    }
  }
  return kept;
}

NvccFlags filter_nvcc_flags(const std::vector<std::string>& flags) {
  // Options with their argument in the next word, when no '=' is in the flag itself.
  static const std::initializer_list<std::string_view> kWithArgument = {
      "gencode", "generate-code", "arch", "gpu-architecture", "code", "gpu-code", "ccbin", "compiler-bindir", "Xptxas",
      "ptxas-options", "Xlinker", "linker-options", "Xnvlink", "Xfatbin", "Xarchive", "o", "output-file", "x", "include",
      "pre-include", "isystem", "system-include", "I", "L", "l", "t", "threads", "odir", "keep-dir", "dopt", "rdc",
      "relocatable-device-code", "default-stream", "split-compile", "optf", "options-file", "O", "optimize", "m", "machine"};
  static const std::initializer_list<std::string_view> kKeptWithArgument = {
      "Xcompiler", "compiler-options", "Xcudafe", "cudafe-options", "diag-suppress", "diag-warn", "maxrregcount",
      "D", "define-macro", "U", "undefine-macro", "std", "ftz", "prec-div", "prec-sqrt", "fmad"};
  static const std::initializer_list<std::string_view> kKept = {
      "use_fast_math", "expt-relaxed-constexpr", "expt-extended-lambda", "extended-lambda", "extra-device-vectorization",
      "restrict", "w", "disable-warnings", "Wno-deprecated-gpu-targets", "no-exceptions"};
  auto in = [](std::string_view name, std::initializer_list<std::string_view> list) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  NvccFlags result;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    std::string_view flag = flags[i];
    // One string may hold a flag and its value, as a command line would: "-Xcompiler -O3".
    std::vector<std::string> words = split(flag, ' ');
    if (words.size() > 1) {
      auto inner = filter_nvcc_flags(words);
      result.kept.insert(result.kept.end(), inner.kept.begin(), inner.kept.end());
      result.arch_specific |= inner.arch_specific;
      continue;
    }
    if (!is_plain(flag) || flag.front() != '-') continue;
    std::string_view name = bare(flag), value;
    bool inline_value = false;
    if (std::size_t at = name.find('='); at != std::string_view::npos && !starts(name, {"D", "U"})) {
      value = name.substr(at + 1);
      name = name.substr(0, at);
      inline_value = true;
    } else if ((starts(name, {"D", "U"})) && name.size() > 1 && flag.substr(0, 2) != "--") {
      result.kept.emplace_back(flag);
      continue;
    }
    if (in(name, kWithArgument)) {
      if (!inline_value && i + 1 < flags.size()) value = flags[++i];
      if (in(name, {"gencode", "generate-code", "arch", "gpu-architecture", "code", "gpu-code"}) &&
          value.find("90a") != std::string_view::npos)
        result.arch_specific = true;
      continue;
    }
    if (in(name, kKeptWithArgument)) {
      if (!inline_value) {
        if (i + 1 >= flags.size()) continue;
        value = flags[++i];
      }
      if (in(name, {"Xcompiler", "compiler-options"})) {
        for (const auto& inner : filter_cxx_flags(split(value, ','))) {
          result.kept.emplace_back("-Xcompiler");
          result.kept.push_back(inner);
        }
      } else if (is_plain(value)) {
        bool one_letter = name == "D" || name == "U";
        std::string long_name(name == "Xcudafe" ? "cudafe-options" : name);
        result.kept.push_back(one_letter ? fmt::format("-{}{}", name, value) : fmt::format("--{}={}", long_name, value));
      }
      continue;
    }
    if (in(name, kKept)) result.kept.emplace_back(flag);
  }
  return result;
}

MccFlags mcc_flags_for_nvcc(const std::vector<std::string>& flags) {
  MccFlags result;
  std::vector<std::string> words;
  for (const auto& flag : flags)
    for (auto& word : split(flag, ' ')) words.push_back(std::move(word));
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& flag = words[i];
    const bool next = i + 1 < words.size();
    if (flag == "-x" || flag == "-o" || flag == "-MF" || flag == "-MT" || flag == "-Xclang" || flag == "-mllvm") {
      ++i;   // with its argument
    } else if (starts(flag, {"--offload-arch", "--cuda-gpu-arch", "--musa-path", "--musa-device-only", "-mtgpu", "-Od", "-fmusa-", "-march=", "-mtune="})) {
      continue;
    } else if (flag == "-ffast-math" || flag == "-Ofast") {
      result.nvcc.emplace_back("-use_fast_math");
    } else if (std::string_view name = bare(flag);
               starts(name, {"arch=", "gpu-architecture", "gencode", "generate-code", "code="}) || name == "arch" || name == "code") {
      const bool argument = flag.find('=') == std::string::npos && next;
      result.remarks.push_back(fmt::format("{}{}: mcc names an architecture with --offload-arch=mp_31 (S5000), mp_22 (S4000) or mp_21 (S80)", flag,
                                            argument ? " " + words[i + 1] : ""));
      i += argument;
    } else if (name == "ccbin" || starts(name, {"ccbin=", "compiler-bindir"})) {
      const bool argument = flag.find('=') == std::string::npos && next;
      result.remarks.push_back(fmt::format("{}: mcc is its own host compiler and has no -ccbin", flag));
      i += argument;
    } else {
      if (starts(name, {"use_fast_math", "Xptxas", "ptxas-options", "Xcompiler", "expt-", "extended-lambda", "lineinfo", "generate-line-info", "maxrregcount"}))
        result.remarks.push_back(fmt::format("{}: nvcc's flag; mcc is based on clang and may refuse it", flag));
      result.nvcc.push_back(flag);
    }
  }
  return result;
}

std::vector<std::string> linked_libraries(const std::vector<std::string>& flags) {
  std::vector<std::string> names;
  for (const auto& text : flags)
    for (const auto& flag : split(text, ' '))
      if (flag.size() > 2 && flag.starts_with("-l")) names.push_back(flag.substr(2));
  return names;
}

}  // namespace musacoder::build
