// PTX text as data: what the parser makes and the decoder reads.
//
//   MC_ASSIGN_OR_RETURN(ptx::Module module, ptx::parse(text));
//   const ptx::Function* f = module.find_function("relu");
//
// The parser resolves names (registers, variables, labels, functions) by PTX's scoping rules, so that the decoder never
// sees text except opcodes and their modifiers. Input is hostile: every error is a Status with the line; nothing throws.
// Syntax: "PTX ISA 9.0", https://docs.nvidia.com/cuda/parallel-thread-execution/ (sections 4, 5, 7, 11).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace musacoder::vgpu::ptx {

enum class Type : std::uint8_t {
  kNone,
  kPred,
  kB8, kB16, kB32, kB64, kB128,
  kU8, kU16, kU32, kU64,
  kS8, kS16, kS32, kS64,
  kF16, kF16x2, kBF16, kBF16x2, kTF32, kF32, kF64,
  kE4M3, kE5M2, kE4M3x2, kE5M2x2,
  kU16x2, kS16x2, kF32x2,
};
// ".f32" without its dot; kNone when it is not a type.
Type parse_type(std::string_view name);
unsigned type_bytes(Type type);  // 0 for kNone and kPred
const char* type_name(Type type);

enum class Space : std::uint8_t { kGeneric, kGlobal, kShared, kLocal, kParam, kConst, kReg };
const char* space_name(Space space);

enum class Special : std::uint8_t {
  kTid, kNtid, kCtaid, kNctaid,                       // with component 0..3
  kLaneId, kWarpId, kNwarpId, kSmId, kNsmId, kGridId,
  kLanemaskEq, kLanemaskLe, kLanemaskLt, kLanemaskGe, kLanemaskGt,
  kClock, kClockHi, kClock64, kGlobaltimer, kGlobaltimerLo, kGlobaltimerHi,
  kDynamicSmemSize, kTotalSmemSize, kAggrSmemSize,
  kEnvreg,                                            // with index in component
  kClusterId, kNclusterId, kClusterCtaid, kClusterNctaid, kClusterCtarank, kClusterNctarank, kIsExplicitCluster,
  kWarpSize, kReservedSmem,
};

struct Operand {
  enum class Kind : std::uint8_t {
    kReg,        // reg
    kInteger,    // bits
    kFloat,      // bits of a float (component 32) or of a double (component 64)
    kSpecial,    // special, component
    kSymbol,     // variable (+ offset): its address
    kAddress,    // [base + offset]: items[0] is a kReg, kSymbol or kInteger
    kVector,     // items
    kList,       // items: arguments in parentheses
    kLabel,      // label: index into Function::body
    kFunction,   // name
    kName,       // name: anything unresolved (call prototypes, texture references)
    kSink,       // _
  };
  Kind kind = Kind::kSink;
  bool negate = false;             // !%p
  std::uint8_t component = 0;
  Special special = Special::kTid;
  std::uint32_t reg = 0;           // index into Function::registers
  std::uint32_t second = ~0u;      // the q of p|q, register index
  std::int32_t variable = 0;       // >= 0: Module::variables, < 0: Function::variables[-1 - variable]
  std::uint32_t label = 0;
  std::int64_t offset = 0;
  std::uint64_t bits = 0;
  std::string_view name;
  std::vector<Operand> items;
};

// An integer constant or the address of a variable or function inside an initialiser.
struct InitValue {
  std::uint64_t bits = 0;
  std::string_view symbol;         // empty: bits; otherwise symbol's address plus bits
  std::uint8_t shift = 0;          // mask(symbol): which byte of the address, times 8
  bool generic = false;
};

struct Variable {
  std::string name;
  Space space = Space::kGlobal;
  Type type = Type::kB8;
  std::uint64_t count = 1;         // elements in all
  std::uint32_t align = 1;
  bool external_size = false;      // .extern .shared x[]
  bool is_external = false;
  std::vector<InitValue> init;
  std::uint64_t bytes() const { return count * type_bytes(type); }
};

// A source position from .loc; inlined_at chains to the position of the call, -1 at the end.
struct Location {
  std::uint32_t file = 0, line = 0;
  std::int32_t inlined_at = -1;
};

struct Instruction {
  std::string_view opcode;                   // "ld"
  std::vector<std::string_view> modifiers;   // "global", "f32"
  std::int32_t guard = -1;                   // register index
  bool guard_negate = false;
  std::uint32_t line = 0;                    // of the PTX text
  std::int32_t location = -1;                // index into Module::locations
  std::vector<Operand> operands;
  std::string text() const;                  // opcode with modifiers
};

struct Register {
  Type type = Type::kB32;
};

struct Function {
  std::string name;
  bool is_entry = false, has_body = false;
  std::vector<Variable> params;              // in declaration order; space kParam or kReg
  std::vector<Variable> results;
  std::vector<std::uint32_t> param_regs, result_regs;  // register index for kReg formals
  std::vector<std::int32_t> param_vars, result_vars;   // index into variables for kParam formals, else -1
  std::vector<Variable> variables;           // .local, .param and demoted .shared, with every formal parameter
  std::vector<Register> registers;
  std::vector<Instruction> body;
  std::uint32_t max_threads = 0;             // .maxntid / .reqntid product, 0 = none
  std::uint32_t min_blocks = 0;
  std::uint32_t line = 0;
};

struct Module {
  std::unique_ptr<std::string> text;         // the views point into this
  std::string target;                        // sm_90
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::map<std::string, std::uint32_t, std::less<>> function_index, variable_index;
  std::map<std::uint32_t, std::string> files;
  std::vector<Location> locations;
  const Function* find_function(std::string_view name) const;
};

// kInvalidArgument with "ptx:LINE: what" on malformed text.
Result<Module> parse(std::string_view text);

}  // namespace musacoder::vgpu::ptx
