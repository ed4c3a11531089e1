#include "vgpu/exec/decoder.h"

namespace musacoder::vgpu::exec {

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

}  // namespace musacoder::vgpu::exec
