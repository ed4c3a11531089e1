#include "vgpu/exec/decoder.h"

namespace musacoder::vgpu::exec {

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

}  // namespace musacoder::vgpu::exec
