// Branches, calls, barriers and the warp-wide instructions that are no loop over lanes.
//
// Divergence follows the classic reconvergence stack. The top entry is what runs; below it lie, for every divergent
// branch that is open, the sides that have not run yet and the entry that continues where they meet (the branch's
// immediate post-dominator). An entry with rpc == nullptr is the base of a function call.
#include <bit>
#include <cstring>

#include "vgpu/exec/runtime.h"

namespace musacoder::vgpu::exec {
namespace {

constexpr std::uint32_t kMaxCallDepth = 2048;
constexpr std::size_t kMaxFileBytes = 64u << 20;

template <typename T>
T* row(Warp& w, std::uint32_t offset) { return reinterpret_cast<T*>(w.regs + offset); }
std::uint32_t& pred(Warp& w, std::uint32_t offset) { return *row<std::uint32_t>(w, offset); }

void push(Warp& w, const Inst* pc, const Inst* rpc, std::uint32_t mask) {
  auto& simt = context(w).simt;
  if (w.sp == simt.size()) {
    simt.resize(simt.size() * 2);
    w.stack = simt.data();
  }
  w.stack[w.sp++] = {pc, rpc, mask};
}

void pop_frame(WarpContext& w) {
  w.frames.pop_back();
  const Frame& f = w.frames.back();
  w.regs = w.file.get() + f.regs_offset;
  w.code = f.code;
}

// Drops the top entry and every one below it that has no lanes left; nullptr when the warp has ended.
const Inst* pop_dead(Warp& w) {
  while (w.sp > 0) {
    bool base = w.stack[w.sp - 1].rpc == nullptr;
    --w.sp;
    if (w.sp == 0) break;
    if (base) pop_frame(context(w));
    std::uint32_t mask = w.stack[w.sp - 1].mask & ~w.exited;
    if (mask) {
      w.mask = mask;
      return w.stack[w.sp - 1].pc;
    }
  }
  w.mask = 0;
  w.state = WarpState::kDone;
  return nullptr;
}

const Inst* jump(Warp& w, const Inst* target) {
  while (target == w.stack[w.sp - 1].rpc) {
    --w.sp;
    std::uint32_t mask = w.stack[w.sp - 1].mask & ~w.exited;
    target = w.stack[w.sp - 1].pc;
    if (!mask) {
      target = pop_dead(w);
      if (!target) return nullptr;
      continue;
    }
    w.mask = mask;
  }
  if (w.fuel <= 0) [[unlikely]] {
    w.pc = target;
    w.state = WarpState::kPreempted;
    return nullptr;
  }
  return target;
}

void account(Warp& w, const Inst* in) {
  w.fuel -= in->slot;
  auto& c = *w.counters;
  auto lanes = std::uint64_t(std::popcount(w.mask));
  c.warp_instructions += in->slot;
  c.thread_instructions += in->slot * lanes;
  c.flops += in->flops * lanes;
}

// Opens divergence: the lanes in `taken` go to target, the others to other; they meet at rpc.
const Inst* diverge(Warp& w, const Inst* target, std::uint32_t taken, const Inst* other, std::uint32_t rest, const Inst* rpc) {
  ++w.counters->divergent_branches;
  if (w.stack[w.sp - 1].rpc == rpc) --w.sp;  // the entry below already waits at rpc with these lanes
  else w.stack[w.sp - 1].pc = rpc;
  if (other != rpc) push(w, other, rpc, rest);
  if (target != rpc) push(w, target, rpc, taken);
  w.mask = w.stack[w.sp - 1].mask & ~w.exited;
  return jump(w, w.stack[w.sp - 1].pc);
}

}  // namespace

const Inst* do_jump(Warp& w, const Inst* in) {
  account(w, in);
  return jump(w, in->target);
}

const Inst* do_branch(Warp& w, const Inst* in) {
  account(w, in);
  std::uint32_t p = pred(w, in->a);
  if (in->flags & 1) p = ~p;
  std::uint32_t taken = p & w.mask;
  if (taken == w.mask) return jump(w, in->target);
  if (taken == 0) return jump(w, in + 1);
  return diverge(w, in->target, taken, in + 1, w.mask & ~taken, reinterpret_cast<const Inst*>(in->imm));
}

const Inst* do_branch_table(Warp& w, const Inst* in) {
  account(w, in);
  const auto& table = *reinterpret_cast<const std::vector<const Inst*>*>(in->target);
  const auto* index = row<std::uint32_t>(w, in->a);
  const Inst* rpc = reinterpret_cast<const Inst*>(in->imm);
  std::uint32_t left = w.mask;
  struct Side {
    const Inst* pc;
    std::uint32_t mask;
  };
  Side sides[kLanes];
  unsigned count = 0;
  while (left) {
    unsigned lane = unsigned(std::countr_zero(left));
    if (index[lane] >= table.size())
      return stop(w, in, FaultKind::kTrap, lane, "brx.idx with an index outside its table");
    const Inst* target = table[index[lane]];
    std::uint32_t mask = 0;
    for (std::uint32_t m = left; m; m &= m - 1) {
      unsigned l = unsigned(std::countr_zero(m));
      if (index[l] < table.size() && table[index[l]] == target) mask |= 1u << l;
    }
    sides[count++] = {target, mask};
    left &= ~mask;
  }
  if (count == 1) return jump(w, sides[0].pc);
  ++w.counters->divergent_branches;
  if (w.stack[w.sp - 1].rpc == rpc) --w.sp;
  else w.stack[w.sp - 1].pc = rpc;
  for (unsigned k = count; k-- > 0;)
    if (sides[k].pc != rpc) push(w, sides[k].pc, rpc, sides[k].mask);
  w.mask = w.stack[w.sp - 1].mask & ~w.exited;
  return jump(w, w.stack[w.sp - 1].pc);
}

const Inst* do_exit(Warp& w, const Inst* in) {
  account(w, in);
  w.exited |= w.mask;
  const Inst* next = pop_dead(w);
  return next ? jump(w, next) : nullptr;
}

const Inst* do_exit_if(Warp& w, const Inst* in) {
  account(w, in);
  std::uint32_t p = pred(w, in->a);
  if (in->flags & 1) p = ~p;
  std::uint32_t leaving = p & w.mask;
  if (!leaving) return jump(w, in->target);
  w.exited |= leaving;
  w.mask &= ~leaving;
  if (w.mask) return jump(w, in->target);
  const Inst* next = pop_dead(w);
  return next ? jump(w, next) : nullptr;
}

const Inst* do_guard(Warp& w, const Inst* in) {
  std::uint32_t p = pred(w, in->a);
  if (in->flags & 1) p = ~p;
  std::uint32_t saved = w.mask;
  std::uint32_t active = saved & p;
  if (!active) return in + 2;
  w.mask = active;
  const Inst* next = in[1].fn(w, in + 1);
  w.mask = saved;
  return next;
}

// ---- calls ---------------------------------------------------------------------------------------------------------

namespace {

void copy_lanes(std::uint32_t mask, std::uint8_t* to, std::uint32_t to_stride, const std::uint8_t* from, std::uint32_t from_stride,
                std::uint32_t bytes) {
  for (; mask; mask &= mask - 1) {
    unsigned lane = unsigned(std::countr_zero(mask));
    std::memcpy(to + lane * to_stride, from + lane * from_stride, bytes);
  }
}

const Inst* enter(Warp& warp, const Inst* in, const CallSite& site, const Code& callee) {
  WarpContext& w = context(warp);
  unsigned lane = unsigned(std::countr_zero(w.mask));
  const Frame& caller = w.frames.back();
  std::size_t regs_offset = caller.regs_offset + caller.code->frame_bytes;
  std::uint32_t local_base = caller.local_base + caller.code->local_bytes;
  if (w.frames.size() >= kMaxCallDepth || regs_offset + callee.frame_bytes > kMaxFileBytes ||
      local_base + callee.local_bytes > w.local_bytes)
    return stop(w, in, FaultKind::kStackOverflow, lane,
                fmt::format("call depth {} with {} bytes of local memory", w.frames.size(), local_base + callee.local_bytes));
  if (regs_offset + callee.frame_bytes > w.file_bytes) {
    std::size_t bytes = std::max<std::size_t>(w.file_bytes * 2, regs_offset + callee.frame_bytes);
    AlignedBytes bigger = aligned_bytes(bytes);
    std::memcpy(bigger.get(), w.file.get(), w.file_bytes);
    std::memset(bigger.get() + w.file_bytes, 0, bytes - w.file_bytes);
    w.file = std::move(bigger);
    w.file_bytes = bytes;
    w.regs = w.file.get() + caller.regs_offset;
  }
  std::uint8_t* regs = w.file.get() + regs_offset;
  fill_constants(w, callee, regs, local_base, false);
  if (site.arguments.size() != callee.params.size())
    return stop(w, in, FaultKind::kUnsupported, lane, "call with another number of arguments than the function has");
  for (std::size_t k = 0; k < site.arguments.size(); ++k) {
    const auto& from = site.arguments[k];
    const auto& to = callee.params[k];
    if (to.bytes && from.area.bytes)
      copy_lanes(w.mask, regs + to.offset, to.bytes, w.regs + from.area.offset, from.area.bytes, std::min(to.bytes, from.area.bytes));
    else if (!to.bytes && !from.area.bytes && from.width == callee.param_widths[k])
      copy_lanes(w.mask, regs + callee.param_regs[k], from.width, w.regs + from.reg, from.width, from.width);
    else
      return stop(w, in, FaultKind::kUnsupported, lane, "call that mixes .reg and .param arguments");
  }
  w.stack[w.sp - 1].pc = site.rpc;
  push(w, callee.entry, nullptr, w.mask);
  w.frames.push_back({&callee, std::uint32_t(regs_offset), local_base, &site, w.mask});
  w.regs = regs;
  w.code = &callee;
  return jump(w, callee.entry);
}

}  // namespace

const Inst* do_return(Warp& warp, const Inst* in) {
  WarpContext& w = context(warp);
  account(w, in);
  const Frame frame = w.frames.back();
  const CallSite& site = *frame.site;
  std::uint8_t* from = w.regs;
  --w.sp;
  pop_frame(w);
  for (std::size_t k = 0; k < site.results.size() && k < frame.code->results.size(); ++k) {
    const auto& to = site.results[k];
    const auto& source = frame.code->results[k];
    if (to.area.bytes && source.bytes)
      copy_lanes(w.mask, w.regs + to.area.offset, to.area.bytes, from + source.offset, source.bytes,
                 std::min(to.area.bytes, source.bytes));
    else if (!to.area.bytes && !source.bytes && to.width == frame.code->result_widths[k])
      copy_lanes(w.mask, w.regs + to.reg, to.width, from + frame.code->result_regs[k], to.width, to.width);
  }
  w.mask = w.stack[w.sp - 1].mask & ~w.exited;
  return jump(w, w.stack[w.sp - 1].pc);
}

const Inst* do_call(Warp& w, const Inst* in) {
  account(w, in);
  const CallSite& site = *in->site;
  if (site.callee) return enter(w, in, site, *site.callee);
  if (!run_builtin(w, in, site)) return nullptr;
  return jump(w, site.rpc);
}

const Inst* do_call_indirect(Warp& w, const Inst* in) {
  const CallSite& site = *in->site;
  const auto* target = row<std::uint64_t>(w, in->a);
  unsigned first = unsigned(std::countr_zero(w.mask));
  std::uint64_t address = target[first];
  std::uint32_t same = 0;
  for (std::uint32_t m = w.mask; m; m &= m - 1) {
    unsigned lane = unsigned(std::countr_zero(m));
    if (target[lane] == address) same |= 1u << lane;
  }
  const Program& program = *context(w).block->worker->launch->program;
  std::uint64_t index = (address - kFunctionWindow) / 16;
  const Code* callee = nullptr;
  if (address > kFunctionWindow && address % 16 == 0 && index <= program.functions_by_index.size()) {
    auto it = program.codes.find(program.functions_by_index[index - 1]);
    if (it != program.codes.end()) callee = it->second.get();
  }
  if (!callee || callee->function->is_entry)
    return stop(w, in, FaultKind::kOutOfBounds, first, fmt::format("call through the pointer {:#x}, which is no function", address));
  account(w, in);
  if (same != w.mask) {
    // The others come back to this instruction; all meet at the next block.
    std::uint32_t rest = w.mask & ~same;
    ++w.counters->divergent_branches;
    if (w.stack[w.sp - 1].rpc == site.rpc) --w.sp;
    else w.stack[w.sp - 1].pc = site.rpc;
    push(w, in, site.rpc, rest);
    push(w, in, site.rpc, same);
    w.mask = same;
  }
  return enter(w, in, site, *callee);
}

// ---- barriers --------------------------------------------------------------------------------------------------------

namespace {

const Inst* arrive(Warp& warp, const Inst* in, bool waits) {
  WarpContext& w = context(warp);
  Block& block = *w.block;
  unsigned lane = unsigned(std::countr_zero(w.mask));
  std::uint32_t id = row<std::uint32_t>(w, in->a)[lane];
  std::uint32_t count = row<std::uint32_t>(w, in->b)[lane];
  if (id >= kBarriers) return stop(w, in, FaultKind::kBarrier, lane, fmt::format("barrier {} does not exist", id));
  if ((w.mask | w.exited) != kFullMask) {
    std::uint32_t missing = ~(w.mask | w.exited);
    return stop(w, in, FaultKind::kBarrier, unsigned(std::countr_zero(missing)),
                "the barrier was reached by only a part of the warp: this thread took another path");
  }
  ++w.counters->barriers;
  Barrier& b = block.barriers[id];
  // Threads that have exited count as arrived, as in hardware.
  b.arrived += kLanes;
  if (count) b.expected = count;
  w.barrier = id;
  w.barrier_inst = in;
  if (!waits) return in + 1;
  w.pc = in + 1;
  w.state = WarpState::kBarrier;
  return nullptr;
}

}  // namespace

const Inst* do_barrier(Warp& w, const Inst* in) { return arrive(w, in, true); }
const Inst* do_barrier_arrive(Warp& w, const Inst* in) { return arrive(w, in, false); }
const Inst* do_barrier_reduce(Warp& w, const Inst* in) {
  std::uint32_t id = row<std::uint32_t>(w, in->a)[std::countr_zero(w.mask)];
  if (id < kBarriers) {
    Barrier& b = context(w).block->barriers[id];
    std::uint32_t p = pred(w, in->c);
    if (in->f) p = ~p;
    p &= w.mask;
    b.popc += std::uint32_t(std::popcount(p));
    b.all = b.all && p == w.mask;
    b.any = b.any || p;
  }
  return arrive(w, in, true);
}

// ---- the rest --------------------------------------------------------------------------------------------------------

const Inst* do_nop(Warp&, const Inst* in) { return in + 1; }

const Inst* do_trap(Warp& w, const Inst* in) {
  return stop(w, in, FaultKind::kTrap, unsigned(std::countr_zero(w.mask)), "trap");
}

const Inst* do_unsupported(Warp& w, const Inst* in) {
  const ptx::Instruction* origin = origin_of(w, in);
  std::string text = origin ? origin->text() : "?";
  if (origin && origin->opcode == "call")
    for (const auto& o : origin->operands)
      if (o.kind == ptx::Operand::Kind::kName || o.kind == ptx::Operand::Kind::kFunction) {
        text += ' ';
        text += o.name;
        break;
      }
  return stop(w, in, FaultKind::kUnsupported, unsigned(std::countr_zero(w.mask)), std::move(text));
}

const Inst* do_vote(Warp& w, const Inst* in) {
  std::uint32_t p = pred(w, in->a);
  if (in->flags & 1) p = ~p;
  const auto* members = row<std::uint32_t>(w, in->b);
  // Lanes may vote in different groups at once: each sees the active lanes of its own mask.
  std::uint32_t result = 0;
  for (std::uint32_t m = w.mask; m; m &= m - 1) {
    unsigned lane = unsigned(std::countr_zero(m));
    std::uint32_t group = members[lane] & w.mask;
    std::uint32_t yes = p & group;
    if (in->e == 0) {
      row<std::uint32_t>(w, in->d)[lane] = yes;
      continue;
    }
    bool r = in->e == 1 ? yes == group : in->e == 2 ? yes != 0 : yes == group || yes == 0;
    result |= std::uint32_t(r) << lane;
  }
  if (in->e) {
    std::uint32_t& d = pred(w, in->d);
    d = (d & ~w.mask) | (result & w.mask);
  }
  return in + 1;
}

const Inst* do_match(Warp& w, const Inst* in) {
  const auto* members = row<std::uint32_t>(w, in->b);
  std::uint64_t value[kLanes];
  for (unsigned i = 0; i < kLanes; ++i)
    value[i] = in->flags == 8 ? row<std::uint64_t>(w, in->a)[i] : row<std::uint32_t>(w, in->a)[i];
  std::uint32_t all = 0;
  for (std::uint32_t m = w.mask; m; m &= m - 1) {
    unsigned lane = unsigned(std::countr_zero(m));
    std::uint32_t group = members[lane] & w.mask, equal = 0;
    for (std::uint32_t g = group; g; g &= g - 1) {
      unsigned other = unsigned(std::countr_zero(g));
      if (value[other] == value[lane]) equal |= 1u << other;
    }
    if (in->e) {
      bool same = equal == group;
      all |= std::uint32_t(same) << lane;
      row<std::uint32_t>(w, in->d)[lane] = same ? group : 0;
    } else {
      row<std::uint32_t>(w, in->d)[lane] = equal;
    }
  }
  std::uint32_t& p = pred(w, in->f);
  p = (p & ~w.mask) | (all & w.mask);
  return in + 1;
}

const Inst* do_redux(Warp& w, const Inst* in) {
  const auto* a = row<std::uint32_t>(w, in->a);
  const auto* members = row<std::uint32_t>(w, in->b);
  std::uint32_t out[kLanes];
  for (std::uint32_t m = w.mask; m; m &= m - 1) {
    unsigned lane = unsigned(std::countr_zero(m));
    std::uint32_t group = members[lane] & w.mask;
    bool first = true;
    std::uint32_t r = 0;
    for (std::uint32_t g = group; g; g &= g - 1) {
      std::uint32_t x = a[std::countr_zero(g)];
      if (first) {
        r = x;
        first = false;
        continue;
      }
      bool is_signed = in->flags & 1;
      bool less = is_signed ? std::int32_t(x) < std::int32_t(r) : x < r;
      switch (in->e) {
        case 0: r += x; break;
        case 1: r = less ? x : r; break;
        case 2: r = less ? r : x; break;
        case 3: r &= x; break;
        case 4: r |= x; break;
        default: r ^= x; break;
      }
    }
    out[lane] = r;
  }
  for (std::uint32_t m = w.mask; m; m &= m - 1) {
    unsigned lane = unsigned(std::countr_zero(m));
    row<std::uint32_t>(w, in->d)[lane] = out[lane];
  }
  return in + 1;
}

const Inst* do_activemask(Warp& w, const Inst* in) {
  for (std::uint32_t m = w.mask; m; m &= m - 1) row<std::uint32_t>(w, in->d)[std::countr_zero(m)] = w.mask;
  return in + 1;
}

const Inst* do_elect(Warp& w, const Inst* in) {
  const auto* members = row<std::uint32_t>(w, in->b);
  std::uint32_t result = 0;
  for (std::uint32_t m = w.mask; m; m &= m - 1) {
    unsigned lane = unsigned(std::countr_zero(m));
    std::uint32_t group = members[lane] & w.mask;
    unsigned leader = group ? unsigned(std::countr_zero(group)) : lane;
    row<std::uint32_t>(w, in->d)[lane] = leader;
    result |= std::uint32_t(leader == lane) << lane;
  }
  std::uint32_t& p = pred(w, in->f);
  p = (p & ~w.mask) | (result & w.mask);
  return in + 1;
}

const Inst* do_now(Warp& w, const Inst* in) {
  using ptx::Special;
  auto elapsed = std::chrono::steady_clock::now().time_since_epoch();
  auto ns = std::uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
  // Clocks count the warp's own instructions at about four cycles each: reproducible, and monotonic in a warp.
  std::uint64_t cycles = w.counters->warp_instructions * 4 + 1;
  std::uint64_t value = 0;
  switch (Special(in->e)) {
    case Special::kClock: value = cycles & 0xffffffff; break;
    case Special::kClockHi: value = cycles >> 32; break;
    case Special::kClock64: value = cycles; break;
    case Special::kGlobaltimerLo: value = ns & 0xffffffff; break;
    case Special::kGlobaltimerHi: value = ns >> 32; break;
    default: value = ns; break;
  }
  for (std::uint32_t m = w.mask; m; m &= m - 1) {
    unsigned lane = unsigned(std::countr_zero(m));
    if (in->f == 8) row<std::uint64_t>(w, in->d)[lane] = value;
    else row<std::uint32_t>(w, in->d)[lane] = std::uint32_t(value);
  }
  return in + 1;
}

const Inst* do_cvta(Warp& w, const Inst* in) {
  const auto* a = row<std::uint64_t>(w, in->a);
  auto* d = row<std::uint64_t>(w, in->d);
  for (std::uint32_t m = w.mask; m; m &= m - 1) {
    unsigned lane = unsigned(std::countr_zero(m));
    d[lane] = a[lane] + std::uint64_t(in->imm);
  }
  return in + 1;
}

const Inst* do_isspacep(Warp& w, const Inst* in) {
  const auto* a = row<std::uint64_t>(w, in->a);
  std::uint32_t result = 0;
  for (std::uint32_t m = w.mask; m; m &= m - 1) {
    unsigned lane = unsigned(std::countr_zero(m));
    auto inside = [&](std::uint64_t base) { return a[lane] >= base && a[lane] < base + kWindowBytes; };
    bool r = false;
    switch (ptx::Space(in->e)) {
      case ptx::Space::kShared: r = inside(kSharedWindow); break;
      case ptx::Space::kLocal: r = inside(kLocalWindow); break;
      case ptx::Space::kParam: r = inside(kParamWindow); break;
      case ptx::Space::kConst: r = false; break;
      default: r = a[lane] >= kFunctionWindow + kWindowBytes; break;
    }
    result |= std::uint32_t(r) << lane;
  }
  std::uint32_t& p = pred(w, in->d);
  p = (p & ~w.mask) | (result & w.mask);
  return in + 1;
}

}  // namespace musacoder::vgpu::exec
