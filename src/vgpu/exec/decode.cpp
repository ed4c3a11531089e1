#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <tuple>

#include "vgpu/exec/program.h"

namespace musacoder::vgpu::exec {

using Kind = ptx::Operand::Kind;
using ptx::Instruction;
using ptx::Operand;
using ptx::Space;
using ptx::Special;
using ptx::Type;
using ptx::type_bytes;

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

namespace {

std::uint32_t round_up(std::uint64_t n, std::uint64_t to) { return std::uint32_t((n + to - 1) / to * to); }

unsigned register_bytes(Type t) {
  unsigned n = type_bytes(t);
  return n == 1 ? 2 : n;  // 8-bit registers share the 16-bit layout
}

bool is_float(Type t) { return t == Type::kF32 || t == Type::kF64; }
bool is_half(Type t) { return t == Type::kF16 || t == Type::kF16x2 || t == Type::kBF16 || t == Type::kBF16x2; }
bool is_signed(Type t) { return t == Type::kS8 || t == Type::kS16 || t == Type::kS32 || t == Type::kS64; }

bool clock_like(Special s) {
  return s == Special::kClock || s == Special::kClockHi || s == Special::kClock64 || s == Special::kGlobaltimer ||
         s == Special::kGlobaltimerLo || s == Special::kGlobaltimerHi;
}

// The modifiers of one instruction, sorted by what they say.
struct Modifiers {
  std::vector<Type> types;
  Space space = Space::kGeneric;
  bool has_space = false;
  std::optional<Cmp> cmp;
  Bool combine = Bool::kNone;
  Round round = Round::kNearest;
  bool has_round = false, integral = false;
  bool ftz = false, sat = false, approx = false, hi = false, wide = false, nan = false, xorsign = false, cc = false,
       relu = false, to = false, right = false, clamp = false, wrap = false, shiftamt = false, noftz = false;
  unsigned vector = 1;
  std::vector<std::string_view> rest;
  bool has(std::string_view name) const { return std::find(rest.begin(), rest.end(), name) != rest.end(); }
  Type type(std::size_t i = 0) const { return i < types.size() ? types[i] : Type::kNone; }
};

Modifiers sort_modifiers(const Instruction& in) {
  Modifiers m;
  struct CmpRow {
    std::string_view name;
    Cmp cmp;
  };
  static constexpr CmpRow kCmps[] = {{"eq", Cmp::kEq},   {"ne", Cmp::kNe},   {"lt", Cmp::kLt},   {"le", Cmp::kLe},
                                     {"gt", Cmp::kGt},   {"ge", Cmp::kGe},   {"equ", Cmp::kEqu}, {"neu", Cmp::kNeu},
                                     {"ltu", Cmp::kLtu}, {"leu", Cmp::kLeu}, {"gtu", Cmp::kGtu}, {"geu", Cmp::kGeu},
                                     {"num", Cmp::kNum}, {"nan", Cmp::kNan}, {"lo", Cmp::kLt},   {"ls", Cmp::kLe},
                                     {"hi", Cmp::kGt},   {"hs", Cmp::kGe}};
  bool compares = in.opcode == "setp" || in.opcode == "set";
  for (auto name : in.modifiers) {
    if (Type t = ptx::parse_type(name); t != Type::kNone) {
      m.types.push_back(t);
      continue;
    }
    if (compares) {
      bool found = false;
      for (const auto& row : kCmps)
        if (row.name == name && !m.cmp) {
          m.cmp = row.cmp;
          found = true;
        }
      if (found) continue;
      if (name == "and") { m.combine = Bool::kAnd; continue; }
      if (name == "or") { m.combine = Bool::kOr; continue; }
      if (name == "xor") { m.combine = Bool::kXor; continue; }
    }
    auto space = [&](Space s) {
      if (!m.has_space) m.space = s;
      m.has_space = true;
      m.rest.push_back(name);
    };
    if (name == "global") space(Space::kGlobal);
    else if (name == "shared" || name == "shared::cta" || name == "shared::cluster") space(Space::kShared);
    else if (name == "local") space(Space::kLocal);
    else if (name == "param" || name == "param::entry" || name == "param::func") space(Space::kParam);
    else if (name == "const") space(Space::kConst);
    else if (name == "rn") m.round = Round::kNearest, m.has_round = true;
    else if (name == "rz") m.round = Round::kZero, m.has_round = true;
    else if (name == "rm") m.round = Round::kDown, m.has_round = true;
    else if (name == "rp") m.round = Round::kUp, m.has_round = true;
    else if (name == "rna") m.round = Round::kAway, m.has_round = true;
    else if (name == "rni") m.round = Round::kNearest, m.integral = m.has_round = true;
    else if (name == "rzi") m.round = Round::kZero, m.integral = m.has_round = true;
    else if (name == "rmi") m.round = Round::kDown, m.integral = m.has_round = true;
    else if (name == "rpi") m.round = Round::kUp, m.integral = m.has_round = true;
    else if (name == "ftz") m.ftz = true;
    else if (name == "sat" || name == "satfinite") m.sat = name == "sat", m.rest.push_back(name);
    else if (name == "approx" || name == "full") m.approx = true;
    else if (name == "hi") m.hi = true;
    else if (name == "lo") m.rest.push_back(name);
    else if (name == "wide") m.wide = true;
    else if (name == "NaN") m.nan = true;
    else if (name == "xorsign") m.xorsign = true;
    else if (name == "cc") m.cc = true;
    else if (name == "relu") m.relu = true;
    else if (name == "to") m.to = true;
    else if (name == "r") m.right = true;
    else if (name == "clamp") m.clamp = true, m.rest.push_back(name);
    else if (name == "wrap") m.wrap = true;
    else if (name == "shiftamt") m.shiftamt = true;
    else if (name == "v2") m.vector = 2;
    else if (name == "v4") m.vector = 4;
    else if (name == "v8") m.vector = 8;
    else m.rest.push_back(name);
  }
  return m;
}

class ProgramDecoder;

class FunctionDecoder {
 public:
  FunctionDecoder(ProgramDecoder& program, const ptx::Function& f, Code& code) : program_(program), f_(f), code_(code) {}
  void run();

 private:
  struct Alias {
    enum class Kind : std::uint8_t { kNone, kConstant, kRegister } kind = Kind::kNone;
    ConstantSlot constant;
    std::uint32_t reg = 0;
  };
  // Values known before execution take a constant slot instead of an instruction.
  void find_aliases();
  std::optional<ConstantSlot> constant_of(const Operand& o, unsigned width, Type type);
  std::uint32_t resolve_register(std::uint32_t reg) const {
    while (alias_[reg].kind == Alias::Kind::kRegister) reg = alias_[reg].reg;
    return reg;
  }
  void allocate_registers();
  std::uint32_t constant(ConstantSlot c);
  std::uint32_t bits_constant(std::uint64_t value, unsigned width) {
    ConstantSlot c;
    c.width = std::uint8_t(width);
    c.value = width == 8 ? value : value & ((1ull << (8 * width)) - 1);
    return constant(c);
  }
  std::uint32_t scratch(unsigned width);
  std::uint32_t scratch_pred();
  // Offset of a source operand of the given width; sets failed_ when it cannot be one.
  std::uint32_t source(const Operand& o, unsigned width, Type type);
  std::uint32_t source_pred(const Operand& o);
  std::uint32_t dest(const Operand& o, unsigned width);
  std::uint32_t dest_pred(const Operand& o);
  unsigned operand_width(const Operand& o) const {
    if (o.kind == Kind::kReg) return register_bytes(f_.registers[o.reg].type);
    return 0;
  }
  bool is_pred(const Operand& o) const { return o.kind == Kind::kReg && f_.registers[o.reg].type == Type::kPred; }
  Inst& emit(Handler fn);
  bool address(const Operand& o, Inst& out, Space space, unsigned* width);
  std::uint64_t symbol_address(const Operand& o, bool* shared, bool* local);

  void instruction(const Instruction& in);
  bool decode(const Instruction& in, const Modifiers& m);
  bool arithmetic(const Instruction& in, const Modifiers& m, Op op, unsigned sources);
  bool move(const Instruction& in, const Modifiers& m);
  bool load_store(const Instruction& in, const Modifiers& m, bool is_load);
  bool convert(const Instruction& in, const Modifiers& m);
  bool compare(const Instruction& in, const Modifiers& m);
  bool atomic(const Instruction& in, const Modifiers& m, bool reduction);
  bool warp_op(const Instruction& in, const Modifiers& m);
  bool barrier(const Instruction& in, const Modifiers& m);
  bool call(const Instruction& in, const Modifiers& m, std::uint32_t block);
  bool bits(const Instruction& in, const Modifiers& m);
  bool tensor(const Instruction& in, const Modifiers& m);
  void terminator(const BasicBlock& block, std::uint32_t index);
  Handler find(const Spec& s);
  void count_flops(const Instruction& in, const Modifiers& m);
  void unsupported();

  ProgramDecoder& program_;
  const ptx::Function& f_;
  Code& code_;
  std::vector<BasicBlock> blocks_;
  std::vector<Alias> alias_;
  std::vector<bool> dropped_;                // instructions that became aliases
  std::vector<std::uint32_t> offset_;        // of registers
  std::vector<ParamArea> areas_;             // of variables
  std::vector<std::uint32_t> local_offset_;  // of variables
  std::uint32_t frame_ = 0;
  std::uint32_t carry_ = 0;                  // predicate slot of CC.CF
  std::map<std::tuple<std::uint8_t, std::uint8_t, std::uint8_t, std::uint8_t, std::uint64_t>, std::uint32_t> constant_index_;
  std::uint32_t scratch_[4] = {0, 0, 0, 0};
  std::uint32_t scratch_pred_ = 0;
  std::int32_t guard_ = -1;
  bool guard_negate_ = false;
  std::int32_t origin_ = -1;
  bool failed_ = false;
  std::uint32_t flops_ = 0, counted_ = 0;
  struct Fixup {
    std::uint32_t inst;
    std::uint32_t block;
    enum class Field : std::uint8_t { kTarget, kRpc } field;
  };
  std::vector<Fixup> fixups_;
  struct TableFixup {
    std::vector<const Inst*>* table;
    std::vector<std::uint32_t> blocks;
  };
  std::vector<TableFixup> table_fixups_;
  std::vector<std::pair<CallSite*, std::uint32_t>> site_fixups_;
  std::vector<std::uint32_t> block_start_;
  std::map<std::uint32_t, std::uint32_t> block_of_instruction_;
};

class ProgramDecoder {
 public:
  ProgramDecoder(const ModuleImage& image, Lookup engine, Program& program) : image(image), engine(engine), program(program) {}
  Code* code_for(const ptx::Function* f) {
    auto& slot = program.codes[f];
    if (!slot) {
      slot = std::make_unique<Code>();
      slot->function = f;
      pending.push_back(f);
    }
    return slot.get();
  }
  void need_all_functions() {
    program.functions_by_index.clear();
    for (const auto& f : image.module.functions) {
      program.functions_by_index.push_back(&f);
      if (!f.is_entry && f.has_body) code_for(&f);
    }
    indirect = true;
  }
  std::uint32_t shared_offset(std::int32_t variable) {
    auto [it, fresh] = program.shared_offsets.try_emplace(variable, 0);
    if (fresh) {
      const auto& v = image.module.variables[std::size_t(variable)];
      if (v.is_external) {
        // Dynamic shared memory starts after all static variables; its place is known only once all are seen, so the
        // static size is computed before decoding (layout_shared).
        it->second = program.dynamic_shared_offset;
      } else {
        program.shared_static_bytes = round_up(program.shared_static_bytes, v.align);
        it->second = program.shared_static_bytes;
        program.shared_static_bytes += std::uint32_t(v.bytes());
      }
    }
    return it->second;
  }

  const ModuleImage& image;
  Lookup engine;
  Program& program;
  std::vector<const ptx::Function*> pending;
  bool indirect = false;
};

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
std::uint32_t local_usage(const ptx::Function& f) {
  std::uint32_t at = 0;
  for (const auto& v : f.variables)
    if (v.space == Space::kLocal) at = round_up(at, v.align) + std::uint32_t(v.bytes());
  return round_up(at, 16);
}

// ---- registers, constants, operands --------------------------------------------------------------------------------

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
    c.offset = it->second = frame_;
    frame_ += bytes;
    code_.constants.push_back(c);
  }
  return it->second;
}

std::uint32_t FunctionDecoder::scratch(unsigned width) {
  unsigned k = width == 2 ? 0 : width == 4 ? 1 : width == 8 ? 2 : 3;
  if (!scratch_[k]) {
    frame_ = round_up(frame_, 64);
    scratch_[k] = frame_;
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
  scratch_pred_ = frame_;
  carry_ = frame_ + 4;
  frame_ += 64;
  for (std::size_t r = 0; r < n; ++r)
    if (f_.registers[r].type == Type::kPred) {
      offset_[r] = frame_;
      frame_ += 4;
    }
  frame_ = round_up(frame_, 64);

  // Live ranges as one interval each, over positions 2i (uses) and 2i+1 (definitions), by block liveness.
  const std::size_t words = (n + 63) / 64;
  const std::size_t count = blocks_.size();
  std::vector<std::uint64_t> gen(count * words), kill(count * words), in(count * words), out(count * words);
  std::vector<std::uint32_t> first(n, ~0u), last(n, 0);
  auto touch = [&](std::uint32_t r, std::uint32_t at) {
    first[r] = std::min(first[r], at);
    last[r] = std::max(last[r], at);
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
        if (!(kill[b * words + r / 64] >> (r % 64) & 1)) gen[b * words + r / 64] |= 1ull << (r % 64);
      });
      for (auto r : du.defs) {
        touch(r, 2 * i + 1);
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
  auto pin = [&](std::uint32_t r) {
    if (r != ~0u) touch(r, 0), touch(r, std::uint32_t(2 * f_.body.size() + 1));
  };
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
        offset_[r] = frame_;
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
      areas_[v] = {frame_, std::uint32_t(std::min<std::uint64_t>(var.bytes(), 1u << 16))};
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

// ---- instructions ----------------------------------------------------------------------------------------------------

bool FunctionDecoder::arithmetic(const Instruction& in, const Modifiers& m, Op op, unsigned sources) {
  if (in.operands.size() < sources + 1) return false;
  Spec s;
  s.op = op;
  s.type = m.type();
  if (s.type == Type::kNone) return false;
  s.round = m.round;
  s.ftz = m.ftz;
  s.sat = m.sat;
  s.approx = m.approx;
  s.nan = m.nan;
  s.xorsign = m.xorsign;
  s.relu = m.relu;
  unsigned width = register_bytes(s.type);
  unsigned dest_width = width;
  unsigned widths[3] = {width, width, width};
  bool integer = !is_float(s.type) && !is_half(s.type);
  if (op == Op::kMul && integer) {
    if (m.wide) s.op = Op::kMulWide, dest_width = 2 * width;
    else if (m.hi) s.op = Op::kMulHi;
  }
  if (op == Op::kMad) {
    if (!integer) s.op = Op::kFma;
    else if (m.wide) s.op = Op::kMadWide, dest_width = widths[2] = 2 * width;
    else if (m.hi) s.op = Op::kMadHi;
  }
  if (dest_width > 8) return false;
  bool carry_in = in.opcode == "addc" || in.opcode == "subc" || in.opcode == "madc";
  if (m.cc || carry_in) {
    s.mode = std::uint8_t(carry_in | m.cc << 1);
    if (op == Op::kAdd) s.op = Op::kAddc;
    else if (op == Op::kSub) s.op = Op::kSubc;
    else if (op == Op::kMad) s.op = Op::kMadc, s.mode = std::uint8_t(s.mode | m.hi << 2);
    else return false;
  }
  Handler h = find(s);
  if (!h) return false;
  Inst i;
  i.d = dest(in.operands[0], dest_width);
  std::uint32_t* fields[3] = {&i.a, &i.b, &i.c};
  for (unsigned k = 0; k < sources; ++k) *fields[k] = source(in.operands[k + 1], widths[k], s.type);
  if (m.cc || carry_in) i.f = carry_;
  if (failed_) return false;
  i.flags = s.sat;
  if (is_half(s.type))
    i.flags = std::uint16_t(unsigned(s.sat) | unsigned(s.relu) << 1 | unsigned(s.ftz) << 2 | unsigned(s.nan) << 3 |
                            unsigned(s.xorsign) << 4);
  i.fn = h;
  emit(h) = i;
  return true;
}

bool FunctionDecoder::bits(const Instruction& in, const Modifiers& m) {
  std::string_view op = in.opcode;
  const auto& o = in.operands;
  Spec s;
  s.type = m.type();
  unsigned width = register_bytes(s.type);
  Inst i;
  auto finish = [&] {
    Handler h = find(s);
    if (failed_) return false;
    i.fn = h;
    emit(h) = i;
    return true;
  };
  auto need = [&](std::size_t n) { return o.size() >= n; };
  if ((op == "and" || op == "or" || op == "xor" || op == "not") && s.type == Type::kPred) {
    if (!need(op == "not" ? 2 : 3)) return false;
    s.op = op == "and" ? Op::kPredAnd : op == "or" ? Op::kPredOr : op == "xor" ? Op::kPredXor : Op::kPredNot;
    i.d = dest_pred(o[0]);
    i.a = source_pred(o[1]);
    i.e = o[1].negate;
    if (op != "not") {
      i.b = source_pred(o[2]);
      i.e |= unsigned(o[2].negate) << 1;
    }
    return finish();
  }
  if (op == "shl" || op == "shr") {
    if (!need(3)) return false;
    s.op = op == "shl" ? Op::kShl : Op::kShr;
    i.d = dest(o[0], width);
    i.a = source(o[1], width, s.type);
    i.b = source(o[2], 4, Type::kU32);
    return finish();
  }
  if (op == "lop3") {
    if (!need(5) || s.type != Type::kB32 || o[4].kind != Kind::kInteger || o[0].second != ~0u) return false;
    s.op = Op::kLop3;
    i.d = dest(o[0], 4);
    i.a = source(o[1], 4, s.type);
    i.b = source(o[2], 4, s.type);
    i.c = source(o[3], 4, s.type);
    i.imm = std::int64_t(o[4].bits);
    return finish();
  }
  if (op == "shf") {
    if (!need(4)) return false;
    s.op = Op::kShf;
    s.right = m.right;
    s.clamp = m.clamp;
    i.d = dest(o[0], 4);
    i.a = source(o[1], 4, s.type);
    i.b = source(o[2], 4, s.type);
    i.c = source(o[3], 4, s.type);
    return finish();
  }
  if (op == "bfe") {
    if (!need(4)) return false;
    s.op = Op::kBfe;
    i.d = dest(o[0], width);
    i.a = source(o[1], width, s.type);
    i.b = source(o[2], 4, Type::kU32);
    i.c = source(o[3], 4, Type::kU32);
    return finish();
  }
  if (op == "bfi") {
    if (!need(5)) return false;
    s.op = Op::kBfi;
    i.d = dest(o[0], width);
    i.a = source(o[1], width, s.type);
    i.b = source(o[2], width, s.type);
    i.c = source(o[3], 4, Type::kU32);
    i.e = source(o[4], 4, Type::kU32);
    return finish();
  }
  if (op == "popc" || op == "clz" || op == "bfind") {
    if (!need(2)) return false;
    s.op = op == "popc" ? Op::kPopc : op == "clz" ? Op::kClz : Op::kBfind;
    s.mode = m.shiftamt;
    i.d = dest(o[0], 4);
    i.a = source(o[1], width, s.type);
    return finish();
  }
  if (op == "brev" || op == "not" || op == "cnot") {
    if (!need(2)) return false;
    s.op = op == "brev" ? Op::kBrev : op == "not" ? Op::kNot : Op::kCnot;
    i.d = dest(o[0], width);
    i.a = source(o[1], width, s.type);
    return finish();
  }
  if (op == "prmt") {
    if (!need(4)) return false;
    s.op = Op::kPrmt;
    constexpr std::string_view kModes[] = {"", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
    for (unsigned k = 1; k < 7; ++k)
      if (m.has(kModes[k])) i.f = k;
    i.d = dest(o[0], 4);
    i.a = source(o[1], 4, s.type);
    i.b = source(o[2], 4, s.type);
    i.c = source(o[3], 4, s.type);
    return finish();
  }
  if (op == "dp4a" || op == "dp2a") {
    if (!need(4)) return false;
    s.op = op == "dp4a" ? Op::kDp4a : Op::kDp2a;
    s.source = m.type(1);
    i.f = m.hi;
    i.d = dest(o[0], 4);
    i.a = source(o[1], 4, Type::kB32);
    i.b = source(o[2], 4, Type::kB32);
    i.c = source(o[3], 4, Type::kB32);
    return finish();
  }
  if (op == "fns") {
    if (!need(4)) return false;
    s.op = Op::kFns;
    i.d = dest(o[0], 4);
    i.a = source(o[1], 4, Type::kB32);
    i.b = source(o[2], 4, Type::kB32);
    i.c = source(o[3], 4, Type::kB32);
    return finish();
  }
  if (op == "bmsk" || op == "szext") {
    if (!need(3)) return false;
    s.op = op == "bmsk" ? Op::kBmsk : Op::kSzext;
    i.f = m.wrap;
    i.d = dest(o[0], 4);
    i.a = source(o[1], 4, Type::kB32);
    i.b = source(o[2], 4, Type::kB32);
    return finish();
  }
  if (op == "selp") {
    if (!need(4)) return false;
    s.op = Op::kSelp;
    i.d = dest(o[0], width);
    i.a = source(o[1], width, s.type);
    i.b = source(o[2], width, s.type);
    i.c = source_pred(o[3]);
    i.e = o[3].negate;
    return finish();
  }
  if (op == "slct") {
    if (!need(4)) return false;
    s.op = Op::kSlct;
    s.source = m.type(1);
    i.d = dest(o[0], width);
    i.a = source(o[1], width, s.type);
    i.b = source(o[2], width, s.type);
    i.c = source(o[3], 4, s.source);
    return finish();
  }
  if (op == "testp") {
    if (!need(2)) return false;
    s.op = Op::kTestp;
    constexpr std::string_view kModes[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
    for (unsigned k = 0; k < 6; ++k)
      if (m.has(kModes[k])) i.flags = std::uint16_t(k);
    i.d = dest_pred(o[0]);
    i.a = source(o[1], width, s.type);
    return finish();
  }
  return false;
}

bool FunctionDecoder::compare(const Instruction& in, const Modifiers& m) {
  const auto& o = in.operands;
  bool set = in.opcode == "set";
  Type type = set ? m.type(1) : m.type();
  if (!m.cmp || o.size() < 3 || type == Type::kNone) return false;
  unsigned width = register_bytes(type);
  Spec s;
  s.op = Op::kSetp;
  s.type = type;
  s.cmp = *m.cmp;
  s.combine = m.combine;
  s.ftz = m.ftz;
  s.has_predicate_out = !set && o[0].second != ~0u;
  Inst i;
  i.a = source(o[1], width, type);
  i.b = source(o[2], width, type);
  i.d = set ? scratch_pred() : dest_pred(o[0]);
  i.f = s.has_predicate_out ? offset_[o[0].second] : scratch_pred();
  if (i.f == i.d) i.f = carry_ + 4;
  if (m.combine != Bool::kNone) {
    if (o.size() < 4) return false;
    i.c = source_pred(o[3]);
    i.e = o[3].negate;
  }
  i.flags = std::uint16_t(m.combine);
  if (type == Type::kF16x2 || type == Type::kBF16x2) {
    // p and q are the comparisons of the two halves; set gives one result a half.
    if (set) return false;
  }
  Handler h = find(s);
  if (failed_) return false;
  i.fn = h;
  if (!set) {
    emit(h) = i;
    return true;
  }
  Type dt = m.type(0);
  unsigned dw = register_bytes(dt);
  std::uint64_t one = dt == Type::kF32 ? 0x3f800000u : dt == Type::kF16 ? 0x3c00u : dt == Type::kBF16 ? 0x3f80u : ~0ull;
  Spec pick;
  pick.op = Op::kSelp;
  pick.type = dt;
  Inst j;
  j.d = dest(o[0], dw);
  j.a = bits_constant(one, dw);
  j.b = bits_constant(0, dw);
  j.c = i.d;
  Handler h2 = find(pick);
  if (failed_) return false;
  j.fn = h2;
  emit(h) = i;
  emit(h2) = j;
  return true;
}

bool FunctionDecoder::move(const Instruction& in, const Modifiers& m) {
  if (in.operands.size() != 2) return false;
  const Operand &d = in.operands[0], &s = in.operands[1];
  Type type = m.type();
  Inst i;
  Spec spec;
  if (type == Type::kPred) {
    spec.op = Op::kPredMov;
    i.d = dest_pred(d);
    i.a = source_pred(s);
    i.e = s.negate;
    Handler h = find(spec);
    if (failed_) return false;
    i.fn = h;
    emit(h) = i;
    return true;
  }
  unsigned width = register_bytes(type);
  if (d.kind == Kind::kVector || s.kind == Kind::kVector) {
    const Operand& v = d.kind == Kind::kVector ? d : s;
    std::size_t n = v.items.size();
    if ((n != 2 && n != 4) || width > 8) return false;
    unsigned part = width / unsigned(n);
    spec.width = std::uint8_t(width);
    spec.vector = std::uint8_t(n);
    if (d.kind == Kind::kVector) {
      spec.op = Op::kMovUnpack;
      i.a = source(s, width, type);
      std::uint32_t* fields[4] = {&i.d, &i.b, &i.c, &i.e};
      for (std::size_t k = 0; k < n; ++k) *fields[k] = dest(v.items[k], part);
    } else {
      spec.op = Op::kMovPack;
      i.d = dest(d, width);
      std::uint32_t* fields[4] = {&i.a, &i.b, &i.c, &i.e};
      for (std::size_t k = 0; k < n; ++k) *fields[k] = source(v.items[k], part, Type::kNone);
    }
    Handler h = find(spec);
    if (failed_) return false;
    i.fn = h;
    emit(h) = i;
    return true;
  }
  if (s.kind == Kind::kSpecial && clock_like(s.special)) {
    i.d = dest(d, width);
    if (failed_) return false;
    i.e = std::uint32_t(s.special);
    i.f = width;
    i.fn = do_now;
    emit(do_now) = i;
    return true;
  }
  spec.op = Op::kMov;
  spec.type = type;
  i.d = dest(d, width);
  i.a = source(s, width, type);
  Handler h = find(spec);
  if (failed_) return false;
  i.fn = h;
  emit(h) = i;
  return true;
}

// Fills a and imm from [base + offset]; *width gets the bytes of the address register.
bool FunctionDecoder::address(const Operand& o, Inst& out, Space space, unsigned* width) {
  if (o.kind != Kind::kAddress || o.items.empty()) return false;
  const Operand& base = o.items[0];
  out.imm = o.offset;
  *width = 8;
  if (base.kind == Kind::kReg) {
    *width = operand_width(base);
    if (*width != 4 && *width != 8) return false;
    out.a = source(base, *width, Type::kNone);
    return !failed_;
  }
  (void)space;
  if (base.kind == Kind::kSymbol || base.kind == Kind::kInteger) {
    auto c = constant_of(base, 8, Type::kB64);
    if (!c || failed_) return false;
    out.a = constant(*c);
    return true;
  }
  return false;
}

bool FunctionDecoder::load_store(const Instruction& in, const Modifiers& m, bool is_load) {
  const auto& o = in.operands;
  if (o.size() < 2 || m.types.empty()) return false;
  const Operand& where = is_load ? o[1] : o[0];
  const Operand& value = is_load ? o[0] : o[1];
  Type type = m.types.back();
  unsigned bytes = type_bytes(type);
  if (bytes == 0 || bytes > 8 || m.vector > 4) return false;
  std::vector<const Operand*> parts;
  if (value.kind == Kind::kVector) {
    for (const auto& item : value.items) parts.push_back(&item);
  } else {
    parts.push_back(&value);
  }
  if (parts.size() != m.vector) return false;
  unsigned width = 0;
  for (auto* p : parts)
    if (unsigned w = operand_width(*p)) {
      if (width && w != width) return false;
      width = w;
    }
  if (!width) width = std::max(2u, bytes);
  if (width < bytes || width > 8) return false;

  Inst i;
  std::uint32_t* fields[4] = {&i.d, &i.b, &i.c, &i.e};
  for (std::size_t k = 0; k < parts.size(); ++k)
    *fields[k] = is_load ? dest(*parts[k], width) : source(*parts[k], width, type);
  if (failed_) return false;
  Space space = m.space;
  auto log2 = [](unsigned n) { return unsigned(std::countr_zero(n)); };
  // Parameters of calls live in the frame.
  if (space == Space::kParam && where.kind == Kind::kAddress && where.items[0].kind == Kind::kSymbol &&
      where.items[0].variable < 0) {
    std::size_t var = std::size_t(-1 - where.items[0].variable);
    if (f_.variables[var].space == Space::kParam && areas_[var].bytes) {
      std::int64_t at = where.offset + where.items[0].offset;
      if (at < 0 || std::uint64_t(at) + bytes * m.vector > areas_[var].bytes) return false;
      i.a = areas_[var].offset;
      i.f = areas_[var].bytes;
      i.imm = at;
      i.fn = do_param_access;
      i.flags = AccessShape::pack(log2(bytes), log2(width), log2(m.vector), is_load && is_signed(type), space, false, !is_load);
      emit(do_param_access) = i;
      return true;
    }
  }
  unsigned address_width = 8;
  if (!address(where, i, space, &address_width)) return false;
  Spec s;
  s.op = is_load ? Op::kLd : Op::kSt;
  s.type = type;
  s.space = space;
  s.vector = std::uint8_t(m.vector);
  s.width = std::uint8_t(width);
  s.address_width = std::uint8_t(address_width);
  i.flags = AccessShape::pack(log2(bytes), log2(width), log2(m.vector), is_load && is_signed(type), space, address_width == 4, !is_load);
  i.slot = program_.program.cache_slots++;
  Handler h = program_.engine(s);
  i.fn = h ? h : access_slow;
  emit(i.fn) = i;
  return true;
}

bool FunctionDecoder::convert(const Instruction& in, const Modifiers& m) {
  const auto& o = in.operands;
  if (o.size() < 2) return false;
  Type dt = m.type(0), st = m.type(1);
  Spec s;
  Inst i;
  s.type = dt;
  s.source = st;
  s.round = m.round;
  s.sat = m.sat;
  s.ftz = m.ftz;
  i.flags = std::uint16_t(unsigned(m.round) | unsigned(m.integral) << 3 | unsigned(m.ftz) << 4 | unsigned(m.sat) << 5 |
                          unsigned(m.relu) << 6);
  if (m.types.size() == 2 && o.size() == 3 && st == Type::kF32 && (dt == Type::kF16x2 || dt == Type::kBF16x2)) {
    s.op = Op::kCvtPack;
    i.d = dest(o[0], 4);
    i.a = source(o[1], 4, st);
    i.b = source(o[2], 4, st);
  } else if (m.types.size() == 2 && o.size() == 2) {
    if (m.has("satfinite")) return false;
    s.op = Op::kCvt;
    unsigned sw = operand_width(o[1]);
    if (!sw) sw = register_bytes(st);
    unsigned dw = operand_width(o[0]);
    if (!dw) dw = register_bytes(dt);
    s.width = std::uint8_t(dw);
    s.source_width = std::uint8_t(sw);
    bool float_source = is_float(st) || is_half(st), float_dest = is_float(dt) || is_half(dt);
    if (float_source && sw != type_bytes(st)) return false;
    if (float_dest && dw != type_bytes(dt)) return false;
    if (float_source && !float_dest && !m.has_round) i.flags = std::uint16_t(Round::kZero);
    else if (float_source && !float_dest) i.flags = std::uint16_t(m.round);
    if (!float_source && float_dest)
      i.flags = m.round == Round::kDown ? 1 : m.round == Round::kUp ? 2 : m.round == Round::kZero ? 3 : 0;
    if (!float_source && float_dest && m.sat) return false;
    i.d = dest(o[0], dw);
    i.a = source(o[1], sw, st);
  } else {
    return false;
  }
  Handler h = find(s);
  if (failed_) return false;
  i.fn = h;
  emit(h) = i;
  return true;
}

bool FunctionDecoder::atomic(const Instruction& in, const Modifiers& m, bool reduction) {
  const auto& o = in.operands;
  std::size_t base = reduction ? 0 : 1;
  if (o.size() < base + 2 || m.types.empty() || m.vector != 1) return false;
  Type type = m.types.back();
  unsigned bytes = type_bytes(type);
  std::string_view op;
  for (auto name : in.modifiers)
    for (std::string_view known : {"add", "cas", "exch", "min", "max", "inc", "dec", "and", "or", "xor"})
      if (name == known) op = known;
  Handler h = find_atomic(op, type);
  if (!h || bytes < 2 || bytes > 8) return false;
  Inst i;
  i.d = reduction ? scratch(bytes) : dest(o[0], bytes);
  unsigned address_width = 8;
  if (!address(o[base], i, m.space, &address_width)) return false;
  i.b = source(o[base + 1], bytes, type);
  if (op == "cas") {
    if (o.size() < base + 3) return false;
    i.c = source(o[base + 2], bytes, type);
  }
  if (failed_) return false;
  i.flags = AccessShape::pack(unsigned(std::countr_zero(bytes)), 0, 0, false, m.space, address_width == 4, true);
  i.slot = program_.program.cache_slots++;
  i.fn = h;
  emit(h) = i;
  return true;
}

bool FunctionDecoder::warp_op(const Instruction& in, const Modifiers& m) {
  const auto& o = in.operands;
  std::string_view op = in.opcode;
  Inst i;
  Handler h = nullptr;
  auto finish = [&] {
    if (failed_) return false;
    i.fn = h;
    emit(h) = i;
    return true;
  };
  if (op == "shfl") {
    if (o.size() < 4) return false;
    Spec s;
    s.op = Op::kShfl;
    s.mode = m.has("up") ? 0 : m.has("down") ? 1 : m.has("bfly") ? 2 : 3;
    i.d = dest(o[0], 4);
    i.f = o[0].second != ~0u ? offset_[o[0].second] : scratch_pred();
    i.a = source(o[1], 4, Type::kB32);
    i.b = source(o[2], 4, Type::kB32);
    i.c = source(o[3], 4, Type::kB32);
    h = find(s);
    return finish();
  }
  if (op == "vote") {
    if (o.size() < 2) return false;
    bool ballot = m.has("ballot");
    i.e = ballot ? 0 : m.has("all") ? 1 : m.has("any") ? 2 : 3;
    i.d = ballot ? dest(o[0], 4) : dest_pred(o[0]);
    i.a = source_pred(o[1]);
    i.flags = o[1].negate;
    i.b = o.size() > 2 ? source(o[2], 4, Type::kB32) : bits_constant(kFullMask, 4);
    h = do_vote;
    return finish();
  }
  if (op == "match") {
    if (o.size() < 3) return false;
    i.e = m.has("all");
    i.flags = std::uint16_t(register_bytes(m.type()));
    i.d = dest(o[0], 4);
    i.f = o[0].second != ~0u ? offset_[o[0].second] : scratch_pred();
    i.a = source(o[1], i.flags, m.type());
    i.b = source(o[2], 4, Type::kB32);
    h = do_match;
    return finish();
  }
  if (op == "redux") {
    if (o.size() < 3) return false;
    constexpr std::string_view kOps[] = {"add", "min", "max", "and", "or", "xor"};
    i.e = 99;
    for (unsigned k = 0; k < 6; ++k)
      if (m.has(kOps[k])) i.e = k;
    if (i.e == 99 || register_bytes(m.type()) != 4 || is_float(m.type())) return false;
    i.flags = m.type() == Type::kS32;
    i.d = dest(o[0], 4);
    i.a = source(o[1], 4, m.type());
    i.b = source(o[2], 4, Type::kB32);
    h = do_redux;
    return finish();
  }
  if (op == "activemask") {
    if (o.empty()) return false;
    i.d = dest(o[0], 4);
    h = do_activemask;
    return finish();
  }
  if (op == "elect") {
    if (o.size() < 2) return false;
    i.d = o[0].kind == Kind::kSink ? scratch(4) : dest(o[0], 4);
    i.f = o[0].second != ~0u ? offset_[o[0].second] : scratch_pred();
    i.b = source(o[1], 4, Type::kB32);
    h = do_elect;
    return finish();
  }
  return false;
}

bool FunctionDecoder::barrier(const Instruction& in, const Modifiers& m) {
  const auto& o = in.operands;
  if (m.has("warp")) {
    emit(do_nop);
    return true;
  }
  Inst i;
  if (m.has("cluster")) {
    // A cluster is one block here: arrive is free, wait is the block's barrier.
    if (m.has("arrive")) {
      emit(do_nop);
      return true;
    }
    i.a = bits_constant(16, 4);
    i.b = bits_constant(0, 4);
    i.fn = do_barrier;
    emit(do_barrier) = i;
    return true;
  }
  std::size_t at = 0;
  bool red = m.has("red");
  if (red) {
    if (o.size() < 3) return false;
    bool popc = m.has("popc");
    i.e = popc ? 0 : m.has("and") ? 1 : 2;
    i.d = popc ? dest(o[0], 4) : dest_pred(o[0]);
    at = 1;
  }
  if (o.size() <= at) return false;
  i.a = source(o[at++], 4, Type::kU32);
  i.b = bits_constant(0, 4);
  if (red) {
    if (o.size() == at + 2) i.b = source(o[at++], 4, Type::kU32);
    i.c = source_pred(o[at]);
    i.f = o[at].negate;
  } else if (o.size() > at) {
    i.b = source(o[at], 4, Type::kU32);
  }
  if (failed_) return false;
  i.fn = red ? do_barrier_reduce : m.has("arrive") ? do_barrier_arrive : do_barrier;
  emit(i.fn) = i;
  return true;
}

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

bool FunctionDecoder::tensor(const Instruction& in, const Modifiers& m) {
  const auto& o = in.operands;
  TensorSite t;
  std::string_view op = in.opcode;
  std::vector<std::string_view> layouts;
  std::string_view shape;
  unsigned count = 1;
  for (auto name : in.modifiers) {
    if (name == "row" || name == "col") layouts.push_back(name);
    if (name.size() > 2 && name[0] == 'm' && name[1] >= '0' && name[1] <= '9') shape = name;
    if (name == "x2") count = 2;
    if (name == "x4") count = 4;
    if (name == "trans") t.trans = true;
    if (name == "satfinite") t.saturate = true;
  }
  unsigned* sizes[] = {&t.m, &t.n, &t.k};
  std::size_t at = 0;
  for (char tag : {'m', 'n', 'k'}) {
    if (at >= shape.size() || shape[at] != tag) break;
    ++at;
    while (at < shape.size() && shape[at] >= '0' && shape[at] <= '9' && t.m < 1000 && t.n < 1000 && t.k < 1000)
      *sizes[tag == 'm' ? 0 : tag == 'n' ? 1 : 2] = *sizes[tag == 'm' ? 0 : tag == 'n' ? 1 : 2] * 10 + unsigned(shape[at++] - '0');
  }
  auto fill = [&](const Operand& list, std::vector<std::uint32_t>& out, unsigned width, bool result) {
    const std::vector<Operand> one{list};
    for (const auto& item : list.kind == Kind::kVector ? list.items : one)
      out.push_back(result ? dest(item, width) : source(item, width, Type::kNone));
    return !failed_;
  };
  // The registers of a fragment: 8 bytes for f64, else 4.
  auto width_of = [](Type type) { return type == Type::kF64 ? 8u : 4u; };
  Inst i;
  if (op == "mma") {
    if (m.types.size() != 4 || layouts.size() != 2 || layouts[0] != "row" || layouts[1] != "col" || o.size() != 4 || m.has("sp"))
      return false;
    t.kind = TensorSite::Kind::kMma;
    t.d_type = m.types[0], t.a_type = m.types[1], t.b_type = m.types[2], t.c_type = m.types[3];
    t.register_bytes = width_of(t.a_type);
    if (!fill(o[0], t.d, width_of(t.d_type), true) || !fill(o[1], t.a, t.register_bytes, false) ||
        !fill(o[2], t.b, t.register_bytes, false) || !fill(o[3], t.c, width_of(t.c_type), false))
      return false;
  } else if (op == "wmma") {
    bool load = m.has("load"), store = m.has("store");
    if (load || store) {
      if (layouts.size() != 1 || m.types.size() != 1 || o.size() < 2) return false;
      t.kind = load ? TensorSite::Kind::kWmmaLoad : TensorSite::Kind::kWmmaStore;
      t.matrix = m.has("a") ? 'a' : m.has("b") ? 'b' : 'c';
      t.row_major = layouts[0] == "row";
      t.a_type = m.types[0];
      t.space = m.space;
      t.register_bytes = width_of(t.a_type);
      if (!fill(load ? o[0] : o[1], t.d, t.register_bytes, load)) return false;
      unsigned width = 8;
      if (!address(load ? o[1] : o[0], i, m.space, &width)) return false;
      t.address32 = width == 4;
      if (o.size() > 2) t.stride = source(o[2], 4, Type::kU32);
    } else {
      if (layouts.size() != 2 || o.size() != 4 || m.types.size() < 2) return false;
      t.kind = TensorSite::Kind::kWmmaMma;
      t.d_type = m.types.front(), t.c_type = m.types.back();
      // f16 has only the types of d and c in its name.
      t.a_type = m.types.size() == 4 ? m.types[1] : Type::kF16;
      t.b_type = m.types.size() == 4 ? m.types[2] : Type::kF16;
      t.register_bytes = width_of(t.a_type);
      if (!fill(o[0], t.d, width_of(t.d_type), true) || !fill(o[1], t.a, t.register_bytes, false) ||
          !fill(o[2], t.b, t.register_bytes, false) || !fill(o[3], t.c, width_of(t.c_type), false))
        return false;
    }
  } else if (op == "ldmatrix" || op == "stmatrix") {
    if (o.size() != 2 || m.type() != Type::kB16 || t.m != 8 || t.n != 8) return false;
    bool load = op == "ldmatrix";
    t.kind = load ? TensorSite::Kind::kLdmatrix : TensorSite::Kind::kStmatrix;
    t.k = count;
    unsigned width = 8;
    if (!fill(load ? o[0] : o[1], t.d, 4, load) || !address(load ? o[1] : o[0], i, Space::kShared, &width)) return false;
    if (t.d.size() != count) return false;
    t.space = m.space;
    t.address32 = width == 4;
  } else if (op == "movmatrix") {
    if (o.size() != 2 || !t.trans) return false;
    t.kind = TensorSite::Kind::kMovmatrix;
    if (!fill(o[0], t.d, 4, true) || !fill(o[1], t.a, 4, false)) return false;
  } else {
    return false;
  }
  if (failed_ || !tensor_supported(t)) return false;
  if (t.m && t.n && t.k && (op == "mma" || t.kind == TensorSite::Kind::kWmmaMma)) flops_ += 2 * t.m * t.n * t.k / kLanes;
  i.slot = program_.program.cache_slots++;
  program_.program.tensors.push_back(std::move(t));
  i.target = reinterpret_cast<const Inst*>(&program_.program.tensors.back());
  i.fn = do_tensor;
  emit(do_tensor) = i;
  return true;
}

void FunctionDecoder::count_flops(const Instruction& in, const Modifiers& m) {
  Type t = m.types.empty() ? Type::kNone : m.types[0];
  if (!is_float(t) && !is_half(t)) return;
  unsigned n = 0;
  if (in.opcode == "fma" || in.opcode == "mad") n = 2;
  else if (in.opcode == "add" || in.opcode == "sub" || in.opcode == "mul" || in.opcode == "div" || in.opcode == "rcp" ||
           in.opcode == "sqrt" || in.opcode == "rsqrt" || in.opcode == "ex2" || in.opcode == "lg2" || in.opcode == "sin" ||
           in.opcode == "cos" || in.opcode == "tanh" || in.opcode == "min" || in.opcode == "max")
    n = 1;
  if (t == Type::kF16x2 || t == Type::kBF16x2) n *= 2;
  flops_ += n;
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
  std::uint32_t at = 0;
  for (std::size_t v = 0; v < f_.variables.size(); ++v)
    if (f_.variables[v].space == Space::kLocal) {
      at = round_up(at, f_.variables[v].align);
      local_offset_[v] = at;
      at += std::uint32_t(f_.variables[v].bytes());
    }
  code_.local_bytes = round_up(at, 16);
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
  code_.frame_bytes = round_up(frame_, 64);
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

}  // namespace

void static_usage(const ptx::Module& module, const ptx::Function& kernel, std::uint32_t* shared, std::uint32_t* local) {
  std::set<std::int32_t> seen;
  *shared = *local = 0;
  for (const auto* f : reachable(module, kernel)) {
    *local += local_usage(*f);
    for_each_shared(module, *f, [&](std::int32_t v) {
      const auto& variable = module.variables[std::size_t(v)];
      if (variable.is_external || !seen.insert(v).second) return;
      *shared = round_up(*shared, variable.align) + std::uint32_t(variable.bytes());
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
  program->dynamic_shared_offset = round_up(program->shared_static_bytes, dynamic_align);
  program->entry = decoder.code_for(&kernel);
  for (std::size_t i = 0; i < decoder.pending.size(); ++i) {
    const ptx::Function* f = decoder.pending[i];
    FunctionDecoder(decoder, *f, *program->codes[f]).run();
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
  program->local_bytes = round_up(local, 16);
  return program;
}

}  // namespace musacoder::vgpu::exec
