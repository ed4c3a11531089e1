// What runs: decoded instructions, warps, and the contract between the decoder, the scheduler and the vector engine.
//
// A register is an array of 32 lanes in a warp's frame; an instruction names registers by byte offset, and its handler is
// one loop over lanes under Warp::mask. Constants, special registers, kernel parameters and addresses of variables live
// in the same frame, in slots filled before the first instruction, so that a handler never asks what kind an operand is.
//
// The engine (engine/*.cpp) is compiled once per instruction set level. Nothing here may be an inline function that the
// compiler could emit out of line, or an AVX-512 copy of it could be linked into code that runs everywhere.
#pragma once

#include <cstdint>

#include "vgpu/ptx/ptx.h"

namespace musacoder::vgpu::exec {

inline constexpr unsigned kLanes = 32;
inline constexpr std::uint32_t kFullMask = 0xffffffffu;

// Generic addresses: windows that no global allocation can fall into.
inline constexpr std::uint64_t kSharedWindow = 0x0100'0000'0000ull;
inline constexpr std::uint64_t kLocalWindow = 0x0200'0000'0000ull;
inline constexpr std::uint64_t kParamWindow = 0x0300'0000'0000ull;
inline constexpr std::uint64_t kFunctionWindow = 0x0400'0000'0000ull;
inline constexpr std::uint64_t kWindowBytes = 0x0100'0000'0000ull;

struct Warp;
struct Inst;
struct Code;
struct Block;
struct Worker;
struct CallSite;
struct MemoryRange;

// Returns the next instruction; nullptr leaves the run loop with Warp::state set.
using Handler = const Inst* (*)(Warp&, const Inst*);

struct alignas(64) Inst {
  Handler fn = nullptr;
  std::uint32_t d = 0, a = 0, b = 0, c = 0;   // frame offsets
  std::uint32_t e = 0, f = 0;                 // further offsets or small constants
  std::int64_t imm = 0;                       // address offset, table bits
  union {
    const Inst* target = nullptr;             // branches
    const CallSite* site;                     // calls
  };
  std::uint32_t slot = 0;                     // memory: index of its range cache; terminators: instructions of the block
  std::uint16_t flops = 0;                    // terminators: floating-point operations of the block per thread
  std::uint16_t flags = 0;                    // handler's own
};

struct SimtEntry {
  const Inst* pc;
  const Inst* rpc;
  std::uint32_t mask;
};

enum class WarpState : std::uint8_t { kReady, kPreempted, kBarrier, kDone, kFault };

// The last allocation an instruction touched; a whole warp access inside [lo, hi) needs no look-up.
struct RangeCache {
  std::uint64_t lo = 1, hi = 0;
  MemoryRange* range = nullptr;
  std::uint64_t written = 0;                  // bytes stored since this range was entered
};

struct LaunchCounters {
  std::uint64_t warp_instructions, thread_instructions, flops, global_load_bytes, global_store_bytes, shared_accesses,
      atomics, barriers, divergent_branches;
};

struct Warp {
  std::uint8_t* regs = nullptr;               // current frame
  std::uint32_t mask = 0;                     // active lanes
  std::uint32_t exited = 0;                   // lanes that have ended (or never existed)
  std::int64_t fuel = 0;                      // instructions until the scheduler looks again
  RangeCache* caches = nullptr;               // of this worker
  LaunchCounters* counters = nullptr;
  std::uint8_t* shared = nullptr;             // host address of the block's shared memory
  std::uint32_t shared_bytes = 0;
  std::uint32_t local_bytes = 0;              // per thread
  std::uint8_t* local = nullptr;              // lane l's local memory is at local + l * local_bytes
  const std::uint8_t* params = nullptr;       // kernel parameters
  std::uint32_t param_bytes = 0;
  std::uint32_t sp = 0;                       // SIMT stack depth
  SimtEntry* stack = nullptr;
  const Inst* pc = nullptr;                   // where to go on
  WarpState state = WarpState::kReady;
  Block* block = nullptr;
  Worker* worker = nullptr;
  std::uint32_t index = 0;                    // in the block
  const Code* code = nullptr;                 // of the current frame
};

// What a handler is chosen by.
enum class Op : std::uint16_t {
  kNone, kMov, kAdd, kSub, kMul, kMulHi, kMulWide, kMad, kMadHi, kMadWide, kMul24, kMad24, kSad, kDiv, kRem, kAbs, kNeg, kMin,
  kMax, kFma, kRcp, kSqrt, kRsqrt, kEx2, kLg2, kSin, kCos, kTanh, kAnd, kOr, kXor, kNot, kCnot, kShl, kShr, kLop3, kShf,
  kBfe, kBfi, kBfind, kBrev, kPopc, kClz, kPrmt, kDp4a, kDp2a, kFns, kSetp, kSet, kSelp, kSlct, kCvt, kCvtPack, kCopysign,
  kTestp, kPredAnd, kPredOr, kPredXor, kPredNot, kPredMov, kAddc, kAddCC, kSubc, kSubCC, kMadCC, kMadc, kBmsk, kSzext,
  kMovPack, kMovUnpack, kLd, kSt, kShfl, kLdSlow, kStSlow,
};
enum class Cmp : std::uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };
enum class Bool : std::uint8_t { kNone, kAnd, kOr, kXor };
enum class Round : std::uint8_t { kNearest, kZero, kDown, kUp, kAway };

struct Spec {
  Op op = Op::kNone;
  ptx::Type type = ptx::Type::kNone;
  ptx::Type source = ptx::Type::kNone;        // cvt, set, dp4a
  ptx::Space space = ptx::Space::kGeneric;
  Cmp cmp = Cmp::kEq;
  Bool combine = Bool::kNone;
  Round round = Round::kNearest;
  bool ftz = false, sat = false, approx = false, nan = false, xorsign = false, integral = false, relu = false;
  bool clamp = false, right = false;          // shf
  std::uint8_t width = 0;                     // register bytes of the destination (ld, cvt) or of the source (st)
  std::uint8_t source_width = 0;              // register bytes of the source (cvt)
  std::uint8_t vector = 1;
  std::uint8_t address_width = 8;
  std::uint8_t mode = 0;                      // shfl, testp
  bool has_predicate_out = false;
};

// The engine: handlers for everything that is a loop over lanes; nullptr for what it does not know.
using Lookup = Handler (*)(const Spec&);
// The best engine this processor can run; `name` gets "v2", "v3" or "v4". MUSACODER_VGPU_ISA in the environment lowers it.
Lookup engine_lookup(const char** name);

// Called by the engine on slow paths (memory_access.cpp).
// Puts the allocation that contains [lo, hi) into the instruction's cache; false when there is none.
bool refill_cache(Warp& w, const Inst* in, std::uint64_t lo, std::uint64_t hi);
// Host address of one lane's access in any space, or nullptr with the warp's fault set.
std::uint8_t* resolve(Warp& w, const Inst* in, unsigned lane, std::uint64_t address, unsigned bytes, ptx::Space space,
                      bool is_write);
// Loads and stores one lane at a time, in any space and shape; in->flags is an AccessShape.
struct AccessShape {
  static constexpr std::uint16_t pack(unsigned bytes_log2, unsigned width_log2, unsigned vector_log2, bool is_signed,
                                      ptx::Space space, bool address32, bool is_store) {
    return std::uint16_t(bytes_log2 | width_log2 << 3 | vector_log2 << 6 | unsigned(is_signed) << 8 | unsigned(space) << 9 |
                         unsigned(address32) << 12 | unsigned(is_store) << 13);
  }
};
const Inst* access_slow(Warp& w, const Inst* in);

}  // namespace musacoder::vgpu::exec
