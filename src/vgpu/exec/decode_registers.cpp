#include "vgpu/exec/decoder.h"

#include <functional>

namespace musacoder::vgpu::exec {

std::uint64_t FunctionDecoder::symbol_address(const Operand& o, bool* shared, bool* local) {
  *shared = *local = false;
  if (o.variable >= 0) {
    const auto& v = program_.image.module.variables[std::size_t(o.variable)];
    if (v.space == Space::kShared) {
      *shared = true;
      return program_.shared_offset(o.variable) + std::uint64_t(o.offset);
    }
    return program_.image.variable_address[std::size_t(o.variable)] + std::uint64_t(o.offset);
  }
  std::size_t index = std::size_t(-1 - o.variable);
  if (f_.variables[index].space == Space::kLocal) {
    *local = true;
    return local_offset_[index] + std::uint64_t(o.offset);
  }
  // A kernel's parameter; the address of a device function's parameter does not exist here.
  if (f_.is_entry)
    for (std::size_t i = 0; i < f_.param_vars.size(); ++i)
      if (f_.param_vars[i] == std::int32_t(index)) {
        std::vector<std::uint32_t> offsets;
        param_bytes(f_, &offsets);
        return kParamWindow + offsets[i] + std::uint64_t(o.offset);
      }
  failed_ = true;
  return 0;
}

std::optional<ConstantSlot> FunctionDecoder::constant_of(const Operand& o, unsigned width, Type type) {
  ConstantSlot c;
  c.width = std::uint8_t(width);
  auto truncate = [&] {
    if (c.kind == ConstantSlot::Kind::kBits && width < 8) c.value &= (1ull << (8 * width)) - 1;
    return c;
  };
  switch (o.kind) {
    case Kind::kInteger:
      c.value = o.bits;
      if (type == Type::kF32) {
        // An integer literal where a float is wanted means its bits only in .b types.
        c.value = o.bits;
      }
      return truncate();
    case Kind::kFloat:
      if (o.component == 32) {
        c.value = width == 8 ? std::bit_cast<std::uint64_t>(double(std::bit_cast<float>(std::uint32_t(o.bits)))) : o.bits;
      } else {
        c.value = width == 4 ? std::bit_cast<std::uint32_t>(float(std::bit_cast<double>(o.bits))) : o.bits;
      }
      return truncate();
    case Kind::kSpecial:
      if (clock_like(o.special)) return std::nullopt;
      c.kind = ConstantSlot::Kind::kSpecial;
      c.special = o.special;
      c.component = o.component;
      return c;
    case Kind::kSymbol: {
      if (o.variable < 0 && f_.variables[std::size_t(-1 - o.variable)].space == Space::kParam && !f_.is_entry)
        return std::nullopt;
      bool shared = false, local = false;
      c.value = symbol_address(o, &shared, &local);
      if (local) c.kind = ConstantSlot::Kind::kLocal;
      return truncate();
    }
    case Kind::kFunction:
      c.value = function_address(program_.image.module, o.name);
      return truncate();
    default: return std::nullopt;
  }
}

std::uint32_t FunctionDecoder::constant(ConstantSlot c) {
  auto key = std::tuple(std::uint8_t(c.kind), c.width, std::uint8_t(c.special), c.component, c.value);
  auto [it, fresh] = constant_index_.try_emplace(key, 0);
  if (fresh) {
    unsigned bytes = c.kind == ConstantSlot::Kind::kPredicate ? 64 : c.width * kLanes;
    frame_ = round_up(frame_, 64);
    c.offset = it->second = std::uint32_t(frame_);
    frame_ += bytes;
    code_.constants.push_back(c);
  }
  return it->second;
}

std::uint32_t FunctionDecoder::scratch(unsigned width) {
  unsigned k = width == 2 ? 0 : width == 4 ? 1 : width == 8 ? 2 : 3;
  if (!scratch_[k]) {
    frame_ = round_up(frame_, 64);
    scratch_[k] = std::uint32_t(frame_);
    frame_ += (2u << k) * kLanes;
  }
  return scratch_[k];
}
std::uint32_t FunctionDecoder::scratch_pred() { return scratch_pred_; }

void FunctionDecoder::find_aliases() {
  alias_.assign(f_.registers.size(), {});
  dropped_.assign(f_.body.size(), false);
  std::vector<std::uint32_t> definitions(f_.registers.size(), 0);
  for (auto r : f_.param_regs)
    if (r != ~0u) definitions[r] = 2;
  for (auto r : f_.result_regs)
    if (r != ~0u) definitions[r] = 2;
  DefUse du;
  for (const auto& in : f_.body) {
    def_use(in, du);
    for (auto r : du.defs) ++definitions[r];
  }
  std::vector<std::uint32_t> offsets;
  param_bytes(f_, &offsets);
  for (std::size_t i = 0; i < f_.body.size(); ++i) {
    const auto& in = f_.body[i];
    if (in.guard >= 0 || in.operands.size() != 2 || in.operands[0].kind != Kind::kReg || in.operands[0].second != ~0u) continue;
    std::uint32_t d = in.operands[0].reg;
    if (definitions[d] != 1) continue;
    Type dt = f_.registers[d].type;
    if (dt == Type::kPred || type_bytes(dt) > 8) continue;
    unsigned width = register_bytes(dt);
    const Operand& s = in.operands[1];
    Modifiers m = sort_modifiers(in);
    if (in.opcode == "mov" && m.types.size() == 1 && type_bytes(m.type()) == width) {
      if (s.kind == Kind::kReg) {
        if (definitions[s.reg] != 1 || operand_width(s) != width || is_pred(s)) continue;
        alias_[d].kind = Alias::Kind::kRegister;
        alias_[d].reg = s.reg;
        dropped_[i] = true;
      } else if (auto c = constant_of(s, width, m.type()); c && !failed_) {
        alias_[d].kind = Alias::Kind::kConstant;
        alias_[d].constant = *c;
        dropped_[i] = true;
      }
      failed_ = false;
    } else if (in.opcode == "cvta" && s.kind == Kind::kReg && width == 8 && operand_width(s) == 8 &&
               (m.space == Space::kGlobal || m.space == Space::kConst || m.space == Space::kLocal || m.space == Space::kParam)) {
      if (definitions[s.reg] != 1) continue;
      alias_[d].kind = Alias::Kind::kRegister;
      alias_[d].reg = s.reg;
      dropped_[i] = true;
    } else if (in.opcode == "ld" && m.space == Space::kParam && f_.is_entry && m.vector == 1 && s.kind == Kind::kAddress &&
               s.items[0].kind == Kind::kSymbol && s.items[0].variable < 0 && type_bytes(m.type()) == width) {
      std::int32_t var = -1 - s.items[0].variable;
      for (std::size_t p = 0; p < f_.param_vars.size(); ++p) {
        if (f_.param_vars[p] != var) continue;
        std::uint64_t at = offsets[p] + std::uint64_t(s.offset);
        if (s.offset < 0 || std::uint64_t(s.offset) + width > f_.params[p].bytes()) break;
        alias_[d].kind = Alias::Kind::kConstant;
        alias_[d].constant.kind = ConstantSlot::Kind::kParam;
        alias_[d].constant.width = std::uint8_t(width);
        alias_[d].constant.value = at;
        dropped_[i] = true;
      }
    }
  }
  // A cycle of aliases (only malformed text has one) is broken by keeping its registers.
  for (std::size_t r = 0; r < alias_.size(); ++r) {
    std::size_t at = r, steps = 0;
    while (alias_[at].kind == Alias::Kind::kRegister && ++steps <= 64) at = alias_[at].reg;
    if (steps > 64) alias_[r] = {};
  }
}

void FunctionDecoder::allocate_registers() {
  const std::size_t n = f_.registers.size();
  offset_.assign(n, ~0u);
  frame_ = 64;  // offset 0 stays unused so that it can mean "none"
  scratch_pred_ = std::uint32_t(frame_);
  carry_ = scratch_pred_ + 4;
  frame_ += 64;
  for (std::size_t r = 0; r < n; ++r)
    if (f_.registers[r].type == Type::kPred) {
      offset_[r] = std::uint32_t(frame_);
      frame_ += 4;
    }
  frame_ = round_up(frame_, 64);

  // Live ranges as one interval each, over positions 2i (uses) and 2i+1 (definitions), by block liveness.
  // A function too large for that gives every register a slot of its own.
  std::size_t words = (n + 63) / 64;
  const std::size_t count = blocks_.size();
  const bool precise = words * count <= kMaxLivenessWords;
  if (!precise) words = 0;
  std::vector<std::uint64_t> gen(count * words), kill(count * words), in(count * words), out(count * words);
  std::vector<std::uint32_t> first(n, ~0u), last(n, 0);
  auto touch = [&](std::uint32_t r, std::uint32_t at) {
    first[r] = std::min(first[r], at);
    last[r] = std::max(last[r], at);
  };
  auto pin = [&](std::uint32_t r) {
    if (r != ~0u) touch(r, 0), touch(r, std::uint32_t(2 * f_.body.size() + 1));
  };
  DefUse du;
  auto each_use = [&](auto&& visit) {
    for (auto u : du.uses) {
      std::uint32_t r = resolve_register(u);
      if (alias_[r].kind == Alias::Kind::kNone) visit(r);
    }
  };
  for (std::size_t b = 0; b < count; ++b) {
    for (std::uint32_t i = blocks_[b].begin; i < blocks_[b].end; ++i) {
      if (dropped_[i]) continue;
      def_use(f_.body[i], du);
      each_use([&](std::uint32_t r) {
        touch(r, 2 * i);
        // Sources end with the definition's position: no destination shares a source's slot.
        touch(r, 2 * i + 1);
        if (!precise) {
          pin(r);
          return;
        }
        if (!(kill[b * words + r / 64] >> (r % 64) & 1)) gen[b * words + r / 64] |= 1ull << (r % 64);
      });
      for (auto r : du.defs) {
        touch(r, 2 * i + 1);
        if (!precise) {
          pin(r);
          continue;
        }
        kill[b * words + r / 64] |= 1ull << (r % 64);
      }
    }
  }
  bool changed = true;
  while (changed) {
    changed = false;
    for (std::size_t b = count; b-- > 0;) {
      for (std::size_t k = 0; k < words; ++k) {
        std::uint64_t o = 0;
        for (auto s : blocks_[b].successors)
          if (s < count) o |= in[s * words + k];
        std::uint64_t i = gen[b * words + k] | (o & ~kill[b * words + k]);
        out[b * words + k] = o;
        if (i != in[b * words + k]) {
          in[b * words + k] = i;
          changed = true;
        }
      }
    }
  }
  for (std::size_t b = 0; b < count; ++b)
    for (std::size_t k = 0; k < words; ++k) {
      for (std::uint64_t m = in[b * words + k]; m; m &= m - 1)
        touch(std::uint32_t(k * 64) + std::uint32_t(std::countr_zero(m)), 2 * blocks_[b].begin);
      for (std::uint64_t m = out[b * words + k]; m; m &= m - 1)
        touch(std::uint32_t(k * 64) + std::uint32_t(std::countr_zero(m)), 2 * blocks_[b].end - 1);
    }
  for (auto r : f_.param_regs) pin(r);
  for (auto r : f_.result_regs) pin(r);

  // Linear scan, one pool a width.
  std::vector<std::uint32_t> order;
  for (std::uint32_t r = 0; r < n; ++r)
    if (first[r] != ~0u && f_.registers[r].type != Type::kPred) order.push_back(r);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return first[a] < first[b]; });
  for (unsigned width : {2u, 4u, 8u, 16u}) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> active;  // heap of (end, offset)
    std::vector<std::uint32_t> free;
    for (auto r : order) {
      if (register_bytes(f_.registers[r].type) != width) continue;
      while (!active.empty() && active.front().first < first[r]) {
        free.push_back(active.front().second);
        std::pop_heap(active.begin(), active.end(), std::greater<>());
        active.pop_back();
      }
      if (free.empty()) {
        offset_[r] = std::uint32_t(frame_);
        frame_ += width * kLanes;
      } else {
        offset_[r] = free.back();
        free.pop_back();
      }
      active.push_back({last[r], offset_[r]});
      std::push_heap(active.begin(), active.end(), std::greater<>());
    }
  }
  // Parameter areas of calls and of this function's own formals.
  areas_.assign(f_.variables.size(), {});
  local_offset_.assign(f_.variables.size(), 0);
  for (std::size_t v = 0; v < f_.variables.size(); ++v) {
    const auto& var = f_.variables[v];
    if (var.space == Space::kParam) {
      bool kernel_formal = f_.is_entry && std::find(f_.param_vars.begin(), f_.param_vars.end(), std::int32_t(v)) != f_.param_vars.end();
      if (kernel_formal) continue;
      frame_ = round_up(frame_, 64);
      areas_[v] = {std::uint32_t(frame_), std::uint32_t(std::min<std::uint64_t>(var.bytes(), 1u << 16))};
      frame_ += areas_[v].bytes * kLanes;
    }
  }
}

std::uint32_t FunctionDecoder::source(const Operand& o, unsigned width, Type type) {
  if (o.kind == Kind::kReg) {
    std::uint32_t r = resolve_register(o.reg);
    if (register_bytes(f_.registers[r].type) != width || f_.registers[r].type == Type::kPred) {
      failed_ = true;
      return 0;
    }
    if (alias_[r].kind == Alias::Kind::kConstant) return constant(alias_[r].constant);
    if (offset_[r] == ~0u) failed_ = true;
    return offset_[r];
  }
  if (auto c = constant_of(o, width, type)) return constant(*c);
  failed_ = true;
  return 0;
}

std::uint32_t FunctionDecoder::source_pred(const Operand& o) {
  if (o.kind == Kind::kReg && f_.registers[o.reg].type == Type::kPred) return offset_[o.reg];
  if (o.kind == Kind::kInteger) {
    ConstantSlot c;
    c.kind = ConstantSlot::Kind::kPredicate;
    c.value = o.bits != 0;
    return constant(c);
  }
  failed_ = true;
  return 0;
}

std::uint32_t FunctionDecoder::dest(const Operand& o, unsigned width) {
  if (o.kind == Kind::kSink) return scratch(width);
  if (o.kind != Kind::kReg || f_.registers[o.reg].type == Type::kPred || register_bytes(f_.registers[o.reg].type) != width ||
      alias_[o.reg].kind != Alias::Kind::kNone || offset_[o.reg] == ~0u) {
    failed_ = true;
    return 0;
  }
  return offset_[o.reg];
}

std::uint32_t FunctionDecoder::dest_pred(const Operand& o) {
  if (o.kind == Kind::kSink) return scratch_pred();
  if (o.kind != Kind::kReg || f_.registers[o.reg].type != Type::kPred) {
    failed_ = true;
    return 0;
  }
  return offset_[o.reg];
}

Inst& FunctionDecoder::emit(Handler fn) {
  if (guard_ >= 0) {
    Inst g;
    g.fn = do_guard;
    g.a = offset_[std::size_t(guard_)];
    g.flags = guard_negate_;
    code_.insts.push_back(g);
    code_.origin.push_back(origin_);
  }
  code_.insts.emplace_back();
  code_.insts.back().fn = fn;
  code_.origin.push_back(origin_);
  return code_.insts.back();
}

Handler FunctionDecoder::find(const Spec& s) {
  Handler h = program_.engine(s);
  if (!h) failed_ = true;
  return h;
}

void FunctionDecoder::unsupported() { emit(do_unsupported); }

}  // namespace musacoder::vgpu::exec
