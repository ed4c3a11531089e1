// A kernel made ready to run: decoded code of the entry and of every function it can reach, with the layout of its frames,
// shared memory and constants. Built once per kernel by decode.cpp, executed by launch.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "vgpu/exec/code.h"
#include "vgpu/ptx/ptx.h"

namespace musacoder::vgpu::exec {

// A frame slot whose 32 lanes are filled before execution.
struct ConstantSlot {
  enum class Kind : std::uint8_t {
    kBits,        // value in every lane
    kSpecial,     // special register
    kParam,       // bytes of the kernel's parameters at value
    kLocal,       // address of local memory at value in this frame
    kPredicate,   // value != 0: all lanes set
  };
  Kind kind = Kind::kBits;
  std::uint8_t width = 4;
  ptx::Special special = ptx::Special::kTid;
  std::uint8_t component = 0;
  std::uint64_t value = 0;
  std::uint32_t offset = 0;       // in the frame
  bool operator==(const ConstantSlot& o) const {
    return kind == o.kind && width == o.width && special == o.special && component == o.component && value == o.value;
  }
  bool per_warp() const;          // must be refilled for every warp
};

// A .param variable of a device function or call sequence: bytes a lane at offset + lane * bytes.
struct ParamArea {
  std::uint32_t offset = 0, bytes = 0;
};

struct Code {
  const ptx::Function* function = nullptr;
  std::vector<Inst> insts;
  std::vector<std::int32_t> origin;          // index into function->body per instruction, -1 for none
  std::vector<ConstantSlot> constants;
  std::uint32_t frame_bytes = 0;
  std::uint32_t local_bytes = 0;
  const Inst* entry = nullptr;
  const Inst* exit = nullptr;
  std::vector<ParamArea> params, results;    // areas of formals; bytes 0 for register formals
  std::vector<std::uint32_t> param_regs, result_regs;   // frame offset of register formals, ~0 otherwise
  std::vector<std::uint8_t> param_widths, result_widths;
};

enum class Builtin : std::uint8_t { kNone, kVprintf, kAssertfail, kMalloc, kFree, kUnsupported };

struct CallSite {
  const Code* callee = nullptr;              // direct
  Builtin builtin = Builtin::kNone;
  std::string name;
  struct Argument {
    ParamArea area;                          // bytes 0: register
    std::uint32_t reg = ~0u;
    std::uint8_t width = 0;
  };
  std::vector<Argument> arguments, results;
  const Inst* rpc = nullptr;                 // the next block, where split indirect calls meet
};

// A matrix instruction: shapes, element types and the frame offsets of its fragments' registers.
struct TensorSite {
  enum class Kind : std::uint8_t { kMma, kWmmaLoad, kWmmaStore, kWmmaMma, kLdmatrix, kStmatrix, kMovmatrix } kind = Kind::kMma;
  unsigned m = 0, n = 0, k = 0;
  ptx::Type a_type = ptx::Type::kNone, b_type = ptx::Type::kNone, c_type = ptx::Type::kNone, d_type = ptx::Type::kNone;
  ptx::Space space = ptx::Space::kGeneric;
  bool row_major = true, trans = false, saturate = false, address32 = false;
  char matrix = 'a';                         // wmma.load and store: a, b, c or d
  unsigned register_bytes = 4;               // of a fragment register in a, b (8 for f64)
  std::vector<std::uint32_t> a, b, c, d;     // frame offsets
  std::uint32_t stride = 0;                  // frame offset of the stride register, 0 = dense
};

bool tensor_supported(const TensorSite& t);

struct ModuleImage;

struct Program {
  const ModuleImage* module = nullptr;
  Code* entry = nullptr;
  std::map<const ptx::Function*, std::unique_ptr<Code>> codes;
  std::deque<CallSite> sites;
  std::deque<TensorSite> tensors;
  std::deque<std::vector<const Inst*>> tables;            // brx.idx
  std::vector<const ptx::Function*> functions_by_index;   // function pointers
  std::uint32_t cache_slots = 0;
  std::uint32_t shared_static_bytes = 0;
  std::map<std::int32_t, std::uint32_t> shared_offsets;   // module variable → offset
  std::uint32_t local_bytes = 0;                          // per thread, whole call tree
  bool has_calls = false;
  std::uint32_t dynamic_shared_offset = 0;
};

// A loaded module with the addresses its variables got.
struct ModuleImage {
  ptx::Module module;
  std::vector<std::uint64_t> variable_address;            // 0 for shared
  std::map<std::string, std::unique_ptr<Program>, std::less<>> programs;
};

// The function pointer value of a function of this module.
std::uint64_t function_address(const ptx::Module& module, std::string_view name);
std::uint32_t param_bytes(const ptx::Function& f, std::vector<std::uint32_t>* offsets);

Result<std::unique_ptr<Program>> decode(const ModuleImage& module, const ptx::Function& kernel, Lookup engine);
// Bytes of static shared and local memory without decoding everything; used by Device::kernels.
void static_usage(const ptx::Module& module, const ptx::Function& kernel, std::uint32_t* shared, std::uint32_t* local);

// Control flow of one function.
struct BasicBlock {
  std::uint32_t begin = 0, end = 0;          // of the body
  std::vector<std::uint32_t> successors;     // block indices; the exit block is blocks.size()
  std::uint32_t post_dominator = 0;          // immediate; blocks.size() = exit
};
std::vector<BasicBlock> control_flow(const ptx::Function& f);
bool ends_block(const ptx::Instruction& in);

// Registers an instruction reads and writes.
struct DefUse {
  std::vector<std::uint32_t> defs, uses;
};
void def_use(const ptx::Instruction& in, DefUse& out);

// Handlers that are no loops over lanes (control.cpp, access.cpp, atomics.cpp).
const Inst* do_branch(Warp&, const Inst*);            // a = predicate, flags bit 0 negates, target, imm = rpc
const Inst* do_jump(Warp&, const Inst*);
const Inst* do_branch_table(Warp&, const Inst*);
const Inst* do_exit(Warp&, const Inst*);
const Inst* do_exit_if(Warp&, const Inst*);
const Inst* do_return(Warp&, const Inst*);
const Inst* do_call(Warp&, const Inst*);
const Inst* do_call_indirect(Warp&, const Inst*);
const Inst* do_guard(Warp&, const Inst*);
const Inst* do_barrier(Warp&, const Inst*);
const Inst* do_barrier_reduce(Warp&, const Inst*);
const Inst* do_barrier_arrive(Warp&, const Inst*);
const Inst* do_trap(Warp&, const Inst*);
const Inst* do_nop(Warp&, const Inst*);
const Inst* do_unsupported(Warp&, const Inst*);
const Inst* do_vote(Warp&, const Inst*);
const Inst* do_match(Warp&, const Inst*);
const Inst* do_redux(Warp&, const Inst*);
const Inst* do_activemask(Warp&, const Inst*);
const Inst* do_elect(Warp&, const Inst*);
const Inst* do_now(Warp&, const Inst*);               // clock-like special registers
const Inst* do_param_access(Warp&, const Inst*);
const Inst* do_cvta(Warp&, const Inst*);
const Inst* do_isspacep(Warp&, const Inst*);
const Inst* do_cp_async(Warp&, const Inst*);
const Inst* do_tensor(Warp&, const Inst*);            // target is a TensorSite; a, imm = address
Handler find_atomic(std::string_view op, ptx::Type type);

}  // namespace musacoder::vgpu::exec
