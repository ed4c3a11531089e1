// From parsed PTX to executable code: the classes behind decode() (program.h). One FunctionDecoder a function; its parts
// are spread over decode_*.cpp by kind of instruction. To add an instruction: give it a handler (engine/ when it is a loop
// over lanes, else control.cpp or access.cpp), and a branch in the part that fits; a part returns false for forms it does
// not know, which then become `unsupported` when executed.
#pragma once

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
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

// Sizes beyond every limit of the device stay at this value instead of wrapping.
inline constexpr std::uint64_t kHuge = 1u << 30;
inline constexpr std::uint64_t kMaxFrameBytes = 32u << 20;
inline constexpr std::uint64_t kMaxLivenessWords = 16u << 20;

inline std::uint64_t round_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }
inline std::uint32_t clamped(std::uint64_t n) { return std::uint32_t(std::min(n, kHuge)); }

inline unsigned register_bytes(Type t) {
  unsigned n = type_bytes(t);
  return n == 1 ? 2 : n;  // 8-bit registers share the 16-bit layout
}

inline bool is_float(Type t) { return t == Type::kF32 || t == Type::kF64; }
inline bool is_half(Type t) { return t == Type::kF16 || t == Type::kF16x2 || t == Type::kBF16 || t == Type::kBF16x2; }
inline bool is_signed(Type t) { return t == Type::kS8 || t == Type::kS16 || t == Type::kS32 || t == Type::kS64; }

inline bool clock_like(Special s) {
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
       relu = false, to = false, right = false, clamp = false, wrap = false, shiftamt = false;
  unsigned vector = 1;
  std::vector<std::string_view> rest;
  bool has(std::string_view name) const { return std::find(rest.begin(), rest.end(), name) != rest.end(); }
  Type type(std::size_t i = 0) const { return i < types.size() ? types[i] : Type::kNone; }
};
Modifiers sort_modifiers(const Instruction& in);

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
  std::uint64_t frame_ = 0;                  // bytes so far
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
        it->second = clamped(round_up(program.shared_static_bytes, v.align));
        program.shared_static_bytes = clamped(it->second + v.bytes());
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

std::uint32_t local_usage(const ptx::Function& f);

}  // namespace musacoder::vgpu::exec
