// One instruction at a time, in hand-written PTX, against the host's own arithmetic: random and special operands, a full
// and a partial warp, every engine that this processor can run.
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>

#include "vgpu/nvcc.h"

namespace musacoder::vgpu::test {
namespace {

using u8 = std::uint8_t;
using i8 = std::int8_t;
using u16 = std::uint16_t;
using i16 = std::int16_t;
using u32 = std::uint32_t;
using i32 = std::int32_t;
using u64 = std::uint64_t;
using i64 = std::int64_t;
__extension__ typedef __int128 i128;

constexpr u32 kThreads = 32 * 20 + 13;

// Operands are 64-bit words; `bits` of each are the value.
struct Row {
  std::string name;                       // shown on failure
  std::string body;                       // uses %a, %b, %c (registers of the operand type) and writes %d
  std::string operand, result;            // "f32", "b32", …: types of the registers
  std::function<u64(u64, u64, u64)> host;
  double ulps = 0;                        // for approximate results; 0 = exact, NaN equals NaN
};

unsigned bytes_of(const std::string& type) { return unsigned(std::stoi(type.substr(type.find_first_of("0123456789"))) / 8); }
std::string reg_type(const std::string& t) { return ".b" + std::to_string(bytes_of(t) * 8); }

std::string kernel_text(const std::string& name, const Row& r) {
  std::string o = reg_type(r.operand), d = reg_type(r.result);
  return ".visible .entry " + name +
         "(.param .u64 pa, .param .u64 pd, .param .u32 n) {\n"
         " .reg .b64 %x<8>; .reg .b32 %t<8>; .reg .pred %q, %p, %p2; .reg " + o + " %a, %b, %c; .reg " + d + " %d;\n"
         " .reg .b16 %h<8>; .reg .b32 %w<8>; .reg .b64 %l<8>; .reg .f32 %f<4>; .reg .f64 %g<4>;\n"
         " ld.param.u64 %x0, [pa]; ld.param.u64 %x1, [pd]; ld.param.u32 %t0, [n];\n"
         " mov.u32 %t1, %tid.x; mov.u32 %t2, %ctaid.x; mov.u32 %t3, %ntid.x; mad.lo.u32 %t1, %t2, %t3, %t1;\n"
         " setp.ge.u32 %q, %t1, %t0; @%q bra DONE;\n"
         " mul.wide.u32 %x2, %t1, 24; add.u64 %x2, %x0, %x2; mul.wide.u32 %x3, %t1, 8; add.u64 %x3, %x1, %x3;\n"
         " ld.global" + o + " %a, [%x2]; ld.global" + o + " %b, [%x2+8]; ld.global" + o + " %c, [%x2+16];\n " + r.body +
         "\n st.global" + d + " [%x3], %d;\n DONE: ret;\n}\n";
}

float f(u64 x) { return std::bit_cast<float>(u32(x)); }
double g(u64 x) { return std::bit_cast<double>(x); }
u64 F(float x) { return std::bit_cast<u32>(x); }
u64 G(double x) { return std::bit_cast<u64>(x); }
bool is_nan(u64 x, const std::string& type) {
  if (type == "f32") return std::isnan(f(x));
  if (type == "f64") return std::isnan(g(x));
  if (type == "f16") return (x & 0x7fff) > 0x7c00;
  if (type == "bf16") return (x & 0x7fff) > 0x7f80;
  return false;
}

// Exact conversions by the slow, obvious way.
double half_value(u16 h) {
  int e = h >> 10 & 31, m = h & 1023;
  double v = e == 31 ? (m ? NAN : INFINITY) : e == 0 ? std::ldexp(m, -24) : std::ldexp(1024 + m, e - 25);
  return h & 0x8000 ? -v : v;
}
double bf16_value(u16 h) { return f(u64(h) << 16); }
// The pattern nearest to an exactly known value, ties to even, by search.
u16 nearest_pattern(double v, double (*value)(u16), u16 inf) {
  if (std::isnan(v)) return 0x7fff;
  u16 sign = std::signbit(v) ? 0x8000 : 0;
  double m = std::fabs(v);
  u16 lo = 0, hi = inf;
  while (hi - lo > 1) {
    u16 mid = u16((lo + hi) / 2);
    (value(mid) <= m ? lo : hi) = mid;
  }
  double top = hi == inf ? 2 * value(u16(inf - 1)) - value(u16(inf - 2)) : value(hi);
  double below = m - value(lo), above = top - m;
  if (m >= top) return u16(sign | inf);
  bool up = above < below || (above == below && (lo & 1));
  return u16(sign | (up ? hi : lo));
}
u16 to_half(double v) { return nearest_pattern(v, half_value, 0x7c00); }
u16 to_bf16(double v) { return nearest_pattern(v, bf16_value, 0x7f80); }

std::vector<u64> operands(const std::string& type, u32 count) {
  std::mt19937_64 random(7 + bytes_of(type) * 31 + type[0]);
  std::vector<u64> special;
  if (type == "f32") {
    for (float x : {0.f, -0.f, 1.f, -1.f, 0.5f, 2.f, 3.1415927f, 1e-40f, -1e-40f, 1e30f, -1e30f, 65504.f, 16777217.f, 0.99999994f, 1e-20f})
      special.push_back(F(x));
    special.insert(special.end(), {0x7f800000, 0xff800000, 0x7fc00000, 0x7f7fffff, 0x00000001, 0x4f000000, 0xcf000000, 0x5f000000});
  } else if (type == "f64") {
    for (double x : {0., -0., 1., -1., 0.5, 1e-310, -1e-310, 1e300, -1e300, 3.14159, 4294967296.5, 1e19, 0.49999999999999994})
      special.push_back(G(x));
    special.insert(special.end(), {0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000});
  } else if (type == "f16") {
    special = {0, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 1, 0x8001, 0x3ff, 0x400, 0x7bff, 0xfbff, 0x3555};
  } else if (type == "bf16") {
    special = {0, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc0, 1, 0x8001, 0x7f7f, 0xff7f, 0x3eab};
  } else {
    special = {0, 1, 2, 3, 31, 32, 33, 63, 64, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fff, 0x8000, 0xffff, u64(-1), 1ull << 63};
  }
  std::vector<u64> out;
  u64 mask = bytes_of(type) == 8 ? ~0ull : (1ull << (8 * bytes_of(type))) - 1;
  for (u32 i = 0; i < count; ++i) {
    u64 r = random(), pick = random();
    if (pick % 3 == 0) r = special[(pick >> 8) % special.size()];
    else if (type == "f32" && pick % 3 == 1) r = F(float(i32(r)) * 1e-8f);
    else if (type == "f64" && pick % 3 == 1) r = G(double(i64(r)) * 1e-17);
    else if (pick % 3 == 1 && type[0] != 'f' && type[0] != 'b') r &= 0xff;
    out.push_back(r & mask);
  }
  return out;
}

bool close(u64 got, u64 want, const Row& r) {
  if (is_nan(got, r.result) && is_nan(want, r.result)) return true;
  if (got == want) return true;
  if (r.ulps == 0) return false;
  double a = r.result == "f64" ? g(got) : r.result == "f32" ? f(got) : r.result == "f16" ? half_value(u16(got)) : bf16_value(u16(got));
  double b = r.result == "f64" ? g(want) : r.result == "f32" ? f(want) : r.result == "f16" ? half_value(u16(want)) : bf16_value(u16(want));
  double unit = std::max(std::fabs(b) * (r.result == "f32" ? 1.2e-7 : r.result == "f64" ? 2.3e-16 : r.result == "f16" ? 1e-3 : 8e-3),
                         r.result == "f32" ? 1e-45 : 0.0);
  return std::fabs(a - b) <= r.ulps * unit;
}

void check(const std::vector<Row>& rows) {
  std::string text = ".version 9.0\n.target sm_90\n.address_size 64\n";
  for (std::size_t k = 0; k < rows.size(); ++k) text += kernel_text("k" + std::to_string(k), rows[k]);
  for (const char* isa : {"v2", "v3", "v4"}) {
    ::setenv("MUSACODER_VGPU_ISA", isa, 1);
    Kernel kernel(text);
    ::unsetenv("MUSACODER_VGPU_ISA");
    for (std::size_t k = 0; k < rows.size(); ++k) {
      const Row& r = rows[k];
      auto x = operands(r.operand, 3 * kThreads);
      DevicePtr a = kernel.put(x), d = kernel.put(std::vector<u64>(kThreads, 0));
      auto out = kernel.run("k" + std::to_string(k), {3}, {(kThreads + 2) / 3}, a, d, kThreads);
      if (out.fault) {
        ADD_FAILURE() << isa << ' ' << r.name << ": " << out.fault->message;
        continue;
      }
      auto got = kernel.get<u64>(d, kThreads);
      u64 mask = bytes_of(r.result) == 8 ? ~0ull : (1ull << (8 * bytes_of(r.result))) - 1;
      int shown = 0;
      for (u32 i = 0; i < kThreads && shown < 3; ++i) {
        u64 want = r.host(x[3 * i], x[3 * i + 1], x[3 * i + 2]) & mask;
        if (close(got[i], want, r)) continue;
        ++shown;
        ADD_FAILURE() << isa << ' ' << r.name << " lane " << i << fmt::format(": f({:#x}, {:#x}, {:#x}) = {:#x}, want {:#x}", x[3 * i],
                      x[3 * i + 1], x[3 * i + 2], got[i], want);
      }
      (void)kernel.device.free(a);
      (void)kernel.device.free(d);
    }
  }
}

template <typename T>
u64 U(T x) { return u64(std::make_unsigned_t<T>(x)); }

TEST(Instructions, Integer) {
  std::vector<Row> rows;
  auto add = [&](std::string op, std::string type, std::function<u64(u64, u64, u64)> host, std::string args = "%a, %b") {
    rows.push_back({op, op + " %d, " + args + ";", type, type, std::move(host)});
  };
#define MC_BOTH(S, UU, bits)                                                                                            \
  do {                                                                                                                  \
    std::string s = ".s" #bits, u = ".u" #bits, b = ".b" #bits, ty = "b" #bits;                                        \
    add("add" + s, ty, [](u64 a, u64 c, u64) { return U(UU(a + c)); });                                                 \
    add("sub" + s, ty, [](u64 a, u64 c, u64) { return U(UU(a - c)); });                                                 \
    add("mul.lo" + s, ty, [](u64 a, u64 c, u64) { return U(UU(a * c)); });                                              \
    add("mad.lo" + s, ty, [](u64 a, u64 c, u64 e) { return U(UU(a * c + e)); }, "%a, %b, %c");                          \
    add("min" + s, ty, [](u64 a, u64 c, u64) { return U(std::min(S(a), S(c))); });                                      \
    add("max" + s, ty, [](u64 a, u64 c, u64) { return U(std::max(S(a), S(c))); });                                      \
    add("min" + u, ty, [](u64 a, u64 c, u64) { return U(std::min(UU(a), UU(c))); });                                    \
    add("max" + u, ty, [](u64 a, u64 c, u64) { return U(std::max(UU(a), UU(c))); });                                    \
    add("abs" + s, ty, [](u64 a, u64, u64) { return U(UU(S(a) < 0 ? 0 - a : a)); }, "%a");                              \
    add("neg" + s, ty, [](u64 a, u64, u64) { return U(UU(0 - a)); }, "%a");                                             \
    add("and" + b, ty, [](u64 a, u64 c, u64) { return U(UU(a & c)); });                                                 \
    add("or" + b, ty, [](u64 a, u64 c, u64) { return U(UU(a | c)); });                                                  \
    add("xor" + b, ty, [](u64 a, u64 c, u64) { return U(UU(a ^ c)); });                                                 \
    add("not" + b, ty, [](u64 a, u64, u64) { return U(UU(~a)); }, "%a");                                                \
    add("cnot" + b, ty, [](u64 a, u64, u64) { return u64(UU(a) == 0); }, "%a");                                         \
    add("div" + s, ty, [](u64 a, u64 c, u64) {                                                                          \
      return S(c) == 0 ? U(UU(-1)) : S(c) == -1 ? U(UU(0 - a)) : U(UU(S(a) / S(c))); });                                \
    add("rem" + s, ty, [](u64 a, u64 c, u64) { return S(c) == 0 ? U(UU(a)) : S(c) == -1 ? 0ull : U(UU(S(a) % S(c))); }); \
    add("div" + u, ty, [](u64 a, u64 c, u64) { return UU(c) == 0 ? U(UU(-1)) : U(UU(UU(a) / UU(c))); });                \
    add("rem" + u, ty, [](u64 a, u64 c, u64) { return UU(c) == 0 ? U(UU(a)) : U(UU(UU(a) % UU(c))); });                 \
    add("mul.hi" + s, ty, [](u64 a, u64 c, u64) { return U(UU((i128(S(a)) * S(c)) >> bits)); });                    \
    add("mul.hi" + u, ty, [](u64 a, u64 c, u64) { return U(UU((i128(UU(a)) * UU(c)) >> bits)); });                  \
    add("sad" + s, ty, [](u64 a, u64 c, u64 e) {                                                                        \
      return U(UU(e + (S(a) < S(c) ? UU(UU(c) - UU(a)) : UU(UU(a) - UU(c))))); }, "%a, %b, %c");                        \
    rows.push_back({"shl" + b, "cvt.u32.u" #bits " %t4, %b; shl" + b + " %d, %a, %t4;", ty, ty,                         \
                    [](u64 a, u64 c, u64) { u32 n = u32(UU(c)); return n >= bits ? 0ull : U(UU(a << n)); }});           \
    rows.push_back({"shr" + s, "cvt.u32.u" #bits " %t4, %b; shr" + s + " %d, %a, %t4;", ty, ty,                         \
                    [](u64 a, u64 c, u64) { u32 n = std::min<u32>(u32(UU(c)), bits - 1); return U(UU(S(a) >> n)); }});  \
    rows.push_back({"shr" + u, "cvt.u32.u" #bits " %t4, %b; shr" + u + " %d, %a, %t4;", ty, ty,                         \
                    [](u64 a, u64 c, u64) { u32 n = u32(UU(c)); return n >= bits ? 0ull : U(UU(UU(a) >> n)); }});       \
    rows.push_back({"setp.lt" + s, "setp.lt" + s + " %p|%p2, %a, %b; selp" + b + " %d, %c, %a, %p2;", ty, ty,           \
                    [](u64 a, u64 c, u64 e) { return U(UU(S(a) < S(c) ? a : e)); }});                                   \
    rows.push_back({"setp.hi" + u, "setp.hi" + u + " %p, %a, %b; selp" + b + " %d, %c, %a, !%p;", ty, ty,               \
                    [](u64 a, u64 c, u64 e) { return U(UU(UU(a) > UU(c) ? a : e)); }});                                 \
    rows.push_back({"setp.ge.and" + s, "setp.ne" + s + " %q, %a, %c; setp.ge.and" + s + " %p, %a, %b, !%q; selp" + b + " %d, %c, %a, %p;", ty, ty, \
                    [](u64 a, u64 c, u64 e) { return U(UU(S(a) >= S(c) && S(a) == S(e) ? e : a)); }});                  \
  } while (false)
  MC_BOTH(i16, u16, 16);
  MC_BOTH(i32, u32, 32);
  MC_BOTH(i64, u64, 64);
#undef MC_BOTH
  auto add32 = [&](std::string name, std::string body, std::function<u64(u64, u64, u64)> host) {
    rows.push_back({std::move(name), std::move(body), "b32", "b32", std::move(host)});
  };
  add32("add.sat", "add.sat.s32 %d, %a, %b;", [](u64 a, u64 b, u64) { return u64(u32(std::clamp<i64>(i64(i32(a)) + i32(b), INT32_MIN, INT32_MAX))); });
  add32("sub.sat", "sub.sat.s32 %d, %a, %b;", [](u64 a, u64 b, u64) { return u64(u32(std::clamp<i64>(i64(i32(a)) - i32(b), INT32_MIN, INT32_MAX))); });
  add32("add.cc", "add.cc.u32 %t4, %a, %b; addc.u32 %d, %c, 5;", [](u64 a, u64 b, u64 c) { return u64(u32(c + 5 + ((u64(u32(a)) + u32(b)) >> 32))); });
  add32("sub.cc", "sub.cc.u32 %t4, %a, %b; subc.u32 %d, %c, 5;", [](u64 a, u64 b, u64 c) { return u64(u32(c - 5 - (u32(a) < u32(b)))); });
  add32("madc", "mad.lo.cc.u32 %t4, %a, %b, %c; madc.hi.u32 %d, %a, %b, 0;", [](u64 a, u64 b, u64 c) { return ((u64(u32(a)) * u32(b)) + u32(c)) >> 32; });
  add32("mul24", "mul24.lo.u32 %d, %a, %b;", [](u64 a, u64 b, u64) { return u64(u32((a & 0xffffff) * (b & 0xffffff))); });
  add32("mad24.s", "mad24.lo.s32 %d, %a, %b, %c;", [](u64 a, u64 b, u64 c) { return u64(u32(u32(i32(u32(a) << 8) >> 8) * u32(i32(u32(b) << 8) >> 8) + u32(c))); });
  add32("lop3", "lop3.b32 %d, %a, %b, %c, 0xca;", [](u64 a, u64 b, u64 c) { return u64(u32((a & b) | (~a & c))); });
  add32("shf.l.wrap", "shf.l.wrap.b32 %d, %a, %b, %c;", [](u64 a, u64 b, u64 c) { u64 p = b << 32 | a; return (p << (c & 31)) >> 32; });
  add32("shf.r.clamp", "shf.r.clamp.b32 %d, %a, %b, %c;", [](u64 a, u64 b, u64 c) { u64 p = b << 32 | a; return u64(u32(p >> std::min<u64>(c, 32))); });
  add32("prmt", "prmt.b32 %d, %a, %b, %c;", [](u64 a, u64 b, u64 c) {
    u64 bytes = b << 32 | a;
    u32 r = 0;
    for (int k = 0; k < 4; ++k) {
      u32 sel = u32(c >> (4 * k)) & 15, byte = u32(bytes >> (8 * (sel & 7))) & 255;
      if (sel & 8) byte = byte & 128 ? 255 : 0;
      r |= byte << (8 * k);
    }
    return u64(r);
  });
  add32("bfe.u32", "and.b32 %t4, %b, 63; and.b32 %t5, %c, 63; bfe.u32 %d, %a, %t4, %t5;", [](u64 a, u64 b, u64 c) {
    u32 pos = b & 63, len = c & 63, r = 0;
    for (u32 i = 0; i < 32; ++i) if (i < len && pos + i < 32) r |= u32(a >> (pos + i) & 1) << i;
    return u64(r);
  });
  add32("bfe.s32", "and.b32 %t4, %b, 63; and.b32 %t5, %c, 63; bfe.s32 %d, %a, %t4, %t5;", [](u64 a, u64 b, u64 c) {
    u32 pos = b & 63, len = c & 63, r = 0;
    u32 sign = len == 0 ? 0 : u32(a >> std::min(pos + len - 1, 31u)) & 1;
    for (u32 i = 0; i < 32; ++i) r |= (i < len && pos + i < 32 ? u32(a >> (pos + i) & 1) : sign) << i;
    return u64(r);
  });
  add32("bfi", "and.b32 %t4, %c, 31; shr.u32 %t5, %c, 27; bfi.b32 %d, %a, %b, %t4, %t5;", [](u64 a, u64 b, u64 c) {
    u32 pos = c & 31, len = u32(c) >> 27, r = u32(b);
    for (u32 i = 0; i < len && pos + i < 32; ++i) r = (r & ~(1u << (pos + i))) | (u32(a >> i & 1) << (pos + i));
    return u64(r);
  });
  add32("bfind.s", "bfind.s32 %d, %a;", [](u64 a, u64, u64) { u32 x = i32(a) < 0 ? ~u32(a) : u32(a); return x ? u64(31 - std::countl_zero(x)) : 0xffffffffull; });
  add32("bfind.shift", "bfind.shiftamt.u32 %d, %a;", [](u64 a, u64, u64) { return u32(a) ? u64(std::countl_zero(u32(a))) : 0xffffffffull; });
  add32("brev", "brev.b32 %d, %a;", [](u64 a, u64, u64) { u32 r = 0; for (int i = 0; i < 32; ++i) r |= u32(a >> i & 1) << (31 - i); return u64(r); });
  add32("popc", "popc.b32 %d, %a;", [](u64 a, u64, u64) { return u64(std::popcount(u32(a))); });
  add32("clz", "clz.b32 %d, %a;", [](u64 a, u64, u64) { return u64(std::countl_zero(u32(a))); });
  add32("dp4a", "dp4a.s32.u32 %d, %a, %b, %c;", [](u64 a, u64 b, u64 c) { u32 s = u32(c); for (int k = 0; k < 4; ++k) s += u32(i32(i8(a >> (8 * k))) * i32(u8(b >> (8 * k)))); return u64(s); });
  add32("slct", "slct.b32.s32 %d, %a, %b, %c;", [](u64 a, u64 b, u64 c) { return i32(c) >= 0 ? a : b; });
  add32("set", "set.lt.u32.s32 %d, %a, %b;", [](u64 a, u64 b, u64) { return i32(a) < i32(b) ? 0xffffffffull : 0; });
  add32("guard", "mov.b32 %d, %a; setp.lt.u32 %p, %b, %c; @%p add.u32 %d, %d, 7; @!%p bra.uni L; add.u32 %d, %d, 1; L:", [](u64 a, u64 b, u64 c) { return u32(b) < u32(c) ? a + 8 : a; });
  add32("predicates", "setp.lt.u32 %p, %a, %b; setp.lt.u32 %p2, %b, %c; and.pred %q, %p, !%p2; not.pred %p, %q; xor.pred %p, %p, %p2; selp.u32 %d, 1, 0, %p;",
        [](u64 a, u64 b, u64 c) { bool p = u32(a) < u32(b), p2 = u32(b) < u32(c), q = p && !p2; return u64(!q ^ p2); });
  rows.push_back({"mul.wide.s32", "mul.wide.s32 %d, %a, %b;", "b32", "b64", [](u64 a, u64 b, u64) { return u64(i64(i32(a)) * i32(b)); }});
  rows.push_back({"mad.wide.u32", "mov.u64 %l0, 99; mad.wide.u32 %d, %a, %b, %l0;", "b32", "b64", [](u64 a, u64 b, u64) { return u64(u32(a)) * u32(b) + 99; }});
  rows.push_back({"mul.wide.u16", "mul.wide.u16 %d, %a, %b;", "b16", "b32", [](u64 a, u64 b, u64) { return u64(u16(a)) * u16(b); }});
  rows.push_back({"popc64", "popc.b64 %d, %a;", "b64", "b32", [](u64 a, u64, u64) { return u64(std::popcount(a)); }});
  rows.push_back({"clz64", "clz.b64 %d, %a;", "b64", "b32", [](u64 a, u64, u64) { return u64(std::countl_zero(a)); }});
  rows.push_back({"brev64", "brev.b64 %d, %a;", "b64", "b64", [](u64 a, u64, u64) { u64 r = 0; for (int i = 0; i < 64; ++i) r |= (a >> i & 1) << (63 - i); return r; }});
  rows.push_back({"pack", "mov.b64 %l0, {%a, %b}; mov.b64 {%w0, %w1}, %l0; xor.b32 %d, %w0, %w1;", "b32", "b32", [](u64 a, u64 b, u64) { return a ^ b; }});
  rows.push_back({"pack16", "mov.b32 %d, {%a, %b};", "b16", "b32", [](u64 a, u64 b, u64) { return b << 16 | a; }});
  rows.push_back({"unpack16", "mov.b32 {%h0, %h1}, %a; mov.b32 %d, {%h1, %h0};", "b32", "b32", [](u64 a, u64, u64) { return u64(u32(a) >> 16 | u32(a) << 16); }});
  check(rows);
}

TEST(Instructions, Float) {
  std::vector<Row> rows;
  auto add = [&](std::string op, std::function<float(float, float, float)> host, std::string args = "%a, %b", double ulps = 0) {
    rows.push_back({op, op + " %d, " + args + ";", "f32", "f32", [host](u64 a, u64 b, u64 c) { return F(host(f(a), f(b), f(c))); }, ulps});
  };
  auto flush = [](float x) { return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.f, x) : x; };
  auto sat = [](float x) { return x > 0 ? (x < 1 ? x : 1.f) : 0.f; };
  auto rounded = [](int mode, auto op) {
    return [mode, op](float a, float b, float c) {
      volatile float va = a, vb = b, vc = c;
      std::fesetround(mode);
      volatile float r = op(va, vb, vc);
      std::fesetround(FE_TONEAREST);
      return float(r);
    };
  };
  auto plus = [](float a, float b, float) { return a + b; };
  auto times = [](float a, float b, float) { return a * b; };
  auto fused = [](float a, float b, float c) { return std::fma(a, b, c); };
  auto over = [](float a, float b, float) { return a / b; };
  add("add.f32", plus);
  add("sub.f32", [](float a, float b, float) { return a - b; });
  add("mul.f32", times);
  add("mul.ftz.f32", [=](float a, float b, float) { return flush(flush(a) * flush(b)); });
  add("add.sat.f32", [=](float a, float b, float) { return sat(a + b); });
  add("fma.rn.f32", fused, "%a, %b, %c");
  add("fma.rn.ftz.sat.f32", [=](float a, float b, float c) { return sat(flush(std::fma(flush(a), flush(b), flush(c)))); }, "%a, %b, %c");
  struct Mode { const char* name; int mode; };
  for (Mode m : {Mode{"rz", FE_TOWARDZERO}, Mode{"rm", FE_DOWNWARD}, Mode{"rp", FE_UPWARD}}) {
    add(std::string("add.") + m.name + ".f32", rounded(m.mode, plus));
    add(std::string("mul.") + m.name + ".f32", rounded(m.mode, times));
    add(std::string("fma.") + m.name + ".f32", rounded(m.mode, fused), "%a, %b, %c");
    add(std::string("div.") + m.name + ".f32", rounded(m.mode, over));
    add(std::string("sqrt.") + m.name + ".f32", rounded(m.mode, [](float a, float, float) { return std::sqrt(a); }), "%a");
  }
  add("div.rn.f32", over);
  add("div.full.f32", over, "%a, %b", 2);
  add("rcp.rn.f32", [](float a, float, float) { return 1 / a; }, "%a");
  add("sqrt.rn.f32", [](float a, float, float) { return std::sqrt(a); }, "%a");
  add("rsqrt.approx.f32", [](float a, float, float) { return float(1 / std::sqrt(double(a))); }, "%a", 1);
  add("ex2.approx.f32", [](float a, float, float) { return float(std::exp2(double(a))); }, "%a", 1);
  add("ex2.approx.ftz.f32", [=](float a, float, float) { return flush(float(std::exp2(double(flush(a))))); }, "%a", 1);
  add("lg2.approx.f32", [](float a, float, float) { return float(std::log2(double(a))); }, "%a", 1);
  // The argument is limited to where double precision can still reduce it.
  rows.push_back({"sin", "abs.f32 %f0, %a; setp.gt.f32 %p, %f0, 0f4B000000; selp.f32 %f1, %f0, %a, !%p; selp.f32 %f1, 0f3F800000, %a, %p; sin.approx.f32 %d, %f1;", "f32", "f32",
                  [](u64 a, u64, u64) { return F(float(std::sin(std::fabs(f(a)) > 8388608.f ? 1.0 : double(f(a))))); }, 1});
  rows.push_back({"cos", "abs.f32 %f0, %a; setp.gt.f32 %p, %f0, 0f4B000000; selp.f32 %f1, 0f3F800000, %a, %p; cos.approx.f32 %d, %f1;", "f32", "f32",
                  [](u64 a, u64, u64) { return F(float(std::cos(std::fabs(f(a)) > 8388608.f ? 1.0 : double(f(a))))); }, 1});
  add("tanh.approx.f32", [](float a, float, float) { return float(std::tanh(double(a))); }, "%a", 1);
  add("abs.f32", [](float a, float, float) { return std::fabs(a); }, "%a");
  add("neg.f32", [](float a, float, float) { return -a; }, "%a");
  auto pick = [](float a, float b, bool max) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) != max ? a : b;
    return (a < b) != max ? a : b;
  };
  add("min.f32", [=](float a, float b, float) { return pick(a, b, false); });
  add("max.f32", [=](float a, float b, float) { return pick(a, b, true); });
  add("max.NaN.f32", [=](float a, float b, float) { return std::isnan(a) || std::isnan(b) ? NAN : pick(a, b, true); });
  add("copysign.f32", [](float a, float b, float) { return std::copysign(b, a); });
  struct C { const char* name; bool (*test)(float, float); };
  for (C c : {C{"eq", [](float a, float b) { return a == b; }}, C{"ne", [](float a, float b) { return !std::isunordered(a, b) && a != b; }},
              C{"lt", [](float a, float b) { return a < b; }}, C{"leu", [](float a, float b) { return !(a > b); }},
              C{"gtu", [](float a, float b) { return !(a <= b); }}, C{"neu", [](float a, float b) { return a != b; }},
              C{"equ", [](float a, float b) { return a == b || std::isunordered(a, b); }},
              C{"num", [](float a, float b) { return !std::isunordered(a, b); }}, C{"nan", [](float a, float b) { return std::isunordered(a, b); }}})
    rows.push_back({std::string("setp.") + c.name, std::string("setp.") + c.name + ".f32 %p, %a, %b; selp.b32 %d, 1, 2, %p;", "f32", "b32",
                    [c](u64 a, u64 b, u64) { return u64(c.test(f(a), f(b)) ? 1 : 2); }});
  rows.push_back({"testp", "testp.subnormal.f32 %p, %a; testp.finite.f32 %p2, %b; selp.b32 %t4, 1, 0, %p; selp.b32 %t5, 2, 0, %p2; or.b32 %d, %t4, %t5;", "f32", "b32",
                  [](u64 a, u64 b, u64) { return u64(std::fpclassify(f(a)) == FP_SUBNORMAL) | u64(std::isfinite(f(b))) << 1; }});
  rows.push_back({"set.f32", "set.gt.f32.f32 %d, %a, %b;", "f32", "f32", [](u64 a, u64 b, u64) { return F(f(a) > f(b) ? 1.f : 0.f); }});
  auto addd = [&](std::string op, std::function<double(double, double, double)> host, std::string args = "%a, %b", double ulps = 0) {
    rows.push_back({op, op + " %d, " + args + ";", "f64", "f64", [host](u64 a, u64 b, u64 c) { return G(host(g(a), g(b), g(c))); }, ulps});
  };
  addd("add.f64", [](double a, double b, double) { return a + b; });
  addd("mul.rn.f64", [](double a, double b, double) { return a * b; });
  addd("fma.rn.f64", [](double a, double b, double c) { return std::fma(a, b, c); }, "%a, %b, %c");
  addd("div.rn.f64", [](double a, double b, double) { return a / b; });
  addd("sqrt.rn.f64", [](double a, double, double) { return std::sqrt(a); }, "%a");
  addd("min.f64", [](double a, double b, double) { return std::isnan(a) ? b : std::isnan(b) ? a : a == b ? (std::signbit(a) ? a : b) : std::min(a, b); });
  check(rows);
}

template <typename I>
u64 saturate(double x) {
  if (std::isnan(x)) return sizeof(I) == 8 ? 0x8000000000000000ull : 0;
  if (x >= std::ldexp(1.0, std::numeric_limits<I>::digits)) return U(std::numeric_limits<I>::max());
  if (x <= double(std::numeric_limits<I>::min())) return U(std::numeric_limits<I>::min());
  return U(I(x));
}

TEST(Instructions, Convert) {
  std::vector<Row> rows;
  auto add = [&](std::string op, std::string from, std::string to, std::function<u64(u64)> host) {
    rows.push_back({op, op + " %d, %a;", std::move(from), std::move(to), [host](u64 a, u64, u64) { return host(a); }});
  };
  auto half_even = [](double x) { return std::nearbyint(x); };
  add("cvt.rzi.s32.f32", "f32", "b32", [](u64 a) { return saturate<i32>(std::trunc(f(a))); });
  add("cvt.rni.s32.f32", "f32", "b32", [=](u64 a) { return saturate<i32>(half_even(f(a))); });
  add("cvt.rmi.u32.f32", "f32", "b32", [](u64 a) { return saturate<u32>(std::floor(f(a))); });
  add("cvt.rpi.s64.f32", "f32", "b64", [](u64 a) { return saturate<i64>(std::ceil(f(a))); });
  add("cvt.rzi.u64.f64", "f64", "b64", [](u64 a) { return saturate<u64>(std::trunc(g(a))); });
  add("cvt.rzi.s16.f32", "f32", "b16", [](u64 a) { return saturate<i16>(std::trunc(f(a))); });
  add("cvt.rzi.u8.f32", "f32", "b32", [](u64 a) { return saturate<u8>(std::trunc(f(a))); });
  add("cvt.rn.f32.s32", "b32", "f32", [](u64 a) { return F(float(i32(a))); });
  add("cvt.rn.f32.u64", "b64", "f32", [](u64 a) { return F(float(a)); });
  add("cvt.rn.f64.s64", "b64", "f64", [](u64 a) { return G(double(i64(a))); });
  add("cvt.rn.f32.u16", "b16", "f32", [](u64 a) { return F(float(u16(a))); });
  add("cvt.rn.f32.f64", "f64", "f32", [](u64 a) { return F(float(g(a))); });
  add("cvt.rz.f32.f64", "f64", "f32", [](u64 a) {
    volatile double x = g(a);
    std::fesetround(FE_TOWARDZERO);
    volatile float r = float(x);
    std::fesetround(FE_TONEAREST);
    return F(r);
  });
  add("cvt.f64.f32", "f32", "f64", [](u64 a) { return G(double(f(a))); });
  add("cvt.rni.f32.f32", "f32", "f32", [=](u64 a) { return F(std::nearbyint(f(a))); });
  add("cvt.rmi.f32.f32", "f32", "f32", [](u64 a) { return F(std::floor(f(a))); });
  add("cvt.rpi.f64.f64", "f64", "f64", [](u64 a) { return G(std::ceil(g(a))); });
  add("cvt.rzi.f32.f32", "f32", "f32", [](u64 a) { return F(std::trunc(f(a))); });
  add("cvt.sat.f32.f32", "f32", "f32", [](u64 a) { float x = f(a); return F(x > 0 ? (x < 1 ? x : 1.f) : 0.f); });
  add("cvt.s64.s32", "b32", "b64", [](u64 a) { return u64(i64(i32(a))); });
  add("cvt.u64.u32", "b32", "b64", [](u64 a) { return u64(u32(a)); });
  add("cvt.u32.u64", "b64", "b32", [](u64 a) { return u64(u32(a)); });
  add("cvt.s32.s8", "b32", "b32", [](u64 a) { return U(i32(i8(a))); });
  add("cvt.u16.u32", "b32", "b16", [](u64 a) { return u64(u16(a)); });
  add("cvt.sat.u8.s32", "b32", "b32", [](u64 a) { return u64(std::clamp<i32>(i32(a), 0, 255)); });
  add("cvt.sat.s16.s64", "b64", "b16", [](u64 a) { return U(i16(std::clamp<i64>(i64(a), -32768, 32767))); });
  add("cvt.sat.s32.u32", "b32", "b32", [](u64 a) { return u64(std::min<u32>(u32(a), 0x7fffffffu)); });
  add("cvt.f32.f16", "f16", "f32", [](u64 a) { return F(float(half_value(u16(a)))); });
  add("cvt.f32.bf16", "bf16", "f32", [](u64 a) { return F(float(bf16_value(u16(a)))); });
  add("cvt.rn.f16.f32", "f32", "f16", [](u64 a) { return u64(to_half(f(a))); });
  add("cvt.rn.bf16.f32", "f32", "bf16", [](u64 a) { return u64(to_bf16(f(a))); });
  add("cvt.rn.f16.f64", "f64", "f16", [](u64 a) { return u64(to_half(g(a))); });
  add("cvt.rn.f16.s32", "b32", "f16", [](u64 a) { return u64(to_half(i32(a))); });
  add("cvt.rzi.s32.f16", "f16", "b32", [](u64 a) { return saturate<i32>(std::trunc(half_value(u16(a)))); });
  auto directed = [](double x, bool up, bool zero) {
    u16 h = to_half(x);
    if (std::isnan(x)) return h;
    double v = half_value(h);
    auto previous = [](u16 p) { return u16(p - 1); };
    if (zero && std::fabs(v) > std::fabs(x)) return previous(h);
    if (!zero && up && v < x) return h & 0x8000 ? u16(h - 1) : u16(h + 1);
    if (!zero && up && v > x && false) return h;
    if (!zero && !up && v > x) return h & 0x8000 ? u16(h + 1) : h == 0 ? u16(0x8001) : u16(h - 1);
    return h;
  };
  add("cvt.rz.f16.f32", "f32", "f16", [=](u64 a) { return u64(directed(f(a), false, true)); });
  add("cvt.rp.f16.f32", "f32", "f16", [=](u64 a) { return u64(directed(f(a), true, false)); });
  add("cvt.rm.f16.f32", "f32", "f16", [=](u64 a) { return u64(directed(f(a), false, false)); });
  rows.push_back({"cvt.rn.f16x2.f32", "cvt.rn.f16x2.f32 %d, %a, %b;", "f32", "b32", [](u64 a, u64 b, u64) {
                    auto h = [](u64 x) { return u64(std::isnan(f(x)) ? 0x7fff : to_half(f(x))); };
                    return h(a) << 16 | h(b);
                  }});
  rows.push_back({"cvt.rn.bf16x2.f32", "cvt.rn.bf16x2.f32 %d, %a, %b;", "f32", "b32", [](u64 a, u64 b, u64) { return u64(to_bf16(f(a))) << 16 | to_bf16(f(b)); }});
  check(rows);
}

TEST(Instructions, HalfAndBfloat) {
  std::vector<Row> rows;
  for (bool bf : {false, true}) {
    std::string t = bf ? "bf16" : "f16";
    double (*value)(u16) = bf ? bf16_value : half_value;
    u16 (*put)(double) = bf ? to_bf16 : to_half;
    auto add = [&](std::string op, std::function<double(double, double, double)> host, std::string args, double ulps = 0) {
      rows.push_back({op + "." + t, op + "." + t + " %d, " + args + ";", t, t,
                      [=](u64 a, u64 b, u64 c) { return u64(put(host(value(u16(a)), value(u16(b)), value(u16(c))))); }, ulps});
    };
    add("add.rn", [](double a, double b, double) { return a + b; }, "%a, %b");
    add("sub.rn", [](double a, double b, double) { return a - b; }, "%a, %b");
    add("mul.rn", [](double a, double b, double) { return a * b; }, "%a, %b");
    // Long double holds the exact sum for all but the most distant operands, where a unit of the last place is allowed.
    rows.push_back({"fma.rn." + t, "fma.rn." + t + " %d, %a, %b, %c;", t, t,
                    [=](u64 a, u64 b, u64 c) {
                      double p = value(u16(a)) * value(u16(b)), s = p + value(u16(c));
                      double error = std::isfinite(s) ? double((static_cast<long double>(p) + static_cast<long double>(value(u16(c)))) - static_cast<long double>(s)) : 0;
                      if (error != 0) s = std::nextafter(s, error > 0 ? INFINITY : -INFINITY);
                      return u64(put(s));
                    }, 1});
    add("abs", [](double a, double, double) { return std::fabs(a); }, "%a");
    add("neg", [](double a, double, double) { return -a; }, "%a");
    auto pick = [](double a, double b, bool max) {
      if (std::isnan(a)) return b;
      if (std::isnan(b)) return a;
      if (a == b) return std::signbit(a) != max ? a : b;
      return (a < b) != max ? a : b;
    };
    add("min", [=](double a, double b, double) { return pick(a, b, false); }, "%a, %b");
    add("max.NaN", [=](double a, double b, double) { return std::isnan(a) || std::isnan(b) ? NAN : pick(a, b, true); }, "%a, %b");
    rows.push_back({"setp.lt." + t, "setp.lt." + t + " %p, %a, %b; selp.b16 %d, %a, %b, %p;", t, t,
                    [=](u64 a, u64 b, u64) { return value(u16(a)) < value(u16(b)) ? a : b; }});
    rows.push_back({"fma.x2." + t, "mov.b32 %w0, {%a, %b}; mov.b32 %w1, {%b, %c}; add.rn." + t + "x2 %w2, %w0, %w1; mov.b32 {%h0, %d}, %w2;", t, t,
                    [=](u64, u64 b, u64 c) { return u64(put(value(u16(b)) + value(u16(c)))); }});
    rows.push_back({"setp.x2." + t, "mov.b32 %w0, {%a, %b}; mov.b32 %w1, {%b, %c}; setp.gt." + t + "x2 %p|%p2, %w0, %w1; selp.b32 %w2, 1, 0, %p; selp.b32 %w3, 2, 0, %p2; or.b32 %d, %w2, %w3;", t, "b32",
                    [=](u64 a, u64 b, u64 c) { return u64(value(u16(a)) > value(u16(b))) | u64(value(u16(b)) > value(u16(c))) << 1; }});
  }
  rows.push_back({"ex2.approx.f16", "ex2.approx.f16 %d, %a;", "f16", "f16", [](u64 a, u64, u64) { return u64(to_half(std::exp2(half_value(u16(a))))); }, 1});
  rows.push_back({"tanh.approx.bf16", "tanh.approx.bf16 %d, %a;", "bf16", "bf16", [](u64 a, u64, u64) { return u64(to_bf16(std::tanh(bf16_value(u16(a))))); }, 1});
  check(rows);
}

}  // namespace
}  // namespace musacoder::vgpu::test
