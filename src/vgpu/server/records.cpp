#include "vgpu/server/records.h"

#include <algorithm>

namespace musacoder::vgpu {
namespace {

using protocol::Reader;
using protocol::Writer;

void encode(Writer& out, const Counters& c) {
  for (std::uint64_t v : {c.warp_instructions, c.thread_instructions, c.flops, c.global_load_bytes, c.global_store_bytes,
                          c.shared_accesses, c.atomics, c.barriers, c.divergent_branches})
    out.u64(v);
}

Counters decode_counters(Reader& in) {
  Counters c;
  for (std::uint64_t* v : {&c.warp_instructions, &c.thread_instructions, &c.flops, &c.global_load_bytes,
                           &c.global_store_bytes, &c.shared_accesses, &c.atomics, &c.barriers, &c.divergent_branches})
    *v = in.u64();
  return c;
}

void encode(Writer& out, const Dim3& d) {
  out.u32(d.x);
  out.u32(d.y);
  out.u32(d.z);
}

Dim3 decode_dim3(Reader& in) {
  Dim3 d;
  d.x = in.u32();
  d.y = in.u32();
  d.z = in.u32();
  return d;
}

}  // namespace

void encode(Writer& out, const Fault& f) {
  out.u32(static_cast<std::uint32_t>(f.kind));
  out.text(f.kernel);
  for (auto v : f.block) out.u32(v);
  for (auto v : f.thread) out.u32(v);
  out.u8(f.is_write);
  out.text(f.space);
  out.u64(f.address);
  out.u32(f.access_bytes);
  out.text(f.tensor);
  out.u64(f.tensor_bytes);
  out.i64(f.offset_bytes);
  out.text(f.file);
  out.u32(f.line);
  out.text(f.detail);
  out.text(f.message);
}

Fault decode_fault(Reader& in) {
  Fault f;
  f.kind = static_cast<FaultKind>(in.u32());
  f.kernel = in.text();
  for (auto& v : f.block) v = in.u32();
  for (auto& v : f.thread) v = in.u32();
  f.is_write = in.u8() != 0;
  f.space = in.text();
  f.address = in.u64();
  f.access_bytes = in.u32();
  f.tensor = in.text();
  f.tensor_bytes = in.u64();
  f.offset_bytes = in.i64();
  f.file = in.text();
  f.line = in.u32();
  f.detail = in.text();
  f.message = in.text();
  return f;
}

void encode(Writer& out, const WindowReport& r) {
  out.u32(static_cast<std::uint32_t>(r.launches.size()));
  for (const auto& launch : r.launches) {
    out.text(launch.kernel);
    out.text(launch.module);
    encode(out, launch.grid);
    encode(out, launch.block);
    out.u64(launch.count);
    out.u64(launch.warp_instructions);
    encode(out, launch.counters);
  }
  out.u32(static_cast<std::uint32_t>(r.vendor_calls.size()));
  for (const auto& call : r.vendor_calls) {
    out.text(call.library);
    out.text(call.function);
    out.u64(call.count);
  }
  out.u32(static_cast<std::uint32_t>(r.refused_ops.size()));
  for (const auto& op : r.refused_ops) out.text(op);
  for (std::uint64_t v : {r.h2d_bytes, r.d2h_bytes, r.d2d_bytes, r.memset_bytes, r.h2d_after_d2h_bytes, r.creation_bytes})
    out.u64(v);
  out.u8(r.fault.has_value());
  if (r.fault) encode(out, *r.fault);
  out.text(r.unread_launch_error);
  out.text(r.printf_output);
  out.f64(r.launch_seconds);
  out.u32(static_cast<std::uint32_t>(r.unsupported.size()));
  for (const auto& text : r.unsupported) out.text(text);
  out.text(r.protocol_error);
}

Result<WindowReport> decode_report(std::string_view bytes) {
  Reader in(bytes);
  WindowReport r;
  for (std::uint32_t n = in.u32(); n > 0 && in.ok(); --n) {
    auto& launch = r.launches.emplace_back();
    launch.kernel = in.text();
    launch.module = in.text();
    launch.grid = decode_dim3(in);
    launch.block = decode_dim3(in);
    launch.count = in.u64();
    launch.warp_instructions = in.u64();
    launch.counters = decode_counters(in);
  }
  for (std::uint32_t n = in.u32(); n > 0 && in.ok(); --n) {
    auto& call = r.vendor_calls.emplace_back();
    call.library = in.text();
    call.function = in.text();
    call.count = in.u64();
  }
  for (std::uint32_t n = in.u32(); n > 0 && in.ok(); --n) r.refused_ops.push_back(in.text());
  for (std::uint64_t* v : {&r.h2d_bytes, &r.d2h_bytes, &r.d2d_bytes, &r.memset_bytes, &r.h2d_after_d2h_bytes,
                           &r.creation_bytes})
    *v = in.u64();
  if (in.u8()) r.fault = decode_fault(in);
  r.unread_launch_error = in.text();
  r.printf_output = in.text(4u << 20);
  r.launch_seconds = in.f64();
  for (std::uint32_t n = in.u32(); n > 0 && in.ok(); --n) r.unsupported.push_back(in.text());
  r.protocol_error = in.text();
  if (!in.done()) return fail(Code::kInternal, "the window report of {} bytes is malformed", bytes.size());
  return r;
}

}  // namespace musacoder::vgpu
