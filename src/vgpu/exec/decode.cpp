#include <cstring>
#include <functional>
#include <set>

#include "vgpu/exec/decoder.h"

namespace musacoder::vgpu::exec {

bool ConstantSlot::per_warp() const {
  if (kind != Kind::kSpecial) return false;
  switch (special) {
    case Special::kTid:
    case Special::kCtaid:
    case Special::kWarpId:
    case Special::kSmId:
    case Special::kClusterId: return true;
    default: return false;
  }
}

std::uint64_t function_address(const ptx::Module& module, std::string_view name) {
  auto it = module.function_index.find(name);
  return it == module.function_index.end() ? 0 : kFunctionWindow + 16 * (it->second + 1ull);
}

std::uint32_t param_bytes(const ptx::Function& f, std::vector<std::uint32_t>* offsets) {
  std::uint64_t at = 0;
  for (const auto& p : f.params) {
    at = (at + p.align - 1) / p.align * p.align;
    if (offsets) offsets->push_back(std::uint32_t(at));
    at += p.bytes();
  }
  return std::uint32_t(std::min<std::uint64_t>(at, 1u << 20));
}

std::uint32_t local_usage(const ptx::Function& f) {
  std::uint64_t at = 0;
  for (const auto& v : f.variables)
    if (v.space == Space::kLocal) at = clamped(round_up(at, v.align) + v.bytes());
  return clamped(round_up(at, 16));
}

namespace {

// Functions a function can call directly, in order; sets *indirect when it calls through a pointer.
void for_each_callee(const ptx::Module& module, const ptx::Function& f, bool* indirect,
                     const std::function<void(const ptx::Function&)>& visit) {
  for (const auto& in : f.body) {
    if (in.opcode != "call") continue;
    const Operand* target = nullptr;
    for (const auto& o : in.operands)
      if (o.kind != Kind::kList) {
        target = &o;
        break;
      }
    if (!target) continue;
    if (target->kind == Kind::kReg) *indirect = true;
    else if (const auto* g = module.find_function(target->name)) visit(*g);
  }
}
std::vector<const ptx::Function*> reachable(const ptx::Module& module, const ptx::Function& kernel) {
  std::vector<const ptx::Function*> out{&kernel};
  std::set<const ptx::Function*> seen{&kernel};
  bool indirect = false, all = false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    for_each_callee(module, *out[i], &indirect, [&](const ptx::Function& g) {
      if (g.has_body && seen.insert(&g).second) out.push_back(&g);
    });
    if (indirect && !all) {
      all = true;
      for (const auto& g : module.functions)
        if (!g.is_entry && g.has_body && seen.insert(&g).second) out.push_back(&g);
    }
  }
  return out;
}
void for_each_shared(const ptx::Module& module, const ptx::Function& f, const std::function<void(std::int32_t)>& visit) {
  std::function<void(const Operand&)> walk = [&](const Operand& o) {
    if (o.kind == Kind::kSymbol && o.variable >= 0 && module.variables[std::size_t(o.variable)].space == Space::kShared)
      visit(o.variable);
    for (const auto& item : o.items) walk(item);
  };
  for (const auto& in : f.body)
    for (const auto& o : in.operands) walk(o);
}

}  // namespace

bool FunctionDecoder::call(const Instruction& in, const Modifiers&, std::uint32_t block) {
  const auto& o = in.operands;
  std::size_t at = 0;
  const Operand* results = nullptr;
  if (!o.empty() && o[0].kind == Kind::kList) results = &o[at++];
  if (at >= o.size()) return false;
  const Operand& target = o[at++];
  const Operand* arguments = at < o.size() && o[at].kind == Kind::kList ? &o[at] : nullptr;
  program_.program.has_calls = true;
  program_.program.sites.emplace_back();
  CallSite& site = program_.program.sites.back();
  auto fill = [&](const Operand* list, std::vector<CallSite::Argument>& out, bool result) {
    if (!list) return true;
    for (const auto& item : list->items) {
      CallSite::Argument a;
      if (item.kind == Kind::kSymbol && item.variable < 0) {
        a.area = areas_[std::size_t(-1 - item.variable)];
        if (!a.area.bytes) return false;
      } else if (item.kind == Kind::kReg) {
        a.width = std::uint8_t(operand_width(item));
        if (is_pred(item)) return false;
        a.reg = result ? dest(item, a.width) : source(item, a.width, Type::kNone);
      } else {
        return false;
      }
      out.push_back(a);
    }
    return !failed_;
  };
  if (!fill(results, site.results, true) || !fill(arguments, site.arguments, false)) return false;
  Inst i;
  i.site = &site;
  if (target.kind == Kind::kReg) {
    program_.need_all_functions();
    i.a = source(target, 8, Type::kU64);
    if (failed_) return false;
    i.fn = do_call_indirect;
  } else {
    site.name = std::string(target.name);
    const ptx::Function* f = program_.image.module.find_function(target.name);
    if (f && f->has_body) {
      site.callee = program_.code_for(f);
    } else if (target.name == "vprintf") {
      site.builtin = Builtin::kVprintf;
    } else if (target.name == "__assertfail") {
      site.builtin = Builtin::kAssertfail;
    } else if (target.name == "malloc") {
      site.builtin = Builtin::kMalloc;
    } else if (target.name == "free") {
      site.builtin = Builtin::kFree;
    } else {
      return false;
    }
    i.fn = do_call;
  }
  i.slot = counted_;
  i.flops = std::uint16_t(std::min(flops_, 0xffffu));
  // A guard splits the warp like a branch around the call.
  Inst guard;
  bool guarded = in.guard >= 0;
  if (guarded) {
    guard.fn = do_branch;
    guard.a = offset_[std::size_t(in.guard)];
    guard.flags = !in.guard_negate;  // lanes whose guard is false branch over
    code_.insts.push_back(guard);
    code_.origin.push_back(origin_);
    fixups_.push_back({std::uint32_t(code_.insts.size() - 1), block + 1, Fixup::Field::kTarget});
    fixups_.push_back({std::uint32_t(code_.insts.size() - 1), block + 1, Fixup::Field::kRpc});
  }
  code_.insts.push_back(i);
  code_.origin.push_back(origin_);
  site_fixups_.push_back({&site, block + 1});
  return true;
}

bool FunctionDecoder::decode(const Instruction& in, const Modifiers& m) {
  std::string_view op = in.opcode;
  struct Row {
    std::string_view name;
    Op op;
    unsigned sources;
  };
  static constexpr Row kArithmetic[] = {
      {"add", Op::kAdd, 2},   {"sub", Op::kSub, 2},     {"mul", Op::kMul, 2},     {"mad", Op::kMad, 3},   {"fma", Op::kFma, 3},
      {"div", Op::kDiv, 2},   {"rem", Op::kRem, 2},     {"abs", Op::kAbs, 1},     {"neg", Op::kNeg, 1},   {"min", Op::kMin, 2},
      {"max", Op::kMax, 2},   {"rcp", Op::kRcp, 1},     {"sqrt", Op::kSqrt, 1},   {"rsqrt", Op::kRsqrt, 1}, {"ex2", Op::kEx2, 1},
      {"lg2", Op::kLg2, 1},   {"sin", Op::kSin, 1},     {"cos", Op::kCos, 1},     {"tanh", Op::kTanh, 1}, {"sad", Op::kSad, 3},
      {"mul24", Op::kMul24, 2}, {"mad24", Op::kMad24, 3}, {"copysign", Op::kCopysign, 2}, {"addc", Op::kAdd, 2},
      {"subc", Op::kSub, 2},  {"madc", Op::kMad, 3}};
  for (const auto& row : kArithmetic)
    if (row.name == op) {
      count_flops(in, m);
      return arithmetic(in, m, row.op, row.sources);
    }
  if ((op == "and" || op == "or" || op == "xor") && m.type() != Type::kPred)
    return arithmetic(in, m, op == "and" ? Op::kAnd : op == "or" ? Op::kOr : Op::kXor, 2);
  if (op == "mov") return move(in, m);
  if (op == "ld" || op == "ldu") return load_store(in, m, true);
  if (op == "st") return load_store(in, m, false);
  if (op == "cvt") return convert(in, m);
  if (op == "setp" || op == "set") return compare(in, m);
  if (op == "atom") return atomic(in, m, false);
  if (op == "red") return atomic(in, m, true);
  if (op == "bar" || op == "barrier") return barrier(in, m);
  if (op == "shfl" || op == "vote" || op == "match" || op == "redux" || op == "activemask" || op == "elect") return warp_op(in, m);
  if (op == "membar" || op == "fence" || op == "prefetch" || op == "prefetchu" || op == "nanosleep" || op == "griddepcontrol" ||
      op == "setmaxnreg" || op == "discard" || op == "applypriority" || op == "pmevent") {
    emit(do_nop);
    return true;
  }
  if (op == "createpolicy") {
    Operand zero;
    zero.kind = Kind::kInteger;
    Spec s;
    s.op = Op::kMov;
    s.type = Type::kB64;
    Inst i;
    i.d = dest(in.operands.at(0), 8);
    i.a = bits_constant(0, 8);
    Handler h = find(s);
    if (failed_) return false;
    i.fn = h;
    emit(h) = i;
    return true;
  }
  if (op == "cvta") {
    if (in.operands.size() != 2) return false;
    Inst i;
    i.d = dest(in.operands[0], 8);
    i.a = source(in.operands[1], 8, Type::kU64);
    if (failed_) return false;
    if (m.space == Space::kShared) i.imm = std::int64_t(m.to ? 0 - kSharedWindow : kSharedWindow);
    i.fn = do_cvta;
    emit(do_cvta) = i;
    return true;
  }
  if (op == "isspacep") {
    if (in.operands.size() != 2) return false;
    Inst i;
    i.d = dest_pred(in.operands[0]);
    i.a = source(in.operands[1], 8, Type::kU64);
    if (failed_) return false;
    i.e = std::uint32_t(m.space);
    i.fn = do_isspacep;
    emit(do_isspacep) = i;
    return true;
  }
  if (op == "cp") {
    if (!m.has("async")) return false;
    if (m.has("commit_group") || m.has("wait_group") || m.has("wait_all")) {
      emit(do_nop);
      return true;
    }
    if (m.has("bulk") || m.has("mbarrier") || in.operands.size() < 3) return false;
    Inst i;
    unsigned width = 8, source_width = 8;
    if (!address(in.operands[0], i, Space::kShared, &width)) return false;
    Inst from;
    if (!address(in.operands[1], from, Space::kGlobal, &source_width) || source_width != 8) return false;
    if (in.operands[2].kind != Kind::kInteger || from.imm < INT32_MIN || from.imm > INT32_MAX) return false;
    i.b = from.a;
    i.f = std::uint32_t(std::int32_t(from.imm));
    i.e = std::uint32_t(in.operands[2].bits);
    if (i.e != 4 && i.e != 8 && i.e != 16) return false;
    i.c = in.operands.size() > 3 && !m.has("L2::cache_hint") ? source(in.operands[3], 4, Type::kU32) : bits_constant(i.e, 4);
    if (failed_) return false;
    i.flags = AccessShape::pack(0, 0, 0, false, Space::kShared, width == 4, true);
    i.slot = program_.program.cache_slots++;
    i.fn = do_cp_async;
    emit(do_cp_async) = i;
    return true;
  }
  if (op == "brkpt") {
    emit(do_trap);
    return true;
  }
  if (op == "mma" || op == "wmma" || op == "ldmatrix" || op == "stmatrix" || op == "movmatrix") return tensor(in, m);
  return bits(in, m);
}

void FunctionDecoder::instruction(const Instruction& in) {
  guard_ = in.guard;
  guard_negate_ = in.guard_negate;
  failed_ = false;
  ++counted_;
  std::size_t before = code_.insts.size();
  Modifiers m = sort_modifiers(in);
  if (!decode(in, m) || failed_) {
    code_.insts.resize(before);
    code_.origin.resize(before);
    failed_ = false;
    unsupported();
  }
  guard_ = -1;
}

void FunctionDecoder::terminator(const BasicBlock& block, std::uint32_t index) {
  const Instruction& last = f_.body[block.end - 1];
  origin_ = std::int32_t(block.end - 1);
  failed_ = false;
  auto add = [&](Handler fn) -> Inst& {
    Inst i;
    i.fn = fn;
    i.slot = counted_;
    i.flops = std::uint16_t(std::min(flops_, 0xffffu));
    if (last.guard >= 0) {
      i.a = offset_[std::size_t(last.guard)];
      i.flags = last.guard_negate;
    }
    code_.insts.push_back(i);
    code_.origin.push_back(origin_);
    return code_.insts.back();
  };
  auto fix = [&](std::uint32_t target, Fixup::Field field) {
    fixups_.push_back({std::uint32_t(code_.insts.size() - 1), target, field});
  };
  const auto exit_block = std::uint32_t(blocks_.size());
  auto only_exits = [&](std::uint32_t b) {
    if (!f_.is_entry) return false;
    if (b >= blocks_.size()) return true;
    const Instruction& first = f_.body[blocks_[b].begin];
    return first.guard < 0 && (first.opcode == "ret" || first.opcode == "exit");
  };
  if (last.opcode == "bra") {
    ++counted_;
    std::uint32_t target = block_of_instruction_.at(last.operands[0].label);
    // Lanes that branch to a bare `ret` end there and then: they must not be waited for at barriers further on.
    if (last.guard >= 0 && only_exits(target)) {
      add(do_exit_if);
      fix(index + 1, Fixup::Field::kTarget);
    } else if (last.guard >= 0 && only_exits(index + 1)) {
      add(do_exit_if).flags ^= 1;
      fix(target, Fixup::Field::kTarget);
    } else if (last.guard >= 0) {
      add(do_branch);
      fix(target, Fixup::Field::kTarget);
      fix(block.post_dominator, Fixup::Field::kRpc);
    } else {
      add(do_jump);
      fix(target, Fixup::Field::kTarget);
    }
  } else if (last.opcode == "brx") {
    ++counted_;
    std::size_t n = last.operands.size();
    std::uint32_t index_slot = n == 2 ? source(last.operands[0], 4, Type::kU32) : 0;
    if (n != 2 || failed_ || last.guard >= 0) {
      add(do_unsupported).flags = 0;
    } else {
      program_.program.tables.emplace_back();
      Inst& i = add(do_branch_table);
      i.a = index_slot;
      i.target = reinterpret_cast<const Inst*>(&program_.program.tables.back());
      fix(block.post_dominator, Fixup::Field::kRpc);
      TableFixup t{&program_.program.tables.back(), {}};
      for (const auto& item : last.operands[1].items) t.blocks.push_back(block_of_instruction_.at(item.label));
      table_fixups_.push_back(std::move(t));
    }
  } else if (last.opcode == "exit" || (last.opcode == "ret" && f_.is_entry)) {
    ++counted_;
    if (last.guard >= 0) {
      add(do_exit_if);
      fix(index + 1, Fixup::Field::kTarget);
    } else {
      add(do_exit);
    }
  } else if (last.opcode == "ret") {
    ++counted_;
    if (last.guard >= 0) {
      add(do_branch);
      fix(exit_block, Fixup::Field::kTarget);
      fix(block.post_dominator, Fixup::Field::kRpc);
    } else {
      add(do_jump);
      fix(exit_block, Fixup::Field::kTarget);
    }
  } else if (last.opcode == "trap") {
    ++counted_;
    guard_ = last.guard;
    guard_negate_ = last.guard_negate;
    emit(do_trap);
    guard_ = -1;
    add(do_jump);
    fix(index + 1, Fixup::Field::kTarget);
  } else if (last.opcode == "call") {
    ++counted_;
    std::size_t before = code_.insts.size(), fixups_before = fixups_.size(), sites_before = site_fixups_.size();
    if (!call(last, {}, index) || failed_) {
      code_.insts.resize(before);
      code_.origin.resize(before);
      fixups_.resize(fixups_before);
      site_fixups_.resize(sites_before);
      failed_ = false;
      guard_ = last.guard;
      guard_negate_ = last.guard_negate;
      unsupported();
      guard_ = -1;
      add(do_jump);
      fix(index + 1, Fixup::Field::kTarget);
    }
  } else {
    add(do_jump);
    fix(index + 1, Fixup::Field::kTarget);
  }
  flops_ = counted_ = 0;
}

void FunctionDecoder::run() {
  blocks_ = control_flow(f_);
  if (f_.body.empty()) blocks_.clear();
  for (std::uint32_t b = 0; b < blocks_.size(); ++b) block_of_instruction_[blocks_[b].begin] = b;
  block_of_instruction_[std::uint32_t(f_.body.size())] = std::uint32_t(blocks_.size());
  local_offset_.assign(f_.variables.size(), 0);
  std::uint64_t at = 0;
  for (std::size_t v = 0; v < f_.variables.size(); ++v)
    if (f_.variables[v].space == Space::kLocal) {
      local_offset_[v] = clamped(round_up(at, f_.variables[v].align));
      at = clamped(local_offset_[v] + f_.variables[v].bytes());
    }
  code_.local_bytes = clamped(round_up(at, 16));
  std::vector<std::uint32_t> locals = local_offset_;
  find_aliases();
  allocate_registers();
  local_offset_ = std::move(locals);
  block_start_.clear();
  for (std::uint32_t b = 0; b < blocks_.size(); ++b) {
    block_start_.push_back(std::uint32_t(code_.insts.size()));
    for (std::uint32_t i = blocks_[b].begin; i < blocks_[b].end; ++i) {
      const auto& in = f_.body[i];
      origin_ = std::int32_t(i);
      if (ends_block(in)) break;  // only the last one can
      if (dropped_[i]) {
        ++counted_;
        continue;
      }
      instruction(in);
    }
    terminator(blocks_[b], b);
  }
  block_start_.push_back(std::uint32_t(code_.insts.size()));
  origin_ = f_.body.empty() ? -1 : std::int32_t(f_.body.size() - 1);
  emit(f_.is_entry ? do_exit : do_return);
  // Two more, so that a handler that looks at the next instruction stays inside.
  emit(do_trap);
  for (const auto& fix : fixups_) {
    const Inst* target = &code_.insts[block_start_[fix.block]];
    Inst& i = code_.insts[fix.inst];
    if (fix.field == Fixup::Field::kTarget) i.target = target;
    else i.imm = std::int64_t(reinterpret_cast<std::intptr_t>(target));
  }
  for (auto& fix : table_fixups_)
    for (auto b : fix.blocks) fix.table->push_back(&code_.insts[block_start_[b]]);
  for (auto& [site, block] : site_fixups_) site->rpc = &code_.insts[block_start_[block]];
  code_.entry = &code_.insts[block_start_[0]];
  code_.exit = &code_.insts[block_start_.back()];
  code_.frame_bytes = clamped(round_up(frame_, 64));
  if (!f_.is_entry) {
    for (std::size_t p = 0; p < f_.params.size(); ++p) {
      code_.params.push_back(f_.param_vars[p] >= 0 ? areas_[std::size_t(f_.param_vars[p])] : ParamArea{});
      code_.param_regs.push_back(f_.param_regs[p] == ~0u ? ~0u : offset_[f_.param_regs[p]]);
      code_.param_widths.push_back(std::uint8_t(register_bytes(f_.params[p].type)));
    }
    for (std::size_t p = 0; p < f_.results.size(); ++p) {
      code_.results.push_back(f_.result_vars[p] >= 0 ? areas_[std::size_t(f_.result_vars[p])] : ParamArea{});
      code_.result_regs.push_back(f_.result_regs[p] == ~0u ? ~0u : offset_[f_.result_regs[p]]);
      code_.result_widths.push_back(std::uint8_t(register_bytes(f_.results[p].type)));
    }
  }
}

void static_usage(const ptx::Module& module, const ptx::Function& kernel, std::uint32_t* shared, std::uint32_t* local) {
  std::set<std::int32_t> seen;
  *shared = *local = 0;
  for (const auto* f : reachable(module, kernel)) {
    *local = clamped(std::uint64_t(*local) + local_usage(*f));
    for_each_shared(module, *f, [&](std::int32_t v) {
      const auto& variable = module.variables[std::size_t(v)];
      if (variable.is_external || !seen.insert(v).second) return;
      *shared = clamped(round_up(*shared, variable.align) + variable.bytes());
    });
  }
}

Result<std::unique_ptr<Program>> decode(const ModuleImage& image, const ptx::Function& kernel, Lookup engine) {
  auto program = std::make_unique<Program>();
  program->module = &image;
  ProgramDecoder decoder(image, engine, *program);
  // Static shared variables first, so that the dynamic part's start is known.
  auto functions = reachable(image.module, kernel);
  std::uint32_t dynamic_align = 16;
  for (const auto* f : functions)
    for_each_shared(image.module, *f, [&](std::int32_t v) {
      const auto& variable = image.module.variables[std::size_t(v)];
      if (variable.is_external) dynamic_align = std::max(dynamic_align, std::min(variable.align, 1024u));
      else decoder.shared_offset(v);
    });
  program->dynamic_shared_offset = clamped(round_up(program->shared_static_bytes, dynamic_align));
  program->entry = decoder.code_for(&kernel);
  for (std::size_t i = 0; i < decoder.pending.size(); ++i) {
    const ptx::Function* f = decoder.pending[i];
    FunctionDecoder(decoder, *f, *program->codes[f]).run();
    if (program->codes[f]->frame_bytes > kMaxFrameBytes)
      return fail(musacoder::Code::kResourceExhausted, "function '{}' needs {} bytes of registers a warp; the device has {}", f->name,
                  program->codes[f]->frame_bytes, kMaxFrameBytes);
  }
  // Local memory of the deepest call chain; recursion and indirect calls get a fixed stack.
  std::map<const ptx::Function*, int> state;
  std::map<const ptx::Function*, std::uint64_t> depth;
  bool recursive = decoder.indirect;
  std::function<std::uint64_t(const ptx::Function&)> deepest = [&](const ptx::Function& f) -> std::uint64_t {
    if (state[&f] == 1) {
      recursive = true;
      return 0;
    }
    if (auto it = depth.find(&f); it != depth.end()) return it->second;
    state[&f] = 1;
    std::uint64_t below = 0;
    bool indirect = false;
    for_each_callee(image.module, f, &indirect, [&](const ptx::Function& g) {
      if (g.has_body && !recursive) below = std::max(below, deepest(g));
    });
    state[&f] = 2;
    return depth[&f] = below + local_usage(f);
  };
  std::uint64_t local = deepest(kernel);
  if (recursive) {
    local = 1024;
    for (const auto* f : functions) local += local_usage(*f);
    local = std::max<std::uint64_t>(local, 16u << 10);
  }
  if (local > (512u << 10))
    return fail(musacoder::Code::kResourceExhausted, "the kernel needs {} bytes of local memory a thread; the device has 524288", local);
  program->local_bytes = clamped(round_up(local, 16));
  return program;
}

}  // namespace musacoder::vgpu::exec
