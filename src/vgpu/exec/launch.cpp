#include <time.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>

#include "vgpu/exec/runtime.h"

namespace musacoder::vgpu::exec {
namespace {

constexpr std::int64_t kQuantum = 200'000;             // warp instructions between looks at the clock
constexpr std::int64_t kCooperativeQuantum = 4'000;
constexpr std::uint64_t kPatience = 2'000'000;         // a block that runs longer lets others start beside it
constexpr std::size_t kMaxResident = 64;

std::uint32_t special_value(const WarpContext& w, const ConstantSlot& c, unsigned lane) {
  using ptx::Special;
  const LaunchState& launch = *w.block->worker->launch;
  const LaunchConfig& config = *launch.config;
  auto axis = [&](const Dim3& d) { return c.component == 0 ? d.x : c.component == 1 ? d.y : c.component == 2 ? d.z : 1u; };
  switch (c.special) {
    case Special::kNtid: return axis(config.block);
    case Special::kCtaid:
    case Special::kClusterId: return c.component < 3 ? w.block->index[c.component] : 0;
    case Special::kNctaid:
    case Special::kNclusterId: return axis(config.grid);
    case Special::kLaneId: return lane;
    case Special::kWarpId: return w.index;
    case Special::kNwarpId: return std::uint32_t(launch.gpu->max_threads_per_sm) / kLanes;
    case Special::kSmId: return std::uint32_t(w.block->linear % std::uint64_t(std::max(1, launch.gpu->sm_count)));
    case Special::kNsmId: return std::uint32_t(launch.gpu->sm_count);
    case Special::kGridId: return 1;
    case Special::kLanemaskEq: return 1u << lane;
    case Special::kLanemaskLt: return (1u << lane) - 1;
    case Special::kLanemaskLe: return (2u << lane) - 1;
    case Special::kLanemaskGt: return ~((2u << lane) - 1);
    case Special::kLanemaskGe: return ~((1u << lane) - 1);
    case Special::kDynamicSmemSize: return config.dynamic_shared_bytes;
    case Special::kTotalSmemSize:
    case Special::kAggrSmemSize: return launch.shared_bytes;
    case Special::kEnvreg:
      if (c.component == 1) return std::uint32_t(launch.grid_workspace >> 32);
      if (c.component == 2) return std::uint32_t(launch.grid_workspace);
      return 0;
    case Special::kClusterNctaid: return 1;
    case Special::kClusterNctarank: return 1;
    case Special::kWarpSize: return kLanes;
    default: return 0;
  }
}

bool is_lane_mask(ptx::Special s) { return s >= ptx::Special::kLanemaskEq && s <= ptx::Special::kLanemaskGt; }

template <typename T>
void fill(std::uint8_t* at, T value) {
  T* row = reinterpret_cast<T*>(at);
  for (unsigned i = 0; i < kLanes; ++i) row[i] = value;
}
void fill_width(std::uint8_t* at, unsigned width, std::uint64_t value) {
  switch (width) {
    case 2: fill(at, std::uint16_t(value)); break;
    case 4: fill(at, std::uint32_t(value)); break;
    default: fill(at, value); break;
  }
}

std::unique_ptr<WarpContext> take_warp(Worker& worker) {
  if (!worker.pool.empty()) {
    auto w = std::move(worker.pool.back());
    worker.pool.pop_back();
    return w;
  }
  auto w = std::make_unique<WarpContext>();
  const LaunchState& launch = *worker.launch;
  w->file_bytes = launch.program->entry->frame_bytes * (launch.program->has_calls ? 2u : 1u) + 4096;
  w->file = aligned_bytes(w->file_bytes);
  std::memset(w->file.get(), 0, w->file_bytes);
  w->simt.resize(16);
  w->caches = worker.caches.data();
  w->counters = &worker.counters;
  w->worker = &worker;
  w->local_bytes = launch.program->local_bytes;
  if (w->local_bytes) {
    // calloc: pages of deep stacks that are never touched cost nothing.
    w->local_memory.reset(static_cast<std::uint8_t*>(std::calloc(kLanes, w->local_bytes)));
    if (!w->local_memory) throw std::bad_alloc();
    w->local = w->local_memory.get();
  }
  w->params = launch.params.data();
  w->param_bytes = std::uint32_t(launch.params.size());
  return w;
}

void start_warp(WarpContext& w, Block& block, std::uint32_t index) {
  const LaunchState& launch = *block.worker->launch;
  const Code& code = *launch.program->entry;
  w.block = &block;
  w.index = index;
  std::uint32_t threads = launch.threads - std::min(launch.threads, index * kLanes);
  w.mask = threads >= kLanes ? kFullMask : (1u << threads) - 1;
  w.exited = ~w.mask;
  w.shared = block.shared_memory.get();
  w.shared_bytes = launch.shared_bytes;
  w.stack = w.simt.data();
  w.sp = 1;
  w.stack[0] = {code.entry, nullptr, w.mask};
  w.pc = code.entry;
  w.regs = w.file.get();
  w.code = &code;
  w.frames.clear();
  w.frames.push_back({&code, 0, 0, nullptr, w.mask});
  w.state = WarpState::kReady;
  fill_constants(w, code, w.regs, 0, w.filled_for == launch.program);
  w.filled_for = launch.program;
}

std::unique_ptr<Block> start_block(Worker& worker, std::uint64_t linear) {
  LaunchState& launch = *worker.launch;
  std::unique_ptr<Block> block;
  if (!worker.block_pool.empty()) {
    block = std::move(worker.block_pool.back());
    worker.block_pool.pop_back();
  } else {
    block = std::make_unique<Block>();
    if (launch.shared_bytes) block->shared_memory.reset(new std::uint8_t[launch.shared_bytes]);
    block->warps.resize(launch.warps);
  }
  block->ended.assign(launch.warps, 0);
  block->worker = &worker;
  block->linear = linear;
  if (launch.shared_bytes) std::memset(block->shared_memory.get(), launch.arena->poison, launch.shared_bytes);
  const Dim3& grid = launch.config->grid;
  block->index[0] = std::uint32_t(linear % grid.x);
  block->index[1] = std::uint32_t(linear / grid.x % grid.y);
  block->index[2] = std::uint32_t(linear / grid.x / grid.y);
  block->live = launch.warps;
  block->next = 0;
  block->used = 0;
  for (auto& b : block->barriers) b = {};
  return block;
}

// Writes a barrier's reduction to a warp that waited in bar.red.
void finish_reduction(WarpContext& w, const Barrier& b) {
  const Inst* in = w.barrier_inst;
  if (in->fn != do_barrier_reduce) return;
  if (in->e == 0) {
    for (std::uint32_t m = w.mask; m; m &= m - 1)
      reinterpret_cast<std::uint32_t*>(w.regs + in->d)[std::countr_zero(m)] = b.popc;
  } else {
    bool r = in->e == 1 ? b.all : b.any;
    auto& p = *reinterpret_cast<std::uint32_t*>(w.regs + in->d);
    p = (p & ~w.mask) | (r ? w.mask : 0);
  }
}

// Releases every barrier that is complete; true when one was.
bool release_barriers(Block& block) {
  bool any = false;
  for (unsigned id = 0; id < kBarriers; ++id) {
    Barrier& b = block.barriers[id];
    if (!b.arrived) continue;
    bool complete = b.expected ? b.arrived >= b.expected : b.arrived >= block.live * kLanes;
    if (!complete) continue;
    for (auto& w : block.warps) {
      if (!w || w->state != WarpState::kBarrier || w->barrier != id) continue;
      finish_reduction(*w, b);
      w->state = WarpState::kReady;
    }
    b = {};
    any = true;
  }
  return any;
}

enum class Outcome { kFinished, kPreempted, kFault };

Outcome run_block(Block& block, std::int64_t quantum) {
  Worker& worker = *block.worker;
  LaunchState& launch = *worker.launch;
  const std::uint32_t n = launch.warps;
  const bool reverse = launch.config->reverse_blocks;
  std::int64_t left = quantum;
  while (block.live) {
    bool progressed = false;
    for (std::uint32_t k = 0; k < n; ++k) {
      std::uint32_t at = (block.next + k) % n;
      std::uint32_t index = reverse ? n - 1 - at : at;
      auto& slot = block.warps[index];
      if (!slot) {
        if (block.ended[index]) continue;
        slot = take_warp(worker);
        start_warp(*slot, block, index);
      }
      WarpContext& w = *slot;
      if (w.state == WarpState::kBarrier) continue;
      progressed = true;
      w.state = WarpState::kReady;
      // Warps that spin on one another each get a share of the quantum.
      std::int64_t given = std::min<std::int64_t>(left, std::max<std::int64_t>(quantum / 8, 1000));
      w.fuel = given;
      const Inst* pc = w.pc;
      do pc = pc->fn(w, pc);
      while (pc);
      std::int64_t spent = given - w.fuel;
      left -= spent;
      block.used += std::uint64_t(spent);
      if (w.state == WarpState::kFault) return Outcome::kFault;
      if (w.state == WarpState::kDone) {
        --block.live;
        block.ended[index] = 1;
        worker.pool.push_back(std::move(slot));  // its register file, still in the caches, serves the next warp
      }
      if (left <= 0) {
        block.next = (at + 1) % n;
        if (block.live) {
          release_barriers(block);
          return Outcome::kPreempted;
        }
      }
    }
    if (!block.live) break;
    bool released = release_barriers(block);
    if (!progressed && !released) {
      // Every live warp waits at a barrier that the others will not reach.
      for (auto& w : block.warps) {
        if (!w || w->state != WarpState::kBarrier) continue;
        unsigned lane = unsigned(std::countr_zero(w->mask));
        const Barrier& b = block.barriers[w->barrier];
        raise(*w, w->barrier_inst, FaultKind::kBarrier, lane).detail =
            fmt::format("barrier {} never completes: {} of {} threads arrived, the others wait elsewhere", w->barrier, b.arrived,
                        b.expected ? b.expected : block.live * kLanes);
        return Outcome::kFault;
      }
    }
    block.next = 0;
  }
  return Outcome::kFinished;
}

void finish_block(Worker& worker, std::unique_ptr<Block> block) {
  for (auto& w : block->warps)
    if (w) worker.pool.push_back(std::move(w));
  worker.block_pool.push_back(std::move(block));
}

// Makes the worker's fault the launch's, if it is the first, and stops every worker.
void publish(Worker& worker) {
  LaunchState& launch = *worker.launch;
  std::lock_guard lock(launch.mutex);
  launch.stop = true;
  if (launch.fault) return;
  compose_message(worker.fault);
  launch.fault = worker.fault;
}

double thread_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// A worker that had no core for part of the time may go on for that long, up to four times the limit.
bool over_time(const Worker& worker) {
  const LaunchState& launch = *worker.launch;
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - launch.start).count();
  if (wall <= launch.max_seconds) return false;
  return wall > 4 * launch.max_seconds || thread_seconds() - worker.began > 0.98 * launch.max_seconds;
}

// False when the launch must stop: limits or another worker's fault.
bool within_limits(Worker& worker, Block& block, std::uint64_t spent) {
  LaunchState& launch = *worker.launch;
  if (launch.stop.load(std::memory_order_relaxed)) return false;
  std::uint64_t total = launch.instructions.fetch_add(spent, std::memory_order_relaxed) + spent;
  std::string why;
  if (launch.max_instructions && total > launch.max_instructions)
    why = fmt::format("limit of {} warp instructions", launch.max_instructions);
  else if (launch.max_seconds > 0 && over_time(worker))
    why = fmt::format("time limit of {:.3g} s", launch.max_seconds);
  if (why.empty()) return true;
  for (auto& w : block.warps)
    if (w && w->mask) {
      raise(*w, w->pc, FaultKind::kTimeout, unsigned(std::countr_zero(w->mask))).detail = why;
      publish(worker);
      return false;
    }
  worker.fault = {};
  worker.fault.kind = FaultKind::kTimeout;
  worker.fault.kernel = demangle(launch.program->entry->function->name);
  worker.fault.block = {block.index[0], block.index[1], block.index[2]};
  worker.fault.detail = why;
  publish(worker);
  return false;
}

void run_blocks(Worker& worker) {
  LaunchState& launch = *worker.launch;
  worker.began = thread_seconds();
  worker.caches.assign(launch.program->cache_slots + 1, {});
  const bool cooperative = launch.config->cooperative;
  std::vector<std::unique_ptr<Block>> resident;
  std::uint64_t since_check = 0;
  auto next_block = [&]() -> std::unique_ptr<Block> {
    std::uint64_t k = launch.next_block.fetch_add(1, std::memory_order_relaxed);
    if (k >= launch.blocks) return nullptr;
    return start_block(worker, launch.config->reverse_blocks ? launch.blocks - 1 - k : k);
  };
  bool more = true;
  while (!launch.stop.load(std::memory_order_relaxed)) {
    if (cooperative) {
      // Every block is resident from the start: this worker's share is what the counter gives it.
      while (more) {
        auto block = next_block();
        if (!block) more = false;
        else resident.push_back(std::move(block));
      }
    } else if (more && (resident.empty() || (resident.size() < kMaxResident && resident.back()->used > kPatience))) {
      auto block = next_block();
      if (!block) more = false;
      else resident.push_back(std::move(block));
    }
    if (resident.empty()) break;
    for (std::size_t i = 0; i < resident.size();) {
      Block& block = *resident[i];
      std::uint64_t before = block.used;
      Outcome outcome = run_block(block, cooperative || resident.size() > 1 ? kCooperativeQuantum : kQuantum);
      since_check += block.used - before;
      if (outcome == Outcome::kFault) {
        publish(worker);
        break;
      }
      if (outcome == Outcome::kPreempted || since_check > std::uint64_t(kQuantum)) {
        if (!within_limits(worker, block, since_check)) break;
        since_check = 0;
      }
      if (outcome == Outcome::kFinished) {
        auto done = std::move(resident[i]);
        resident.erase(resident.begin() + std::ptrdiff_t(i));
        finish_block(worker, std::move(done));
      } else {
        ++i;
      }
    }
  }
}

void work(Worker& worker) {
  try {
    run_blocks(worker);
  } catch (const std::bad_alloc&) {
    worker.fault = {};
    worker.fault.kind = FaultKind::kInvalidLaunch;
    worker.fault.kernel = demangle(worker.launch->program->entry->function->name);
    worker.fault.detail = "the host has not enough memory for the kernel's registers, shared and local memory";
    publish(worker);
  }
  for (auto& cache : worker.caches)
    if (cache.range && cache.written) cache.range->kernel_written.fetch_add(cache.written, std::memory_order_relaxed);
}

}  // namespace

void fill_constants(WarpContext& w, const Code& code, std::uint8_t* regs, std::uint32_t local_base, bool only_per_warp) {
  const LaunchState& launch = *w.worker->launch;
  for (const auto& c : code.constants) {
    if (only_per_warp && !c.per_warp()) continue;
    std::uint8_t* at = regs + c.offset;
    switch (c.kind) {
      case ConstantSlot::Kind::kBits: fill_width(at, c.width, c.value); break;
      case ConstantSlot::Kind::kLocal: fill_width(at, c.width, kLocalWindow + local_base + c.value); break;
      case ConstantSlot::Kind::kPredicate: *reinterpret_cast<std::uint32_t*>(at) = c.value ? kFullMask : 0; break;
      case ConstantSlot::Kind::kParam: {
        std::uint64_t value = 0;
        if (c.value + c.width <= launch.params.size()) std::memcpy(&value, launch.params.data() + c.value, c.width);
        fill_width(at, c.width, value);
        break;
      }
      case ConstantSlot::Kind::kSpecial:
        if (c.special == ptx::Special::kTid) {
          if (c.component > 2 || c.width != 4) fill_width(at, c.width, 0);
          else std::memcpy(at, launch.tid[c.component].data() + w.index * kLanes, kLanes * 4);
          break;
        }
        if (c.special != ptx::Special::kLaneId && !is_lane_mask(c.special)) {
          fill_width(at, c.width, special_value(w, c, 0));
          break;
        }
        for (unsigned lane = 0; lane < kLanes; ++lane) {
          std::uint64_t value = special_value(w, c, lane);
          std::memcpy(at + lane * c.width, &value, c.width);
        }
        break;
    }
  }
}

void execute(LaunchState& launch, unsigned threads, Counters& counters) {
  threads = unsigned(std::clamp<std::uint64_t>(threads, 1, std::max<std::uint64_t>(1, launch.blocks)));
  std::vector<Worker> workers(threads);
  for (auto& w : workers) w.launch = &launch;
  std::vector<std::thread> pool;
  for (unsigned k = 1; k < threads; ++k) pool.emplace_back([&workers, k] { work(workers[k]); });
  work(workers[0]);
  for (auto& t : pool) t.join();
  for (const auto& w : workers) {
    counters.warp_instructions += w.counters.warp_instructions;
    counters.thread_instructions += w.counters.thread_instructions;
    counters.flops += w.counters.flops;
    counters.global_load_bytes += w.counters.global_load_bytes;
    counters.global_store_bytes += w.counters.global_store_bytes;
    counters.shared_accesses += w.counters.shared_accesses;
    counters.atomics += w.counters.atomics;
    counters.barriers += w.counters.barriers;
    counters.divergent_branches += w.counters.divergent_branches;
  }
}

}  // namespace musacoder::vgpu::exec
