#include "vgpu/exec/decoder.h"

namespace musacoder::vgpu::exec {

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
      auto at = std::int64_t(std::uint64_t(where.offset) + std::uint64_t(where.items[0].offset));
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

}  // namespace musacoder::vgpu::exec
