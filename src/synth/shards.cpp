#include "synth/shards.h"

#include <zstd.h>

#include <memory>

#include "base/files.h"
#include "base/hash.h"

namespace musacoder::synth {
namespace {

constexpr int kLevel = 9;
constexpr std::uint64_t kMaxFile = 8ull << 30;

Status each_line(std::string& buffer, bool last, const std::function<Status(std::string_view)>& use) {
  std::size_t begin = 0;
  for (std::size_t end; (end = buffer.find('\n', begin)) != std::string::npos || (last && begin < buffer.size());) {
    if (end == std::string::npos) end = buffer.size();
    const std::string_view line(buffer.data() + begin, end - begin);
    begin = std::min(end + 1, buffer.size());
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    MC_RETURN_IF_ERROR(use(line));
  }
  buffer.erase(0, begin);
  return ok();
}

}  // namespace

ShardWriter::ShardWriter(std::string folder, std::string prefix, std::uint64_t shard_bytes)
    : folder_(std::move(folder)), prefix_(std::move(prefix)), shard_bytes_(shard_bytes) {}

Status ShardWriter::add(std::string_view line) {
  pending_.append(line);
  pending_ += '\n';
  ++rows_;
  return pending_.size() >= shard_bytes_ ? flush() : ok();
}

Status ShardWriter::flush() {
  if (rows_ == 0) return ok();
  std::string packed(ZSTD_compressBound(pending_.size()), '\0');
  const std::size_t size = ZSTD_compress(packed.data(), packed.size(), pending_.data(), pending_.size(), kLevel);
  if (ZSTD_isError(size)) return fail(Code::kInternal, "zstd: {}", ZSTD_getErrorName(size));
  packed.resize(size);
  Shard shard{.file = fmt::format("{}-{:05}.jsonl.zst", prefix_, done_.size()),
              .sha256 = base::sha256_hex(packed),
              .rows = rows_,
              .bytes = packed.size(),
              .raw_bytes = pending_.size()};
  MC_RETURN_IF_ERROR(base::write_file_atomic(folder_ + "/" + shard.file, packed));
  done_.push_back(std::move(shard));
  pending_.clear();
  rows_ = 0;
  return ok();
}

Result<std::vector<Shard>> ShardWriter::finish() {
  MC_RETURN_IF_ERROR(flush());
  return std::exchange(done_, {});
}

Status read_lines(const std::string& path, const std::function<Status(std::string_view)>& use) {
  MC_ASSIGN_OR_RETURN(std::string bytes, base::read_file(path, kMaxFile));
  if (!path.ends_with(".zst")) return each_line(bytes, true, use);
  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  std::string chunk(ZSTD_DStreamOutSize(), '\0'), lines;
  std::size_t left = 0;
  while (in.pos < in.size) {
    ZSTD_outBuffer out{chunk.data(), chunk.size(), 0};
    left = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(left)) return fail(Code::kInvalidArgument, "{} cannot be unpacked: {}", path, ZSTD_getErrorName(left));
    lines.append(chunk, 0, out.pos);
    MC_RETURN_IF_ERROR(each_line(lines, false, use));
  }
  // What the decoder still holds after the last input byte.
  while (left != 0) {
    ZSTD_outBuffer out{chunk.data(), chunk.size(), 0};
    left = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(left) || (left != 0 && out.pos == 0)) return fail(Code::kInvalidArgument, "{} is cut short", path);
    lines.append(chunk, 0, out.pos);
  }
  return each_line(lines, true, use);
}

}  // namespace musacoder::synth
