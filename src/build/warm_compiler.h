// CUDA sources compiled by front ends that have already read the headers.
//
// nvcc reads torch's and CUDA's headers twice for every source, once for the device and once for the host, and g++ reads
// the result a third time: nine tenths of the time for a candidate's kernel. Here the front ends are kept as fork servers
// (warm/preload.cpp) that stand behind the headers; a compile forks them and feeds the rest of the source.
//
//   WarmCompilers warm({.limit = 4, …});
//   auto done = warm.compile(job);
//   if (!done) …                              // not warm (yet), or a server went: run nvcc
//   else if (done->ok) …                      // object and PTX are there, from the same programs with the same flags
//   else show(done->log);                     // the source's own errors, in the words of the same programs
//
// What nvcc would run is asked of nvcc itself (--dryrun), so flags and versions mean what they mean there:
//
//   nvcc x.cu    cpp  -E ─ cudafe++ ──────────────────┐            here    -E with the headers' macros only
//                cpp  -E ─ cicc ─ ptx ─ fatbinary ─ g++ -c ─ x.o           cudafe++, cicc: forked
//                                                                          g++ with a precompiled header
//
// Thread safe. Servers start in the background at the second source with the same flags and headers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "sandbox/policy.h"

namespace musacoder::build {

struct WarmJob {
  std::string nvcc;                       // the compiler
  std::vector<std::string> flags;         // nvcc's, without source, object, -I of the source's folder and module name
  std::vector<std::string> name_flags;    // flags that differ from source to source and do not reach the headers: -DNAME=…
  std::string text;                       // the source as it stands in `source`
  std::string source_dir;                 // holds the source and the headers beside it
  std::string source;                     // path
  std::string object;                     // path to be made
  std::string out_dir;                    // for intermediate files; NAME.ptx is left there
};

struct WarmResult {
  bool ok = false;
  std::string log;                        // the compilers' errors and warnings
  std::vector<std::string> sandbox;       // features in force
};

class WarmCompilers {
 public:
  struct Options {
    std::string launcher;                 // musacoder-sandbox
    std::string preload;                  // libmusacoder_warm.so
    std::string cache_dir;                // precompiled prefixes, across processes
    std::string fingerprint;              // of compilers and headers
    sandbox::Policy policy;               // for one compiler; `readable` names toolkit and headers
    std::size_t limit = 4;                // pairs of servers kept, each of about 0.4 GB
    int after = 2;                        // sources of one kind before its servers start; 0: never
  };
  explicit WarmCompilers(Options options);
  ~WarmCompilers();
  WarmCompilers(const WarmCompilers&) = delete;
  WarmCompilers& operator=(const WarmCompilers&) = delete;

  std::optional<WarmResult> compile(const WarmJob& job);
  // Waits until the servers of a job's kind are there; false when there are none. For tests and benchmarks.
  bool wait_until_warm(const WarmJob& job, double seconds);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The headers that a CUDA source begins with and that the servers can have read, as source lines; "" for none.
std::string warm_prefix(const std::string& text);

}  // namespace musacoder::build
