// The functions that device code calls and the driver provides: vprintf, __assertfail, malloc, free.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "vgpu/exec/runtime.h"

namespace musacoder::vgpu::exec {
namespace {

constexpr std::size_t kMaxPrintf = 1u << 20;
constexpr std::size_t kMaxString = 64u << 10;

// Host bytes of a generic address without a fault; nullptr when it is not readable.
const std::uint8_t* peek(Warp& w, unsigned lane, std::uint64_t address, std::uint64_t bytes) {
  if (address >= kLocalWindow && address < kLocalWindow + kWindowBytes) {
    std::uint64_t at = address - kLocalWindow;
    if (at > w.local_bytes || w.local_bytes - at < bytes) return nullptr;
    return w.local + std::size_t(lane) * w.local_bytes + at;
  }
  if (address >= kSharedWindow && address < kSharedWindow + kWindowBytes) {
    std::uint64_t at = address - kSharedWindow;
    if (at > w.shared_bytes || w.shared_bytes - at < bytes) return nullptr;
    return w.shared + at;
  }
  MemoryRange* range = w.worker->launch->arena->find(address);
  if (!range || range->end() - address < bytes) return nullptr;
  return reinterpret_cast<const std::uint8_t*>(address);
}

std::string read_string(Warp& w, unsigned lane, std::uint64_t address) {
  std::string out;
  for (; out.size() < kMaxString; ++address) {
    const std::uint8_t* p = peek(w, lane, address, 1);
    if (!p || !*p) break;
    out += char(*p);
  }
  return out;
}

std::uint64_t argument(Warp& w, const CallSite& site, std::size_t k, unsigned lane) {
  if (k >= site.arguments.size()) return 0;
  const auto& a = site.arguments[k];
  std::uint64_t value = 0;
  if (a.area.bytes) std::memcpy(&value, w.regs + a.area.offset + lane * a.area.bytes, std::min<std::uint32_t>(a.area.bytes, 8));
  else std::memcpy(&value, w.regs + a.reg + lane * a.width, std::min<std::uint8_t>(a.width, 8));
  return value;
}

void set_result(Warp& w, const CallSite& site, unsigned lane, std::uint64_t value) {
  if (site.results.empty()) return;
  const auto& r = site.results[0];
  if (r.area.bytes) std::memcpy(w.regs + r.area.offset + lane * r.area.bytes, &value, std::min<std::uint32_t>(r.area.bytes, 8));
  else std::memcpy(w.regs + r.reg + lane * r.width, &value, std::min<std::uint8_t>(r.width, 8));
}

// printf's format with arguments packed as nvcc packs them: 4-byte and 8-byte values at their natural alignment.
std::string format_printf(Warp& w, unsigned lane, const std::string& format, std::uint64_t list, int* count) {
  std::string out;
  std::uint64_t at = 0;
  *count = 0;
  auto next = [&](unsigned bytes) -> std::uint64_t {
    at = (at + bytes - 1) / bytes * bytes;
    std::uint64_t value = 0;
    if (const std::uint8_t* p = peek(w, lane, list + at, bytes)) std::memcpy(&value, p, bytes);
    at += bytes;
    ++*count;
    return value;
  };
  for (std::size_t i = 0; i < format.size() && out.size() < kMaxPrintf; ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    if (i + 1 < format.size() && format[i + 1] == '%') {
      out += '%';
      ++i;
      continue;
    }
    std::string spec = "%";
    std::size_t j = i + 1;
    while (j < format.size() && std::string_view("-+ #0123456789.*").find(format[j]) != std::string_view::npos && spec.size() < 24) {
      if (format[j] == '*') {
        auto n = std::int32_t(next(4));
        spec += std::to_string(std::clamp(n, -1000, 1000));
      } else {
        spec += format[j];
      }
      ++j;
    }
    unsigned longs = 0;
    while (j < format.size() && std::string_view("hlLqjzt").find(format[j]) != std::string_view::npos) {
      if (format[j] == 'l' || format[j] == 'q' || format[j] == 'j' || format[j] == 'z' || format[j] == 't') ++longs;
      if (format[j] == 'q' || format[j] == 'j') ++longs;
      ++j;
    }
    if (j >= format.size()) break;
    // A width the reader did not mean (%99999999d) must not fill the memory.
    std::string digits;
    for (char c : spec) {
      if (c >= '0' && c <= '9') digits += c;
      else digits.clear();
      if (digits.size() > 4) break;
    }
    if (digits.size() > 4) spec = "%";
    char c = format[j];
    auto conversion = [&](std::string_view end) {
      std::string text = spec;
      text.append(end);
      return text;
    };
    char buffer[2048];
    buffer[0] = 0;
    switch (c) {
      case 'd':
      case 'i': {
        std::int64_t v = longs ? std::int64_t(next(8)) : std::int64_t(std::int32_t(next(4)));
        std::snprintf(buffer, sizeof buffer, conversion("lld").c_str(), static_cast<long long>(v));
        break;
      }
      case 'u':
      case 'x':
      case 'X':
      case 'o': {
        std::uint64_t v = longs ? next(8) : next(4);
        std::snprintf(buffer, sizeof buffer, conversion(std::string("ll").append(1, c)).c_str(), static_cast<unsigned long long>(v));
        break;
      }
      case 'c': std::snprintf(buffer, sizeof buffer, conversion({&c, 1}).c_str(), int(next(4))); break;
      case 'p': std::snprintf(buffer, sizeof buffer, "0x%llx", static_cast<unsigned long long>(next(8))); break;
      case 's': {
        std::string text = read_string(w, lane, next(8));
        std::snprintf(buffer, sizeof buffer, conversion({&c, 1}).c_str(), text.c_str());
        break;
      }
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
      case 'a':
      case 'A': std::snprintf(buffer, sizeof buffer, conversion({&c, 1}).c_str(), std::bit_cast<double>(next(8))); break;
      default: break;
    }
    out += buffer;
    i = j;
  }
  return out;
}

}  // namespace

bool run_builtin(Warp& w, const Inst* in, const CallSite& site) {
  LaunchState& launch = *w.worker->launch;
  for (std::uint32_t m = w.mask; m; m &= m - 1) {
    unsigned lane = unsigned(std::countr_zero(m));
    switch (site.builtin) {
      case Builtin::kVprintf: {
        std::string format = read_string(w, lane, argument(w, site, 0, lane));
        int count = 0;
        std::string text = format_printf(w, lane, format, argument(w, site, 1, lane), &count);
        std::lock_guard lock(launch.mutex);
        if (launch.printf_output && launch.printf_output->size() < kMaxPrintf)
          launch.printf_output->append(text, 0, kMaxPrintf - launch.printf_output->size());
        set_result(w, site, lane, std::uint64_t(count));
        break;
      }
      case Builtin::kAssertfail: {
        std::string message = read_string(w, lane, argument(w, site, 0, lane));
        std::string file = read_string(w, lane, argument(w, site, 1, lane));
        auto line = std::uint32_t(argument(w, site, 2, lane));
        Fault& f = raise(w, in, FaultKind::kAssert, lane);
        f.detail = message;
        f.file = file;
        f.line = line;
        return false;
      }
      case Builtin::kMalloc: {
        std::uint64_t bytes = argument(w, site, 0, lane);
        std::uint64_t address = 0;
        if (bytes && bytes <= (8ull << 20)) {
          std::lock_guard lock(launch.mutex);
          if (auto range = launch.arena->allocate(bytes, "device malloc")) {
            (*range)->from_device = true;
            address = (*range)->address;
          }
        }
        set_result(w, site, lane, address);
        break;
      }
      case Builtin::kFree: {
        std::uint64_t address = argument(w, site, 0, lane);
        if (!address) break;
        std::lock_guard lock(launch.mutex);
        MemoryRange* range = launch.arena->find(address);
        bool ours = range && range->address == address && range->from_device;
        if (ours) {
          ours = launch.arena->free(address);
          for (auto& cache : w.worker->caches)
            if (cache.range == range) cache = {};
        }
        if (!ours) {
          Fault& f = raise(w, in, FaultKind::kUseAfterFree, lane);
          f.address = address;
          f.space = "global";
          f.tensor = "memory that device malloc did not give";
          return false;
        }
        break;
      }
      default: return false;
    }
  }
  return true;
}

}  // namespace musacoder::vgpu::exec
