// Frames between musacoder-vgpud and its two peers: the judge (control) and the candidate's process (client).
//
// A request is   FrameHeader | head (fields, see Writer) | payload (bulk bytes)
// and has exactly one reply of the same form, in order. Integers are little-endian. `status` is 0 in requests; in replies
// it is a cudaError_t on the client socket and a musacoder::Code + 1 on the control socket, and the head of a failed reply
// is its text.
//
//   Writer head;
//   head.u64(bytes);
//   send_frame(fd, Op::kMalloc, 0, head.bytes(), {});
//   FrameHeader reply; std::string fields;
//   receive_header(fd, &reply) && receive_head(fd, reply, &fields);
//   Reader in(fields);
//   std::uint64_t address = in.u64();   // 0 and !in.done() when the head was too short
//
// The client is hostile: the server believes no length, address or count. A frame that no correct client sends (wrong
// magic, version, unknown op, head over kMaxHeadBytes, fields missing or left over) ends the client's connection and
// nothing else.
//
// Only the standard library is used here, so that the client library depends on nothing else.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace musacoder::vgpu::protocol {

inline constexpr std::uint32_t kMagic = 0x5056434Du;  // "MCVP"
inline constexpr std::uint16_t kVersion = 1;
inline constexpr std::uint32_t kMaxHeadBytes = 1u << 20;
inline constexpr std::uint64_t kMaxModuleBytes = 64ull << 20;
inline constexpr std::size_t kMaxTextBytes = 256;       // labels and reports; longer ones are cut
inline constexpr std::size_t kMaxNameBytes = 64 << 10;  // mangled kernel names
inline constexpr int kMaxDims = 16;

// Device memory lies in this window of addresses, where no process image, library, stack or heap of a client is.
inline constexpr std::uint64_t kDeviceBegin = 0x2000'0000'0000ull;
inline constexpr std::uint64_t kDeviceEnd = 0x5000'0000'0000ull;

enum class Op : std::uint16_t {
  // Client. Fields of the request → fields of the reply; T = text (u32 length, bytes), [..] = payload.
  kHello = 1,          // → T name, 10 × i32 and 6 × u64 in the order of mcv_device_properties
  kMalloc = 2,         // u64 bytes → u64 address
  kFree = 3,           // u64 address
  kWrite = 4,          // u64 to, u8 creation [bytes]
  kRead = 5,           // u64 from, u64 bytes → [bytes]
  kCopy = 6,           // u64 to, u64 from, u64 bytes
  kSet = 7,            // u64 to, u32 pattern, u8 width (1, 2, 4), u64 count
  kCopyStrided = 8,    // tensor to, tensor from; a tensor is u64 address, i32 dtype, i32 n, n × i64 sizes, n × i64 strides
  kFillStrided = 9,    // tensor to, i32 scalar kind, i64 integer, f64 real, f64 imaginary
  kLoadModule = 10,    // T label [fat binary] → u32 module
  kUnloadModule = 11,  // u32 module
  kKernel = 12,        // u32 module, T name → u32 kernel, u32 static shared bytes, u32 local bytes, u32 max threads,
                       //   u32 n, n × {u32 offset, u32 bytes} parameters
  kKernelShared = 13,  // u32 kernel, u64 dynamic shared bytes that launches may ask for
  kLaunch = 14,        // u32 kernel, 6 × u32 grid and block, u64 dynamic shared, u8 cooperative, T params → u8 printf waiting
  kSymbol = 15,        // u32 module, T name → u64 address, u64 bytes
  kLabel = 16,         // u64 address, T label
  kReport = 17,        // T kind, T text → u8 a window is open
  kErrorRead = 18,     // the process has asked for the last launch error
  kSynchronize = 19,   // → u8 printf waiting
  kMemoryInfo = 20,    // → u64 free, u64 total
  kPrintf = 21,        // → [text]
  kFind = 22,          // u64 address → u64 start, u64 bytes of the allocation around it (0, 0: none)
  // Control.
  kCtlAllocate = 100,    // u64 bytes, T label → u64 address
  kCtlFree = 101,        // u64 address
  kCtlWrite = 102,       // u64 to [bytes]
  kCtlRead = 103,        // u64 from, u64 bytes → [bytes]
  kCtlFind = 104,        // u64 address → u64 address, u64 bytes, T label, u64 kernel-written bytes
  kCtlBeginWindow = 105, // i32 trial, u8 reverse blocks, u8 poison → [report of what came before, as 108]
  kCtlEndWindow = 106,   // → [report, see records.h]
  kCtlLastFault = 107,   // → u8 present, fault
  kCtlOutside = 108,     // → [report of what happened since the last window or report; empty while a window is open]
};

// The cudaError_t values that the server uses.
enum class Cuda : std::uint32_t {
  kSuccess = 0,
  kInvalidValue = 1,
  kMemoryAllocation = 2,
  kInitialization = 3,
  kInvalidConfiguration = 9,
  kInvalidSymbol = 13,
  kInvalidDevicePointer = 17,
  kInvalidMemcpyDirection = 21,
  kInvalidDeviceFunction = 98,
  kInvalidKernelImage = 200,
  kNoKernelImageForDevice = 209,
  kInvalidPtx = 218,
  kInvalidResourceHandle = 400,
  kSymbolNotFound = 500,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kAssert = 710,
  kMisalignedAddress = 716,
  kLaunchFailure = 719,
  kCooperativeLaunchTooLarge = 720,
  kNotSupported = 801,
  kUnknown = 999,
};

struct FrameHeader {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint16_t op = 0;
  std::uint32_t status = 0;
  std::uint32_t head_bytes = 0;
  std::uint64_t payload_bytes = 0;
};
static_assert(sizeof(FrameHeader) == 24);

// Appends fields to a head.
class Writer {
 public:
  void u8(std::uint8_t v) { raw(&v, 1); }
  void u32(std::uint32_t v) { raw(&v, 4); }
  void i32(std::int32_t v) { raw(&v, 4); }
  void u64(std::uint64_t v) { raw(&v, 8); }
  void i64(std::int64_t v) { raw(&v, 8); }
  void f64(double v) { raw(&v, 8); }
  void text(std::string_view s) {
    u32(static_cast<std::uint32_t>(s.size()));
    raw(s.data(), s.size());
  }
  const std::string& bytes() const { return bytes_; }
  void clear() { bytes_.clear(); }

 private:
  void raw(const void* p, std::size_t n) { bytes_.append(static_cast<const char*>(p), n); }
  std::string bytes_;
};

// Takes fields from a head. Past the end every field is zero or empty and ok() turns false for good.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  std::uint8_t u8() { return take<std::uint8_t>(); }
  std::uint32_t u32() { return take<std::uint32_t>(); }
  std::int32_t i32() { return take<std::int32_t>(); }
  std::uint64_t u64() { return take<std::uint64_t>(); }
  std::int64_t i64() { return take<std::int64_t>(); }
  double f64() { return take<double>(); }
  std::string text(std::size_t limit = kMaxHeadBytes) {
    std::uint32_t n = u32();
    if (n > rest_.size() || n > limit) {
      fail();
      return {};
    }
    std::string s(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return s;
  }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }  // everything was there and nothing is left over
  std::size_t left() const { return rest_.size(); }

 private:
  template <typename T>
  T take() {
    T v{};
    if (rest_.size() < sizeof(T)) {
      fail();
      return v;
    }
    std::memcpy(&v, rest_.data(), sizeof(T));
    rest_.remove_prefix(sizeof(T));
    return v;
  }
  void fail() {
    ok_ = false;
    rest_ = {};
  }
  std::string_view rest_;
  bool ok_ = true;
};

// False when the peer is gone.
inline bool send_all(int fd, const void* data, std::size_t n) {
  const char* p = static_cast<const char*>(data);
  while (n > 0) {
    ssize_t sent = ::send(fd, p, n, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    p += sent;
    n -= static_cast<std::size_t>(sent);
  }
  return true;
}

inline bool receive_all(int fd, void* data, std::size_t n) {
  char* p = static_cast<char*>(data);
  while (n > 0) {
    ssize_t got = ::recv(fd, p, n, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    p += got;
    n -= static_cast<std::size_t>(got);
  }
  return true;
}

// Sends the header and head in one piece, with the payload behind it when that is short.
inline bool send_frame(int fd, std::uint16_t op, std::uint32_t status, std::string_view head, const void* payload,
                       std::uint64_t payload_bytes) {
  FrameHeader header;
  header.op = op;
  header.status = status;
  header.head_bytes = static_cast<std::uint32_t>(head.size());
  header.payload_bytes = payload_bytes;
  std::string buffer(reinterpret_cast<const char*>(&header), sizeof header);
  buffer.append(head);
  const bool together = payload_bytes > 0 && payload_bytes <= 16384;
  if (together) buffer.append(static_cast<const char*>(payload), payload_bytes);
  if (!send_all(fd, buffer.data(), buffer.size())) return false;
  return together || payload_bytes == 0 || send_all(fd, payload, payload_bytes);
}

inline bool receive_header(int fd, FrameHeader* header) {
  return receive_all(fd, header, sizeof *header) && header->magic == kMagic && header->version == kVersion &&
         header->head_bytes <= kMaxHeadBytes;
}

inline bool receive_head(int fd, const FrameHeader& header, std::string* head) {
  head->resize(header.head_bytes);
  return receive_all(fd, head->data(), head->size());
}

}  // namespace musacoder::vgpu::protocol
