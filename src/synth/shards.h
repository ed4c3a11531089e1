// Sharded JSON lines, compressed with zstd: files of a bounded size that appear whole or not at all.
//
//   ShardWriter writer(folder, "rows", 64 << 20);
//   MC_RETURN_IF_ERROR(writer.add(line));                  // without its newline
//   MC_ASSIGN_OR_RETURN(std::vector<Shard> shards, writer.finish());
//   read_lines(folder + "/" + shards[0].file, [&](std::string_view line) { …; return ok(); });
//
// A shard is `<prefix>-00000.jsonl.zst`, written under another name and renamed. The same lines with the same zstd give the
// same bytes. Errors: kResourceExhausted (disk), kNotFound, kInvalidArgument (not zstd, cut short).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace musacoder::synth {

struct Shard {
  std::string file, sha256;       // name in its folder; hash of the compressed file
  std::uint64_t rows = 0, bytes = 0, raw_bytes = 0;
};

class ShardWriter {
 public:
  // A shard is closed when it holds `shard_bytes` uncompressed.
  ShardWriter(std::string folder, std::string prefix, std::uint64_t shard_bytes);
  Status add(std::string_view line);
  // Writes what is left; afterwards the writer is empty again.
  Result<std::vector<Shard>> finish();

 private:
  Status flush();
  std::string folder_, prefix_, pending_;
  std::uint64_t shard_bytes_, rows_ = 0;
  std::vector<Shard> done_;
};

// Every line of a .jsonl or .jsonl.zst file, in order; stops at the first error that `use` returns. Empty lines are left out.
Status read_lines(const std::string& path, const std::function<Status(std::string_view)>& use);

}  // namespace musacoder::synth
