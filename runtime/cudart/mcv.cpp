// The mcv_* interface for the torch device.
#include <cstring>

#include "connection.h"
#include "vgpu_client.h"

namespace {

using namespace musacoder::cudart;

void put(Writer& out, const mcv_tensor& t) {
  const int n = t.ndim < 0 || t.ndim > MCV_MAX_DIMS ? 0 : t.ndim;
  out.u64(t.address);
  out.i32(t.dtype);
  out.i32(n);
  for (int d = 0; d < n; ++d) out.i64(t.sizes[d]);
  for (int d = 0; d < n; ++d) out.i64(t.strides[d]);
}

bool bad(const mcv_tensor* t) { return !t || t->ndim < 0 || t->ndim > MCV_MAX_DIMS; }

}  // namespace

extern "C" {

int mcv_connect(int fd) { return connect_to(fd); }
int musacoder_cudart_connect(int fd) { return connect_to(fd); }
int mcv_connected(void) { return connected(); }

uint64_t mcv_malloc(size_t bytes) {
  Writer fields;
  fields.u64(bytes);
  std::string head;
  if (call(Op::kMalloc, fields, {.head = &head}) != cudaSuccess) return 0;
  return Reader(head).u64();
}

int mcv_free(uint64_t address) {
  Writer fields;
  fields.u64(address);
  return call(Op::kFree, fields);
}

int mcv_memcpy_h2d(uint64_t to, const void* from, size_t bytes, int creation) {
  if (bytes == 0) return 0;
  if (!from || is_device(from)) return explain(cudaErrorInvalidValue, "the source of a copy to the device is not host memory");
  Writer fields;
  fields.u64(to);
  fields.u8(creation != 0);
  return call(Op::kWrite, fields, {.payload = from, .payload_bytes = bytes});
}

int mcv_memcpy_d2h(void* to, uint64_t from, size_t bytes) {
  if (bytes == 0) return 0;
  if (!to || is_device(to)) return explain(cudaErrorInvalidValue, "the destination of a copy to the host is not host memory");
  Writer fields;
  fields.u64(from);
  fields.u64(bytes);
  return call(Op::kRead, fields, {.into = to, .into_bytes = bytes});
}

int mcv_memcpy_d2d(uint64_t to, uint64_t from, size_t bytes) {
  if (bytes == 0) return 0;
  Writer fields;
  fields.u64(to);
  fields.u64(from);
  fields.u64(bytes);
  return call(Op::kCopy, fields);
}

int mcv_copy_strided(const mcv_tensor* to, const mcv_tensor* from) {
  if (bad(to) || bad(from)) return explain(cudaErrorInvalidValue, "a tensor has at most 16 dimensions");
  Writer fields;
  put(fields, *to);
  put(fields, *from);
  return call(Op::kCopyStrided, fields);
}

int mcv_fill_strided(const mcv_tensor* to, const mcv_scalar* value) {
  if (bad(to) || !value) return explain(cudaErrorInvalidValue, "a tensor has at most 16 dimensions");
  Writer fields;
  put(fields, *to);
  fields.i32(value->kind);
  fields.i64(value->integer);
  fields.f64(value->real);
  fields.f64(value->imag);
  return call(Op::kFillStrided, fields);
}

int mcv_label(uint64_t address, const char* text) {
  Writer fields;
  fields.u64(address);
  fields.text(std::string_view(text ? text : "").substr(0, musacoder::vgpu::protocol::kMaxTextBytes));
  return call(Op::kLabel, fields);
}

int mcv_report(const char* kind, const char* text) {
  return report(kind ? kind : "", text ? text : "");
}

int mcv_synchronize(void) {
  std::string head;
  if (auto error = call(Op::kSynchronize, Writer(), {.head = &head}); error != cudaSuccess) return error;
  if (Reader(head).u8()) print_device_output();
  return 0;
}

const char* mcv_last_error(void) { return last_text(); }

int mcv_device_info(mcv_device_properties* out) {
  if (!out) return explain(cudaErrorInvalidValue, "null");
  Properties p;
  if (auto error = fetch_properties(&p); error != cudaSuccess) return error;
  std::memset(out, 0, sizeof *out);
  std::strncpy(out->name, p.name.c_str(), sizeof out->name - 1);
  out->compute_major = p.compute_major;
  out->compute_minor = p.compute_minor;
  out->sm_count = p.sm_count;
  out->warp_size = p.warp_size;
  out->max_threads_per_block = p.max_threads_per_block;
  out->max_threads_per_sm = p.max_threads_per_sm;
  out->registers_per_block = p.registers_per_block;
  out->clock_khz = p.clock_khz;
  out->memory_clock_khz = p.memory_clock_khz;
  out->memory_bus_bits = p.memory_bus_bits;
  out->shared_bytes_per_block = p.shared_bytes_per_block;
  out->shared_bytes_per_block_optin = p.shared_bytes_per_block_optin;
  out->shared_bytes_per_sm = p.shared_bytes_per_sm;
  out->memory_bytes = p.memory_bytes;
  out->l2_bytes = p.l2_bytes;
  std::string head;
  if (call(Op::kMemoryInfo, Writer(), {.head = &head}) == cudaSuccess)
    out->memory_free_bytes = Reader(head).u64();
  else
    out->memory_free_bytes = p.memory_free_bytes;
  return 0;
}

}  // extern "C"
