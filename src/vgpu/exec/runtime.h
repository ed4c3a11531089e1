// State of a running launch: blocks, warps with their stacks, workers (one per host thread).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "vgpu/device.h"
#include "vgpu/exec/program.h"
#include "vgpu/memory/arena.h"

namespace musacoder::vgpu::exec {

struct Frame {
  const Code* code = nullptr;
  std::uint32_t regs_offset = 0;             // in the register file
  std::uint32_t local_base = 0;              // of this frame, bytes into local memory
  const CallSite* site = nullptr;            // where the caller is waiting
  std::uint32_t mask = 0;                    // lanes that made the call
};

struct AlignedFree {
  void operator()(std::uint8_t* p) const { ::operator delete[](p, std::align_val_t(64)); }
};
using AlignedBytes = std::unique_ptr<std::uint8_t[], AlignedFree>;
inline AlignedBytes aligned_bytes(std::size_t n) {
  return AlignedBytes(static_cast<std::uint8_t*>(::operator new[](n, std::align_val_t(64))));
}

struct CallocFree {
  void operator()(std::uint8_t* p) const { std::free(p); }
};

struct WarpContext : Warp {
  AlignedBytes file;                         // register file: frames one after another
  std::size_t file_bytes = 0;
  std::vector<SimtEntry> simt;
  std::vector<Frame> frames;
  std::unique_ptr<std::uint8_t, CallocFree> local_memory;
  const Program* filled_for = nullptr;       // the constants of the entry frame are in place
  std::uint32_t barrier = 0;                 // id it waits at
  const Inst* barrier_inst = nullptr;
};

struct Barrier {
  std::uint32_t arrived = 0;                 // threads
  std::uint32_t expected = 0;                // 0: all live threads
  std::uint32_t popc = 0;
  bool all = true, any = false;
};

inline constexpr unsigned kBarriers = 17;    // 16 of the ISA and one for barrier.cluster

struct Block {
  Worker* worker = nullptr;
  std::uint64_t linear = 0;
  std::uint32_t index[3] = {0, 0, 0};
  std::unique_ptr<std::uint8_t[]> shared_memory;
  std::vector<std::unique_ptr<WarpContext>> warps;  // null: not started, or ended
  std::vector<std::uint8_t> ended;
  std::uint32_t live = 0;                    // warps not done
  std::uint32_t next = 0;                    // round robin
  Barrier barriers[kBarriers];
  std::uint64_t used = 0;                    // fuel spent
};

struct LaunchState {
  const Program* program = nullptr;
  const LaunchConfig* config = nullptr;
  const GpuProperties* gpu = nullptr;
  Arena* arena = nullptr;
  std::vector<std::uint8_t> params;
  std::vector<std::uint32_t> tid[3];         // per thread of a block
  std::uint32_t shared_bytes = 0, threads = 0, warps = 0;
  std::uint64_t blocks = 0;
  std::uint64_t grid_workspace = 0;          // of cooperative launches, %envreg1:2
  std::uint64_t max_instructions = 0;
  std::chrono::steady_clock::time_point start;
  double max_seconds = 0;                    // 0: no limit
  std::atomic<std::uint64_t> next_block{0};
  std::atomic<std::uint64_t> instructions{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;                          // fault, printf, device malloc
  std::optional<Fault> fault;
  std::string* printf_output = nullptr;
};

struct Worker {
  LaunchState* launch = nullptr;
  double began = 0;                          // CPU seconds of its thread
  std::vector<RangeCache> caches;
  LaunchCounters counters{};
  std::vector<std::unique_ptr<WarpContext>> pool;
  std::vector<std::unique_ptr<Block>> block_pool;
  Fault fault;                               // of the warp that stopped this worker
};

inline WarpContext& context(Warp& w) { return static_cast<WarpContext&>(w); }

// Sets the warp's fault from the instruction at hand and stops it. lane < 32.
Fault& raise(Warp& w, const Inst* in, FaultKind kind, unsigned lane);
// As raise, for code that returns a next instruction.
inline const Inst* stop(Warp& w, const Inst* in, FaultKind kind, unsigned lane, std::string detail) {
  raise(w, in, kind, lane).detail = std::move(detail);
  return nullptr;
}
void compose_message(Fault& f);
std::string demangle(const std::string& name);
// Fills the constants of a frame: all of them, or those that change with the warp.
void fill_constants(WarpContext& w, const Code& code, std::uint8_t* regs, std::uint32_t local_base, bool only_per_warp);
// A builtin call for the active lanes; false with a fault.
bool run_builtin(Warp& w, const Inst* in, const CallSite& site);
const ptx::Instruction* origin_of(const Warp& w, const Inst* in);

// Runs every block of the launch on `threads` host threads.
void execute(LaunchState& launch, unsigned threads, Counters& counters);

}  // namespace musacoder::vgpu::exec
