// Candidate sources, CUDA or MUSA → a shared object for the virtual GPU or for a real one.
//
//   Builder builder({.runtime_dir = rt, .cache_dir = cache, .python = venv_python});
//   BuildResult result = builder.build(extension);
//   if (!result.ok) show(result.status, result.diagnostics);   // "compile_error:nvcc"
//
// Every compiler runs in the sandbox with a deadline. The artefact is addressed by the hash of sources, flags, headers
// and compiler; concurrent writers and kill -9 leave either a whole artefact or none. Thread safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace musacoder::port {
class RenameTable;
}

namespace musacoder::build {

class ArtifactStore;

// What torch.utils.cpp_extension.load_inline / load was asked for (docs/protocols.md §3).
struct Extension {
  std::string name;
  std::vector<std::string> cpp_sources, cuda_sources;
  std::optional<std::vector<std::pair<std::string, std::string>>> functions;  // name, doc; nullopt: the sources bind themselves
  std::vector<std::string> extra_cflags, extra_cuda_cflags, extra_ldflags, extra_include_paths;
  bool with_cuda = true;
  bool musa = false;    // MUSA dialect: cuda_sources hold what was given as musa_sources, extra_cuda_cflags are mcc's
  bool no_implicit_headers = false;
  bool from_files = false;                                  // load(): `files` hold name → text, compiled as they are
  std::map<std::string, std::string> files;
};
Result<Extension> extension_from_json(const std::string& json);

enum class Severity { kError, kWarning, kNote };
struct Diagnostic {
  Severity severity = Severity::kError;
  std::string file;      // "cuda_sources[0]", "musa_sources[0]", "kernel.mu": names the candidate knows
  int line = 0;          // 1-based in that source as the candidate wrote it; 0 unknown
  std::string message;
  int candidate_line = 0;  // of the candidate's own file, where the judge can map it; 0 unknown
  std::string kind;      // syntax, undefined_identifier, no_member, type_mismatch, missing_header, link, ptxas, other
};

struct BuildOptions {
  std::string runtime_dir;      // holds include/, lib/
  std::string cache_dir;
  std::string python;           // finds torch's own headers for the full-header fall-back
  std::string nvcc;             // empty: search (find_nvcc)
  std::shared_ptr<const port::RenameTable> names;  // for extensions in the MUSA dialect; null: RenameTable::installed() at the first
  std::string gpu_arch;         // "90": machine code for that NVIDIA architecture, linked to the real CUDA runtime; "mp_31": by mcc for that one of Moore Threads; "": PTX for the virtual GPU
  double timeout_s = 120;       // one compiler run
  double full_timeout_s = 400;  // one compiler run with full headers
  bool allow_full_headers = true;
  std::uint64_t memory_bytes = 8ull << 30;
  std::shared_ptr<ArtifactStore> shared;  // of several machines (artifact_store.h); null: none
  int warm_after = 2;           // CUDA sources of one kind before warm compilers start (warm_compiler.h); 0: never
};

struct BuildResult {
  bool ok = false;
  std::string status = "ok";    // ok, compile_error:{syntax,nvcc,link,missing_header,timeout}, unsupported:headers, infra:build
  std::string message;          // one sentence
  std::vector<Diagnostic> diagnostics;
  std::string log;              // compiler output, at most 64 KiB, paths made relative
  std::string artifact;         // path of the .so
  std::string hash;
  std::string headers;          // "slim" or "full"
  std::string headers_reason;   // what the slim header lacked, when full
  bool cached = false;
  bool warm = false;            // compiled by front ends that had read the headers before
  double seconds = 0;
  std::vector<std::string> sandbox;  // features in force
};

class Builder {
 public:
  explicit Builder(BuildOptions options);
  ~Builder();
  BuildResult build(const Extension& extension);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The source text that a diagnostic's file name stands for ("cuda_sources[0]", "main.cpp", a file of load()), or null.
const std::string* source_of(const Extension& extension, const std::string& file);

// The CUDA compiler: $MUSACODER_NVCC, $CUDA_HOME/bin, PATH, /usr/local/cuda, the python environment's nvidia wheels.
Result<std::string> find_nvcc(const std::string& python);

}  // namespace musacoder::build
