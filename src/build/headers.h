// Decides whether a failed build with the slim torch headers deserves one more try with torch's own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "build/build.h"

namespace musacoder::build {

// What the installed torch's headers offer: file names and identifiers. Made on first use (about a second) and kept in
// the cache folder per torch installation. Thread safe.
class TorchNames {
 public:
  TorchNames(std::string torch_dir, std::string cache_dir);
  ~TorchNames();
  bool has_header(const std::string& name);
  bool has_word(const std::string& word);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The first error that torch's own headers could cure, in words ("at::Tensor::foo", "header torch/x.h"); "" when there is
// none. An error that names nothing of torch is the candidate's own, whatever headers are used.
std::string lacking_in_slim(const std::vector<Diagnostic>& diagnostics, TorchNames& names);

// The folder of the installed torch for a Python, "" when absent: <site-packages>/torch.
std::string torch_dir_of(const std::string& python);

}  // namespace musacoder::build
