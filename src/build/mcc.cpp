#include "build/mcc.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/files.h"
#include "base/hash.h"
#include "base/paths.h"
#include "base/subprocess.h"
#include "build/flags.h"
#include "build/text.h"

namespace fs = std::filesystem;

namespace musacoder::build {
namespace {

constexpr const char* kVersion = "2";   // raise it when the generated headers change

// CUDA's headers that sources and the slim headers include, and the groups of names that each stands for.
struct Header {
  const char* cuda;
  const char* musa;
  std::set<std::string> groups;
};
const std::vector<Header>& headers() {
  static const std::vector<Header> all = {
      {"cuda_runtime_api.h", "musa_runtime_api.h", {"runtime", "driver", "types", "macros"}},
      {"cuda_runtime.h", "musa_runtime.h", {"runtime", "driver", "types", "macros"}},
      {"cuda.h", "musa.h", {"runtime", "driver", "types", "macros"}},
      {"cuda_fp16.h", "musa_fp16.h", {"types"}},
      {"cuda_bf16.h", "musa_bf16.h", {"types"}},
      {"cublas_v2.h", "mublas.h", {"cublas"}},
      {"cudnn.h", "mudnn.h", {"cudnn"}},
      {"cufft.h", "mufft.h", {"cufft"}},
      {"curand.h", "murand.h", {"curand"}},
      {"curand_kernel.h", "murand_kernel.h", {"curand"}},
      {"cusparse.h", "musparse.h", {"cusparse"}},
      {"cusolverDn.h", "musolverDn.h", {"cusolver"}},
  };
  return all;
}

// Element types: several libraries' headers have them, and they are listed for one of these.
constexpr const char* kTypes[] = {"__nv_bfloat16", "__nv_bfloat162", "__nv_bfloat16_raw", "__nv_bfloat162_raw", "__nv_fp8_e4m3", "__nv_fp8_e5m2"};

std::string guard_of(std::string name) {
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : '_';
  return "MUSACODER_MCC_" + name;
}

}  // namespace

MusaToolkit find_musa_toolkit() {
  MusaToolkit found;
  std::vector<std::string> homes;
  for (const char* name : {"MUSA_HOME", "MUSA_PATH"})
    if (const char* home = std::getenv(name); home && *home) homes.emplace_back(home);
  if (const std::string mcc = base::find_program("mcc"); mcc.ends_with("/bin/mcc")) homes.push_back(mcc.substr(0, mcc.size() - 8));
  homes.emplace_back("/usr/local/musa");
  for (const auto& home : homes) {
    if (!base::is_directory(home)) continue;
    if (found.home.empty()) found.home = home;
    if (found.mcc.empty() && base::is_executable(home + "/bin/mcc")) {
      found.home = home;
      found.mcc = home + "/bin/mcc";
    }
  }
  for (const char* folder : {"/lib", "/lib64"})
    if (found.runtime.empty() && base::exists(found.home + folder + "/libmusart.so")) found.runtime = found.home + folder + "/libmusart.so";
  return found;
}

Result<std::string> cuda_names_for_mcc(const port::RenameTable& table, const std::string& cache_dir) {
  base::Sha256 hash;
  for (const std::string& part : {std::string(kVersion), table.hash()}) hash.field(part);
  const std::string dir = fmt::format("{}/musa_names/{}", cache_dir, hash.hex().substr(0, 32));
  if (base::is_directory(dir)) return dir;
  MC_RETURN_IF_ERROR(base::make_dirs(cache_dir + "/musa_names"));
  auto temp = base::TempDir::create_in(cache_dir + "/musa_names", "new");
  if (!temp) return tl::unexpected<Error>(temp.error());
  const auto names = table.listed();
  for (const auto& header : headers()) {
    const std::string guard = guard_of(header.cuda);
    std::string text = fmt::format("// Made from the rename tables: CUDA's names over {}.\n#ifndef {}\n#define {}\n#include <{}>\n", header.musa, guard, guard, header.musa);
    // The compiler's own macros say what they say there.
    if (header.groups.contains("macros"))
      for (const char* name : {"CC__", "_ARCH__"}) text += fmt::format("#if defined(__MUSA{0}) && !defined(__CUDA{0})\n#define __CUDA{0} __MUSA{0}\n#endif\n", name);
    if (header.groups.contains("types"))
      for (const char* type : kTypes)
        if (const auto renamed = table.name(type, port::Dialect::kMusa)) text += fmt::format("#define {} {}\n", type, renamed->to);
    for (const auto& [cuda, entry] : names)
      if (header.groups.contains(entry.first) && !cuda.starts_with("__nv_") && entry.first != "macros" && cuda != entry.second && cuda.find_first_of("./") == std::string::npos)
        text += fmt::format("#define {} {}\n", cuda, entry.second);
    text += "#endif\n";
    MC_RETURN_IF_ERROR(base::write_file(temp->file(header.cuda), text));
  }
  fs::permissions(temp->path(), fs::perms(0755));
  std::error_code error;
  fs::rename(temp->path(), dir, error);
  if (!error) temp->release();
  if (!base::is_directory(dir)) return fail(Code::kUnavailable, "{} could not be made: {}", dir, error.message());
  return dir;
}

std::vector<std::string> filter_mcc_flags(const std::vector<std::string>& flags) {
  std::vector<std::string> words;
  for (const auto& flag : flags)
    for (std::size_t from = 0; from < flag.size();) {
      const std::size_t to = std::min(flag.find(' ', from), flag.size());
      if (to > from) words.push_back(flag.substr(from, to - from));
      from = to + 1;
    }
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool optimises = word.size() == 3 && word.starts_with("-O") && std::string_view("0123sg").find(word[2]) != std::string_view::npos;
    if (word == "-x" || word == "-o" || word == "-arch" || word == "-ccbin" || word == "-gencode" || word == "-Xclang" || word == "-mllvm") ++i;
    else if (optimises || word == "-mtgpu" || word == "-Od3" || word.starts_with("-fmusa-")) kept.push_back(word);
    else append(kept, filter_cxx_flags({word}));
  }
  return kept;
}

std::vector<std::string> mcc_command(const MusaToolkit& toolkit, const MccCommand& command) {
  std::vector<std::string> argv = {toolkit.mcc, "-x", "musa", "-c", command.source, "-o", command.object, "--offload-arch=" + command.architecture,
                                   "-fPIC", "-O2", "-fno-caret-diagnostics", "-fno-color-diagnostics"};
  append(argv, command.defines);
  append(argv, command.includes);
  const std::vector<std::string> own = filter_mcc_flags(command.own_flags);
  if (std::none_of(own.begin(), own.end(), [](const auto& flag) { return flag.starts_with("-std="); })) argv.emplace_back("-std=c++17");
  append(argv, own);
  return argv;
}

}  // namespace musacoder::build
