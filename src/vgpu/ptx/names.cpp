#include <algorithm>
#include <array>

#include "vgpu/ptx/ptx.h"

namespace musacoder::vgpu::ptx {
namespace {

struct TypeRow {
  const char* name;
  unsigned bytes;
};
// In the order of Type.
constexpr TypeRow kTypes[] = {
    {"", 0},     {"pred", 0},   {"b8", 1},     {"b16", 2},    {"b32", 4},  {"b64", 8},  {"b128", 16}, {"u8", 1},
    {"u16", 2},  {"u32", 4},    {"u64", 8},    {"s8", 1},     {"s16", 2},  {"s32", 4},  {"s64", 8},   {"f16", 2},
    {"f16x2", 4}, {"bf16", 2},  {"bf16x2", 4}, {"tf32", 4},   {"f32", 4},  {"f64", 8},  {"e4m3", 1},  {"e5m2", 1},
    {"e4m3x2", 2}, {"e5m2x2", 2}, {"u16x2", 4}, {"s16x2", 4}, {"f32x2", 8},
};

}  // namespace

Type parse_type(std::string_view name) {
  for (std::size_t i = 1; i < std::size(kTypes); ++i)
    if (name == kTypes[i].name) return Type(i);
  return Type::kNone;
}
unsigned type_bytes(Type type) { return kTypes[std::size_t(type)].bytes; }
const char* type_name(Type type) { return kTypes[std::size_t(type)].name; }

const char* space_name(Space space) {
  constexpr const char* kNames[] = {"generic", "global", "shared", "local", "param", "const", "reg"};
  return kNames[std::size_t(space)];
}

std::string Instruction::text() const {
  std::string out(opcode);
  for (auto m : modifiers) (out += '.') += m;
  return out;
}

const Function* Module::find_function(std::string_view name) const {
  auto it = function_index.find(name);
  return it == function_index.end() ? nullptr : &functions[it->second];
}

}  // namespace musacoder::vgpu::ptx
