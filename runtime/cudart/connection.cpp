#include "connection.h"

#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "per_thread.h"

namespace musacoder::cudart {
namespace {

using vgpu::protocol::FrameHeader;

// One mutex object that is made anew in a forked child.
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
int socket_fd = -1;
bool env_tried = false;
std::uint64_t epoch = 1;

struct CachedProperties {
  std::optional<Properties> value;
  std::uint64_t epoch = 0;
};
// Never destroyed: asked for until the process ends.
CachedProperties& cached() {
  static auto& c = *new CachedProperties;
  return c;
}

struct Lock {
  Lock() { pthread_mutex_lock(&mutex); }
  ~Lock() { pthread_mutex_unlock(&mutex); }
};

thread_local cudaError_t last_error = cudaSuccess;
thread_local bool last_error_was_read = false;

struct LastText {
  std::string text;
};
std::string& text_slot() { return per_thread<LastText>().text; }

void before_fork() { pthread_mutex_lock(&mutex); }
void after_fork_parent() { pthread_mutex_unlock(&mutex); }
void after_fork_child() {
  pthread_mutex_init(&mutex, nullptr);
  if (socket_fd >= 0) env_tried = true;  // the parent's descriptor is not ours to use
  socket_fd = -1;
  ++epoch;
}

void install_fork_handlers() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(before_fork, after_fork_parent, after_fork_child); });
}

int fd_from_environment() {
  const char* value = std::getenv("MUSACODER_VGPU_FD");
  if (!value || !*value) return -1;
  char* end = nullptr;
  const long fd = std::strtol(value, &end, 10);
  return *end == '\0' && fd >= 0 && fd < 1 << 20 ? static_cast<int>(fd) : -1;
}

// With the lock held.
bool ready() {
  if (socket_fd < 0 && !env_tried) {
    install_fork_handlers();
    env_tried = true;
    socket_fd = fd_from_environment();
  }
  return socket_fd >= 0;
}

cudaError_t lost() {
  socket_fd = -1;
  text_slot() = "the connection to the virtual GPU is lost";
  return cudaErrorUnknown;
}

}  // namespace

int connect_to(int fd) {
  if (fd < 0) return explain(cudaErrorInvalidValue, "not a descriptor");
  install_fork_handlers();
  {
    Lock lock;
    env_tried = true;
    socket_fd = fd;
    ++epoch;
  }
  Properties p;
  return fetch_properties(&p);
}

bool connected() {
  Lock lock;
  return ready();
}

std::uint64_t generation() {
  Lock lock;
  return epoch;
}

cudaError_t call(Op op, const Writer& fields, const Transfer& t) {
  Lock lock;
  if (!ready()) {
    text_slot() = "this process is not connected to a virtual GPU";
    return cudaErrorInitializationError;
  }
  if (fields.bytes().size() > vgpu::protocol::kMaxHeadBytes) {
    text_slot() = "a request of more than 1 MiB of fields";
    return cudaErrorInvalidValue;
  }
  if (!vgpu::protocol::send_frame(socket_fd, static_cast<std::uint16_t>(op), 0, fields.bytes(), t.payload, t.payload_bytes))
    return lost();
  FrameHeader reply;
  std::string own_head;
  std::string& head = t.head ? *t.head : own_head;
  if (!vgpu::protocol::receive_header(socket_fd, &reply) || !vgpu::protocol::receive_head(socket_fd, reply, &head)) return lost();
  if (reply.status != 0) {
    Reader in(head);
    text_slot() = in.text();
    return reply.payload_bytes == 0 ? static_cast<cudaError_t>(reply.status) : lost();
  }
  if (t.text) {
    t.text->resize(reply.payload_bytes);
    return vgpu::protocol::receive_all(socket_fd, t.text->data(), t.text->size()) ? cudaSuccess : lost();
  }
  if (reply.payload_bytes != t.into_bytes) return lost();
  return vgpu::protocol::receive_all(socket_fd, t.into, t.into_bytes) ? cudaSuccess : lost();
}

cudaError_t record(cudaError_t error) {
  if (error != cudaSuccess) {
    last_error = error;
    last_error_was_read = false;
  }
  return error;
}

cudaError_t peek_last_error() {
  if (last_error != cudaSuccess && !last_error_was_read) {
    last_error_was_read = true;
    call(Op::kErrorRead, Writer());
  }
  return last_error;
}

cudaError_t take_last_error() {
  const cudaError_t error = peek_last_error();
  switch (error) {  // these stay, as the device stays unusable
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure: return error;
    default: break;
  }
  last_error = cudaSuccess;
  last_error_was_read = false;
  return error;
}

const char* last_text() { return text_slot().c_str(); }

cudaError_t explain(cudaError_t error, std::string text) {
  text_slot() = std::move(text);
  return record(error);
}

bool report(std::string_view kind, std::string_view text) {
  Writer fields;
  fields.text(kind.substr(0, vgpu::protocol::kMaxTextBytes));
  fields.text(text.substr(0, vgpu::protocol::kMaxTextBytes));
  const std::string kept = text_slot();
  std::string head;
  const bool judged = call(Op::kReport, fields, {.head = &head}) == cudaSuccess && Reader(head).u8() != 0;
  text_slot() = kept;
  return judged;
}

cudaError_t unsupported(const char* function) {
  report("unsupported", std::string("cuda:") + function);
  return explain(cudaErrorNotSupported, std::string(function) + " is not supported by the virtual GPU");
}

int unsupported_by_name(const char* function) { return unsupported(function); }

void vendor_call(const char* library, const char* function) { report("vendor", std::string(library) + " " + function); }

void print_device_output() {
  std::string text;
  if (call(Op::kPrintf, Writer(), {.text = &text}) != cudaSuccess || text.empty()) return;
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

cudaError_t fetch_properties(Properties* properties) {
  const std::uint64_t now = generation();
  {
    Lock lock;
    if (cached().value && cached().epoch == now) {
      *properties = *cached().value;
      return cudaSuccess;
    }
  }
  std::string head;
  if (auto error = call(Op::kHello, Writer(), {.head = &head}); error != cudaSuccess) return error;
  Reader in(head);
  Properties p;
  p.name = in.text();
  for (int* v : {&p.compute_major, &p.compute_minor, &p.sm_count, &p.warp_size, &p.max_threads_per_block, &p.max_threads_per_sm,
                 &p.registers_per_block, &p.clock_khz, &p.memory_clock_khz, &p.memory_bus_bits})
    *v = in.i32();
  for (std::uint64_t* v : {&p.shared_bytes_per_block, &p.shared_bytes_per_block_optin, &p.shared_bytes_per_sm, &p.memory_bytes,
                           &p.l2_bytes, &p.memory_free_bytes})
    *v = in.u64();
  if (!in.done()) return explain(cudaErrorUnknown, "the virtual GPU described itself wrongly");
  Lock lock;
  cached() = {p, now};
  *properties = std::move(p);
  return cudaSuccess;
}

}  // namespace musacoder::cudart
