#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <thread>

#include "base/clock.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "build/build.h"
#include "build/cache.h"
#include "build/diagnostics.h"
#include "build/dialect.h"
#include "build/flags.h"
#include "build/headers.h"
#include "build/mcc.h"
#include "build/sources.h"
#include "build/text.h"
#include "build/toolchain.h"
#include "build/warm_compiler.h"
#include "sandbox/launcher.h"

namespace fs = std::filesystem;

namespace musacoder::build {
namespace {

constexpr std::size_t kMaxLog = 64u << 10;
constexpr std::uint64_t kScratchBytes = 1ull << 30;
constexpr int kRecipeVersion = 2;   // part of every address: raise it when flags or generated sources change
constexpr const char* kVendorLibraries[] = {"cublas", "cublasLt", "cudnn", "cufft", "curand", "cusparse", "cusolver", "nvrtc", "cuda"};
constexpr const char* kMusaLibraries[] = {"mublas", "mublasLt", "mudnn", "mufft", "murand", "musparse", "musolver", "mtrtc", "musa"};

// Flags that torch itself gives to nvcc and that change what compiles.
const std::vector<std::string> kTorchNvccFlags = {"-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__",
                                                  "-D__CUDA_NO_BFLOAT16_CONVERSIONS__", "-D__CUDA_NO_HALF2_OPERATORS__",
                                                  "--expt-relaxed-constexpr"};

enum class Headers { kSlim, kFull };

struct Step {
  bool ok = false;
  bool warm = false;
  std::string log;
  std::string limit;                   // sandbox limit that ended it
  std::string infra;                   // the sandbox or compiler could not be run
  base::ExitInfo exit;
  std::vector<std::string> sandbox;
};

bool wants_full_disk_message(const std::string& log) { return log.find("No space left on device") != std::string::npos; }

bool is_identifier(const std::string& name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

}  // namespace

struct Builder::Impl {
  BuildOptions options;
  Cache cache;
  TorchNames torch_names;
  std::string torch_dir;
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::string> building;      // addresses that another thread of this process is building
  std::optional<Result<Toolchain>> toolchain;
  std::string slim_hash, full_hash;
  std::string mcc_names;               // folder of CUDA's names over MUSA's headers, for mcc
  std::once_flag header_once, warm_once;
  std::string header_dir;              // holds torch/extension.h.gch; "" when it could not be made
  std::unique_ptr<WarmCompilers> warm;

  static BuildOptions with_absolute_paths(BuildOptions o) {
    for (std::string* path : {&o.runtime_dir, &o.cache_dir, &o.python})
      // A bare program name is looked up in PATH.
      if (!path->empty() && (path != &o.python || path->find('/') != std::string::npos)) *path = fs::absolute(*path).lexically_normal().string();
    return o;
  }

  BuildResult build(const Extension& extension, const std::vector<Diagnostic>& remarks);

  explicit Impl(BuildOptions o)
      : options(with_absolute_paths(std::move(o))), cache(options.cache_dir, options.shared), torch_names(torch_dir_of(options.python), options.cache_dir),
        torch_dir(torch_dir_of(options.python)) {}

  std::string include(const char* name = "include") const { return options.runtime_dir + "/" + name; }
  bool hardware() const { return !options.gpu_arch.empty(); }
  bool mcc() const { return options.gpu_arch.starts_with("mp_"); }

  Result<std::shared_ptr<const port::RenameTable>> names() {
    std::lock_guard lock(mutex);
    if (!options.names) {
      MC_ASSIGN_OR_RETURN(port::RenameTable table, port::RenameTable::load(options.runtime_dir + "/musa/renames"));
      options.names = std::make_shared<const port::RenameTable>(std::move(table));
    }
    return options.names;
  }

  Result<Toolchain> tools() {
    std::lock_guard lock(mutex);
    if (!toolchain || !*toolchain) {
      toolchain = mcc() ? find_musa_toolchain() : find_toolchain(options.nvcc, options.python);
      if (mcc() && *toolchain) {
        auto dir = cuda_names_for_mcc(*options.names, options.cache_dir);
        if (dir) mcc_names = *dir;
        else toolchain = tl::unexpected<Error>(dir.error());
      }
      slim_hash = hash_tree(include());
      full_hash = hash_tree(include("include_full"));
    }
    return *toolchain;
  }

  std::string address(const Extension& e, const Units& units, const Toolchain& tools) {
    base::Sha256 hash;
    hash.field(std::to_string(kRecipeVersion));
    hash.field(options.gpu_arch);
    hash.field(tools.fingerprint);
    hash.field(slim_hash);
    hash.field(full_hash);
    hash.field(options.allow_full_headers ? torch_dir : "");
    // The runtime's own folder is not part of it: the libraries that an artefact needs from there are loaded before it, and
    // found by name.
    hash.field(e.name);
    // Sources are hashed as they are compiled; what diagnostics and the log say is in the dialect's names.
    hash.field(e.musa ? "musa " + options.names->hash() : "cuda");
    for (const auto& unit : units.units) hash.field(unit.file), hash.field(unit.cuda ? "cuda" : "cpp"), hash.field(unit.text);
    for (const auto& [name, text] : units.headers) hash.field(name), hash.field(text);
    for (const auto* list : {&e.extra_cflags, &e.extra_cuda_cflags, &e.extra_ldflags, &e.extra_include_paths}) {
      hash.field(std::to_string(list->size()));
      for (const auto& flag : *list) hash.field(flag);
    }
    return hash.hex();
  }

  sandbox::Policy policy(const Toolchain& tools, Headers headers, const std::string& source_dir) const {
    sandbox::Policy p;
    p.readable = tools.readable;
    append(p.readable, {source_dir, include(), options.runtime_dir + "/lib"});
    if (mcc()) p.readable.push_back(mcc_names);
    if (headers == Headers::kFull) append(p.readable, {include("include_full"), torch_dir});
    p.tmp_bytes = kScratchBytes;
    p.writable_bytes = kScratchBytes;
    p.file_bytes = kScratchBytes;
    p.memory_bytes = options.memory_bytes;
    p.processes = 200;
    p.wall_s = headers == Headers::kFull ? options.full_timeout_s : options.timeout_s;
    p.cpu_s = p.wall_s * 2;
    return p;
  }

  Step run(const sandbox::Policy& base_policy, std::vector<std::string> argv, const std::string& writable, const std::string& cwd,
           const std::vector<std::string>& readable = {}) const {
    sandbox::Policy p = base_policy;
    p.writable = {writable};
    append(p.readable, readable);
    base::SubprocessOptions o;
    o.argv = std::move(argv);
    o.cwd = cwd;
    o.env = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "TMPDIR=/tmp", "LANG=C", "LC_ALL=C"};
    o.merge_stderr = true;
    o.output_limit = 1u << 20;
    Step step;
    auto outcome = sandbox::run_sandboxed(sandbox::launcher_path(options.runtime_dir), p, o);
    if (!outcome) {
      step.infra = outcome.error().message;
      return step;
    }
    step.ok = outcome->process.exit.ok() && outcome->limit.empty();
    step.log = std::move(outcome->process.out);
    step.limit = outcome->limit;
    step.exit = outcome->process.exit;
    step.sandbox = std::move(outcome->features);
    return step;
  }

  // `quiet`: for g++, warnings inside our headers stay out of the candidate's log. nvcc looks into its own folder before
  // any system folder, and would find the real vendor libraries' headers there.
  std::vector<std::string> include_flags(const Extension& e, const Toolchain& tools, Headers headers, const std::string& source_dir, bool quiet) const {
    std::vector<std::string> flags;
    if (!source_dir.empty()) flags.push_back("-I" + source_dir);
    const std::string option = quiet ? "-isystem" : "-I";
    if (mcc()) append(flags, {option, mcc_names});
    append(flags, {option, headers == Headers::kFull ? include("include_full") : include(), option, include("include/vendor")});
    if (headers == Headers::kFull) append(flags, {"-isystem", torch_dir + "/include", "-isystem", torch_dir + "/include/torch/csrc/api/include"});
    for (const auto& dir : tools.include_dirs) append(flags, {"-isystem", dir});
    // nvcc knows this one; main.cpp may include CUDA's host headers (cuda_runtime.h, cuda_fp16.h) too.
    if (!tools.nvcc.empty()) append(flags, {"-isystem", (fs::path(tools.nvcc).parent_path().parent_path() / "include").string()});
    // torch's own headers must not get in beside the slim ones.
    for (const auto& dir : e.extra_include_paths)
      if (!dir.empty() && dir[0] == '/' && dir.find("torch") == std::string::npos && base::is_directory(dir)) append(flags, {"-I" + dir});
    return flags;
  }

  // Whether a lack is only a macro that the slim headers define too, in a header that the sources did not include: torch's
  // own headers, which include the same ones, would lack it as well.
  bool slim_defines_macro(const std::string& lacking) const {
    const auto begin = lacking.find('"'), end = lacking.find('"', begin + 1);
    if (!lacking.starts_with("identifier \"") || end == std::string::npos) return false;
    const std::string definition = "#define " + lacking.substr(begin + 1, end - begin - 1) + "(";
    std::error_code error;
    for (fs::directory_iterator it(include("include/musacoder"), error), last; !error && it != last; it.increment(error))
      if (base::read_file(it->path(), 1 << 20).value_or("").find(definition) != std::string::npos) return true;
    return false;
  }

  static std::string module_name(const Extension& e) { return is_identifier(e.name) ? e.name : "extension"; }

  static std::string name_macro(const Extension& e) { return "-DTORCH_EXTENSION_NAME=" + module_name(e); }
  std::vector<std::string> header_macros(Headers headers) const {
    std::vector<std::string> flags = {"-DTORCH_API_INCLUDE_EXTENSION_H"};
    if (hardware()) flags.push_back("-DMUSACODER_HARDWARE=1");
    if (headers == Headers::kFull) append(flags, {"-DMUSACODER_FULL_HEADERS=1", "-D_GLIBCXX_USE_CXX11_ABI=1"});
    return flags;
  }

  std::vector<std::string> gxx_base(const Toolchain& tools) const {
    return {tools.gxx, "-fPIC", "-O1", "-std=c++17", "-fno-diagnostics-show-caret", "-fdiagnostics-color=never", "-fmax-errors=50"};
  }

  // Parsing the slim header and the standard headers below it is nearly all of main.cpp's compile time, and always the
  // same: done once, kept in the cache folder. g++ ignores a precompiled header that does not fit and reads the text.
  const std::string& precompiled_header(const Toolchain& tools) {
    std::call_once(header_once, [&] {
      base::Sha256 hash;
      for (const auto& part : {options.gpu_arch, tools.fingerprint, slim_hash, include(), std::to_string(kRecipeVersion)}) hash.field(part);
      std::string dir = fmt::format("{}/pch/{}", options.cache_dir, hash.hex().substr(0, 32)), file = "/torch/extension.h.gch";
      if (base::exists(dir + file)) {
        header_dir = dir;
        return;
      }
      auto temp = base::TempDir::create_in(options.cache_dir + "/pch", "new");
      if (!temp || !base::make_dirs(temp->file("torch"))) return;
      // Found again when a source includes the header a second time; its guard is part of the precompiled state.
      std::string forward = fmt::format("#ifndef MUSACODER_PRECOMPILED\n#define MUSACODER_PRECOMPILED\n#include \"{}/torch/extension.h\"\n#endif\n", include());
      if (!base::write_file(temp->file("torch/extension.h"), forward)) return;
      std::vector<std::string> argv = gxx_base(tools);
      append(argv, {"-x", "c++-header", temp->file("torch/extension.h"), "-o", temp->path() + file, "-DTORCH_API_INCLUDE_EXTENSION_H"});
      append(argv, include_flags({}, tools, Headers::kSlim, "", true));
      Step step = run(policy(tools, Headers::kSlim, include()), argv, temp->path(), temp->path());
      if (!step.ok) {
        base::log_warning("no precompiled torch header: {}", step.infra.empty() ? step.log.substr(0, 500) : step.infra);
        return;
      }
      fs::permissions(temp->path(), fs::perms(0755));
      std::error_code error;
      fs::rename(temp->path(), dir, error);
      if (!error) temp->release();
      if (base::exists(dir + file)) header_dir = dir;
      remove_older(options.cache_dir + "/pch", dir);
    });
    return header_dir;
  }

  // `unit`'s text changes when the precompiled header serves it: the module's name may only be defined after it.
  std::vector<std::string> gxx_command(const Extension& e, const Toolchain& tools, Headers headers, const std::string& source_dir,
                                       const std::string& source, const std::string& object, const std::string& header) const {
    std::vector<std::string> argv = gxx_base(tools);
    append(argv, {"-c", source, "-o", object});
    if (header.empty()) {
      argv.push_back(name_macro(e));
      append(argv, header_macros(headers));
    }
    else {
      append(argv, header_macros(headers));
      append(argv, {"-I" + header});
    }
    append(argv, include_flags(e, tools, headers, source_dir, true));
    append(argv, filter_cxx_flags(e.extra_cflags));
    return argv;
  }

  // Without source, object, the source's folder and the module's name.
  std::vector<std::string> nvcc_flags(const Extension& e, const Toolchain& tools, Headers headers, const std::vector<std::string>& lean) const {
    NvccFlags own = filter_nvcc_flags(e.extra_cuda_cflags);
    std::string arch = (hardware() ? options.gpu_arch : "90") + (own.arch_specific ? "a" : "");
    std::vector<std::string> flags = {"-arch=compute_" + arch, (hardware() ? "-code=sm_" : "-code=compute_") + arch, "--compress-mode=none", "-lineinfo", "-cudart", "none", "-ccbin", tools.gxx,
                                      "-O1", "-Xcompiler", "-fPIC", "-Xcompiler", "-fmax-errors=50", "-Xcompiler", "-fdiagnostics-color=never"};
    append(flags, kTorchNvccFlags);
    append(flags, header_macros(headers));
    append(flags, lean);
    append(flags, include_flags(e, tools, headers, "", false));
    if (std::none_of(own.kept.begin(), own.kept.end(), [](const auto& f) { return f.starts_with("-std") || f.starts_with("--std"); }))
      flags.push_back("-std=c++17");
    append(flags, own.kept);
    return flags;
  }

  std::vector<std::string> nvcc_command(const Extension& e, const Toolchain& tools, Headers headers, const std::string& source_dir,
                                        const std::string& source, const std::string& object, const std::string& keep_dir,
                                        const std::vector<std::string>& lean) const {
    std::vector<std::string> argv = {tools.nvcc, "-c", source, "-o", object, "--keep", "--keep-dir", keep_dir, "-I" + source_dir, name_macro(e)};
    append(argv, nvcc_flags(e, tools, headers, lean));
    return argv;
  }

  WarmCompilers& warm_compilers(const Toolchain& tools) {
    std::call_once(warm_once, [&] {
      WarmCompilers::Options o;
      o.launcher = sandbox::launcher_path(options.runtime_dir);
      o.preload = options.runtime_dir + "/lib/libmusacoder_warm.so";
      o.cache_dir = options.cache_dir;
      for (const auto& part : {tools.fingerprint, slim_hash, include(), std::to_string(kRecipeVersion)}) o.fingerprint += part + "\n";
      o.policy = policy(tools, Headers::kSlim, include());
      o.after = base::exists(o.preload) ? options.warm_after : 0;
      warm = std::make_unique<WarmCompilers>(std::move(o));
    });
    return *warm;
  }

  BuildResult attempt(const Extension& e, const Units& units, const Toolchain& tools, Headers headers, const std::string& key,
                      base::TempDir& scratch, std::string& module) {
    BuildResult result;
    result.hash = key;
    result.headers = headers == Headers::kSlim ? "slim" : "full";
    auto infra = [&](const std::string& message) {
      result.ok = false;
      result.status = "infra:build";
      result.message = message;
      return result;
    };
    std::string source_dir = scratch.file(result.headers + "-src");
    if (auto made = base::make_dirs(source_dir); !made) return infra(made.error().message);
    for (const auto& [name, text] : units.headers) {
      (void)base::make_dirs(fs::path(source_dir + "/" + name).parent_path());
      if (auto w = base::write_file(source_dir + "/" + name, text); !w) return infra(w.error().message);
    }
    sandbox::Policy base_policy = policy(tools, headers, source_dir);
    const std::string implicit = "#include <torch/extension.h>\n";
    bool precompile = headers == Headers::kSlim && !mcc() && filter_cxx_flags(e.extra_cflags).empty() && e.extra_include_paths.empty() &&
                      std::any_of(units.units.begin(), units.units.end(), [&](const Unit& u) { return !u.cuda && u.text.starts_with(implicit); });
    std::string header = precompile ? precompiled_header(tools) : "";
    if (!header.empty()) base_policy.readable.push_back(header);

    std::size_t count = units.units.size();
    std::vector<std::string> objects(count), out_dirs(count);
    std::vector<Step> steps(count);
    for (std::size_t i = 0; i < count; ++i) {
      std::string path = source_dir + "/" + units.units[i].file;
      out_dirs[i] = scratch.file(fmt::format("{}-out{}", result.headers, i));
      objects[i] = out_dirs[i] + "/unit.o";
      (void)base::make_dirs(fs::path(path).parent_path());
      if (auto made = base::make_dirs(out_dirs[i]); !made) return infra(made.error().message);
      std::string text = units.units[i].text;
      if (!header.empty() && !units.units[i].cuda)
        text.insert(text.starts_with(implicit) ? implicit.size() : 0, fmt::format("#define TORCH_EXTENSION_NAME {}\n", module_name(e)));
      if (auto w = base::write_file(path, text); !w) return infra(w.error().message);
    }
    const std::vector<std::string> lean = headers == Headers::kSlim ? lean_macros(units) : std::vector<std::string>{};
    auto compile = [&](std::size_t i) {
      std::string path = source_dir + "/" + units.units[i].file;
      if (!units.units[i].cuda) {
        steps[i] = run(base_policy, gxx_command(e, tools, headers, source_dir, path, objects[i], header), out_dirs[i], out_dirs[i]);
        return;
      }
      if (mcc()) {
        MccCommand command{.architecture = options.gpu_arch, .source = path, .object = objects[i], .own_flags = e.extra_cuda_cflags};
        command.includes = include_flags(e, tools, headers, source_dir, true);
        command.defines = header_macros(headers);
        command.defines.push_back(name_macro(e));
        steps[i] = run(base_policy, mcc_command(find_musa_toolkit(), command), out_dirs[i], out_dirs[i]);
        return;
      }
      // Lean headers first; a failure counts only with whole ones.
      std::vector<std::vector<std::string>> variants = {lean};
      if (!lean.empty()) variants.push_back({});
      bool warm_may_serve = headers == Headers::kSlim;
      for (const auto& variant : variants) {
        std::optional<WarmResult> done;
        if (warm_may_serve) {
          done = warm_compilers(tools).compile({tools.nvcc, nvcc_flags(e, tools, headers, variant), {name_macro(e)}, units.units[i].text, source_dir, path,
                                                objects[i], out_dirs[i]});
          warm_may_serve = done.has_value();
        }
        if (done) {
          steps[i] = {.ok = done->ok, .warm = done->ok, .log = std::move(done->log), .limit = "", .infra = "", .exit = {.code = done->ok ? 0 : 1}, .sandbox = std::move(done->sandbox)};
        } else {
          steps[i] = run(base_policy, nvcc_command(e, tools, headers, source_dir, path, objects[i], out_dirs[i], variant), out_dirs[i], out_dirs[i]);
        }
        if (steps[i].ok || !steps[i].infra.empty() || !steps[i].limit.empty()) break;
      }
    };
    // Two at a time: an extension has two units in nearly every case, and several builds may run beside each other.
    std::mutex next_mutex;
    std::size_t next = 0;
    auto worker = [&] {
      for (;;) {
        std::size_t i;
        {
          std::lock_guard lock(next_mutex);
          if (next >= count) return;
          i = next++;
        }
        compile(i);
      }
    };
    {
      std::jthread second;
      if (count > 1) second = std::jthread(worker);
      worker();
    }

    auto finish = [&](const std::vector<const Step*>& list) {
      for (const Step* step : list) {
        result.log += step->log;
        if (result.sandbox.empty()) result.sandbox = step->sandbox;
      }
      result.log = replaced(std::move(result.log), source_dir + "/", "");
      result.log = replaced(std::move(result.log), include() + "/", "");
      result.log = replaced(std::move(result.log), scratch.path() + "/", "");
      result.diagnostics = parse_diagnostics(result.log);
      if (result.log.size() > kMaxLog) result.log = result.log.substr(0, kMaxLog) + "\n… (cut)\n";
      for (const Step* step : list) {
        if (step->ok) continue;
        result.ok = false;
        if (!step->infra.empty()) return infra(step->infra);
        if (step->limit == "wall" || step->limit == "cpu") {
          result.status = "compile_error:timeout";
          result.message = fmt::format("the compiler was stopped after {:.0f} s", base_policy.wall_s);
          return result;
        }
        if (step->limit == "memory" || step->limit == "writable" || step->limit == "file" || step->limit == "processes") {
          result.status = "compile_error:timeout";
          result.message = fmt::format("the compiler exceeded its limit on {} ({} MiB)", step->limit,
                                       (step->limit == "memory" ? options.memory_bytes : kScratchBytes) >> 20);
          return result;
        }
        if (wants_full_disk_message(step->log)) return infra("the disk is full: " + scratch.path());
        result.status = classify(result.diagnostics);
        if (result.status.empty()) {
          if (step->exit.signal) return infra(fmt::format("the compiler ended with {}", step->exit.describe()));
          result.status = "compile_error:nvcc";
          result.message = fmt::format("the compiler failed with {}", step->exit.describe());
          return result;
        }
        std::size_t errors = 0;
        const Diagnostic* first = nullptr;
        for (const auto& d : result.diagnostics)
          if (d.severity == Severity::kError && ++errors == 1) first = &d;
        result.message = first->file.empty() ? first->message : fmt::format("{}:{}: {}", first->file, first->line, first->message);
        if (errors > 1) result.message += fmt::format(" (and {} more errors)", errors - 1);
        return result;
      }
      result.ok = true;
      result.status = "ok";
      return result;
    };
    result.warm = std::any_of(steps.begin(), steps.end(), [](const Step& s) { return s.warm; });
    std::vector<const Step*> done;
    for (const auto& step : steps) done.push_back(&step);
    if (std::any_of(steps.begin(), steps.end(), [](const Step& s) { return !s.ok; })) return finish(done);

    // Link, and beside it let ptxas look at PTX that nobody has assembled yet: it alone knows about too much shared memory or
    // bad inline assembly.
    std::string lib = options.runtime_dir + "/lib";
    const std::string torch_library = mcc() ? "musacoder_torch_musa" : hardware() ? "musacoder_torch_cuda" : "musacoder_torch";
    std::vector<std::string> client_libraries = {torch_library};
    if (!hardware()) client_libraries.emplace_back("musacoder_cudart");
    for (const auto& name : client_libraries)
      if (!base::exists(fmt::format("{}/lib{}.so", lib, name)))
        return infra(fmt::format("{}/lib{}.so is missing; build the project again", lib, name));
    Step link, assemble;
    assemble.ok = true;
    std::string link_dir = scratch.file(result.headers + "-link"), ptx_dir = scratch.file(result.headers + "-ptx");
    for (const auto& dir : {link_dir, ptx_dir})
      if (auto made = base::make_dirs(dir); !made) return infra(made.error().message);
    module = link_dir + "/module.so";
    std::vector<std::string> link_argv = {tools.gxx, "-shared", "-o", module};
    append(link_argv, objects);
    if (!tools.mold.empty()) link_argv.push_back("-fuse-ld=mold");
    append(link_argv, {"-L" + lib, "-l" + torch_library, "-Wl,-rpath," + lib, "-Wl,--no-undefined", "-Wl,--no-as-needed"});
    if (hardware()) {
      // Found by name at load time: torch has loaded them before.
      if (tools.cudart.empty()) return infra(mcc() ? "no libmusart.so was found beside mcc" : "no libcudart.so was found beside nvcc or torch");
      link_argv.push_back(tools.cudart);
      link_argv.push_back("-Wl,--as-needed");
      for (const char* name : mcc() ? std::span<const char* const>(kMusaLibraries) : std::span<const char* const>(kVendorLibraries))
        if (auto path = find_library(tools, name); !path.empty()) link_argv.push_back(path);
      link_argv.push_back("-Wl,--no-as-needed");
    } else {
      link_argv.push_back("-lmusacoder_cudart");
    }
    if (headers == Headers::kFull)
      append(link_argv, {"-L" + torch_dir + "/lib", "-ltorch", "-ltorch_cpu", "-lc10", "-Wl,-rpath," + torch_dir + "/lib", "-Wl,--allow-shlib-undefined"});
    for (const auto& flag : filter_cxx_flags(e.extra_cflags))
      if (flag == "-fopenmp" || flag == "-pthread") link_argv.push_back(flag);
    std::vector<std::string> ptx;
    for (const auto& dir : hardware() ? std::vector<std::string>{} : out_dirs) {
      std::error_code error;
      for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error))
        if (it->path().extension() == ".ptx") ptx.push_back(it->path());
    }
    {
      std::jthread beside;
      if (!tools.ptxas.empty() && !ptx.empty())
        beside = std::jthread([&] {
          std::string arch = filter_nvcc_flags(e.extra_cuda_cflags).arch_specific ? "sm_90a" : "sm_90";
          for (const auto& file : ptx) {
            Step one = run(base_policy, {tools.ptxas, "-arch=" + arch, "-O1", file, "-o", ptx_dir + "/x.cubin"}, ptx_dir, ptx_dir, out_dirs);
            std::string log = assemble.log + one.log;
            if (assemble.ok) assemble = std::move(one);
            assemble.log = std::move(log);
          }
        });
      link = run(base_policy, link_argv, link_dir, link_dir, out_dirs);
    }
    done.push_back(&assemble);
    done.push_back(&link);
    finish(done);
    if (!result.ok && result.status == "compile_error:link" && !hardware()) explain_link(e, result);
    return result;
  }

  // A library that the virtual GPU has no stand-in for is not the candidate's mistake.
  static void explain_link(const Extension& e, BuildResult& result) {
    auto libraries = linked_libraries(e.extra_ldflags);
    for (const auto& d : result.diagnostics) {
      if (d.kind != "link") continue;
      auto names = [&](std::initializer_list<const char*> prefixes) {
        return std::any_of(prefixes.begin(), prefixes.end(), [&](const char* p) { return d.message.find(p) != std::string::npos; });
      };
      bool driver = std::find(libraries.begin(), libraries.end(), "cuda") != libraries.end() && names({"`cu", " cu", "'cu"});
      if (driver || names({"cublas", "cudnn", "cusolver", "cusparse", "cufft", "curand", "nccl"})) {
        result.status = driver ? "unsupported:driver_api" : "unsupported:vendor_symbol";
        result.message = "the virtual GPU has no stand-in for " + d.message;
        return;
      }
    }
  }

  BuildResult build_new(const Extension& e, const Units& units, const Toolchain& tools, const std::string& key,
                        const std::vector<Diagnostic>& remarks) {
    base::Stopwatch watch;
    auto scratch = base::TempDir::create("musacoder-build", 64u << 20);
    BuildResult result;
    if (!scratch) {
      result.hash = key;
      result.status = "infra:build";
      result.message = scratch.error().message;
      return result;
    }
    std::string module;
    result = attempt(e, units, tools, Headers::kSlim, key, *scratch, module);
    bool compile_failure = !result.ok && result.status.starts_with("compile_error:") && result.status != "compile_error:timeout";
    std::string lacking = compile_failure ? lacking_in_slim(result.diagnostics, torch_names) : "";
    if (slim_defines_macro(lacking)) lacking.clear();
    if (!lacking.empty()) {
      bool affordable = options.allow_full_headers && !mcc() && !torch_dir.empty() && base::is_directory(include("include_full"));
      if (affordable) {
        base::log_info("build {}: full torch headers, because the slim ones lack {}", key.substr(0, 12), lacking);
        BuildResult full = attempt(e, units, tools, Headers::kFull, key, *scratch, module);
        full.headers_reason = lacking;
        // Running out of time with the full headers says nothing about the candidate.
        if (full.status == "compile_error:timeout") {
          full.status = "unsupported:headers";
          full.message = fmt::format("the slim headers lack {}, and the full ones took too long", lacking);
        }
        result = std::move(full);
      } else {
        result.status = "unsupported:headers";
        result.message = fmt::format("the slim torch headers lack {}, and the full ones are {}", lacking,
                                     options.allow_full_headers ? "not installed" : "switched off");
        result.headers_reason = lacking;
      }
    }
    result.diagnostics.insert(result.diagnostics.begin(), remarks.begin(), remarks.end());
    if (e.musa) put_in_musa(*options.names, result);
    result.seconds = watch.seconds();
    bool keep = result.ok || (result.status.starts_with("compile_error:") && result.status != "compile_error:timeout");
    if (keep) {
      if (auto stored = cache.store(key, result, module); !stored) {
        result.ok = false;
        result.status = "infra:build";
        result.message = stored.error().message;
      }
    }
    return result;
  }
};

Builder::Builder(BuildOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Builder::~Builder() = default;

BuildResult Builder::build(const Extension& extension) {
  BuildResult result;
  if (!extension.musa && impl_->mcc()) {
    result.status = "compile_error:nvcc";
    result.message = "CUDA sources are not built for a Moore Threads GPU; build MUSA sources with torch_musa.utils.musa_extension";
    return result;
  }
  if (!extension.musa) return impl_->build(extension, {});
  auto names = impl_->names();
  if (!names) {
    result.status = "infra:build";
    result.message = names.error().message;
    return result;
  }
  auto cuda = sources_in_cuda(**names, extension);
  if (!cuda) {
    result.status = "compile_error:nvcc";
    result.message = cuda.error().message;
    return result;
  }
  if (!impl_->mcc()) return impl_->build(cuda->extension, cuda->remarks);
  cuda->extension.extra_cuda_cflags = extension.extra_cuda_cflags;   // mcc's own
  return impl_->build(cuda->extension, {});
}

// `remarks` come first among the diagnostics.
BuildResult Builder::Impl::build(const Extension& extension, const std::vector<Diagnostic>& remarks) {
  base::Stopwatch watch;
  BuildResult result;
  auto tools = this->tools();
  if (!tools) {
    result.status = "infra:build";
    result.message = tools.error().message;
    return result;
  }
  auto units = make_units(extension);
  if (!units) {
    result.status = "compile_error:nvcc";
    result.message = units.error().message;
    return result;
  }
  std::string key = address(extension, *units, *tools);
  {
    // The same sources in two threads are built once.
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !building.count(key); });
    building.insert(key);
  }
  struct Release {
    Impl& impl;
    const std::string& key;
    ~Release() {
      std::lock_guard lock(impl.mutex);
      impl.building.erase(key);
      impl.changed.notify_all();
    }
  } release{*this, key};
  if (auto hit = cache.load(key)) {
    hit->seconds = watch.seconds();
    return *hit;
  }
  return build_new(extension, *units, *tools, key, remarks);
}

}  // namespace musacoder::build
