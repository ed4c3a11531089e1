#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <unordered_map>
#include <utility>

#include "vgpu/ptx/lexer.h"
#include "vgpu/ptx/ptx.h"

namespace musacoder::vgpu::ptx {
namespace {

constexpr std::uint32_t kMaxRegisters = 1u << 20;
constexpr std::uint64_t kMaxVariableBytes = 1ull << 32;
constexpr unsigned kMaxNesting = 64;

using Kind = Operand::Kind;
using Tok = Token::Kind;

struct SpecialRow {
  std::string_view name;
  Special special;
  bool vector;
};
constexpr SpecialRow kSpecials[] = {
    {"%tid", Special::kTid, true},
    {"%ntid", Special::kNtid, true},
    {"%ctaid", Special::kCtaid, true},
    {"%nctaid", Special::kNctaid, true},
    {"%laneid", Special::kLaneId, false},
    {"%warpid", Special::kWarpId, false},
    {"%nwarpid", Special::kNwarpId, false},
    {"%smid", Special::kSmId, false},
    {"%nsmid", Special::kNsmId, false},
    {"%gridid", Special::kGridId, false},
    {"%lanemask_eq", Special::kLanemaskEq, false},
    {"%lanemask_le", Special::kLanemaskLe, false},
    {"%lanemask_lt", Special::kLanemaskLt, false},
    {"%lanemask_ge", Special::kLanemaskGe, false},
    {"%lanemask_gt", Special::kLanemaskGt, false},
    {"%clock", Special::kClock, false},
    {"%clock_hi", Special::kClockHi, false},
    {"%clock64", Special::kClock64, false},
    {"%globaltimer", Special::kGlobaltimer, false},
    {"%globaltimer_lo", Special::kGlobaltimerLo, false},
    {"%globaltimer_hi", Special::kGlobaltimerHi, false},
    {"%dynamic_smem_size", Special::kDynamicSmemSize, false},
    {"%total_smem_size", Special::kTotalSmemSize, false},
    {"%aggr_smem_size", Special::kAggrSmemSize, false},
    {"%clusterid", Special::kClusterId, true},
    {"%nclusterid", Special::kNclusterId, true},
    {"%cluster_ctaid", Special::kClusterCtaid, true},
    {"%cluster_nctaid", Special::kClusterNctaid, true},
    {"%cluster_ctarank", Special::kClusterCtarank, false},
    {"%cluster_nctarank", Special::kClusterNctarank, false},
    {"%is_explicit_cluster", Special::kIsExplicitCluster, false},
    {"WARP_SZ", Special::kWarpSize, false},
    {"%reserved_smem_offset_begin", Special::kReservedSmem, false},
};

struct ParseError {
  std::uint32_t line;
  std::string message;
};

// Names visible in one { } of a function body.
struct Scope {
  std::unordered_map<std::string_view, std::uint32_t> registers;
  struct Family {
    std::uint32_t count = 0, first = 0;
  };
  std::unordered_map<std::string_view, Family> families;
  std::unordered_map<std::string_view, std::int32_t> variables;  // as Operand::variable
  std::int32_t parent = -1;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) { advance(); }

  Status run(Module& module);

 private:
  [[nodiscard]] bool error(std::string message) {
    if (!failed_) {
      failed_ = true;
      error_ = {token_.line, std::move(message)};
    }
    return false;
  }
  void advance() {
    token_ = lexer_.next();
    if (token_.kind == Tok::kBad) (void)error(std::string(token_.text));
  }
  bool accept(char c) {
    if (!token_.is(c)) return false;
    advance();
    return true;
  }
  [[nodiscard]] bool expect(char c) {
    if (accept(c)) return true;
    return error(fmt::format("expected '{}' before '{}'", c, shown()));
  }
  std::string shown() const {
    if (token_.kind == Tok::kEnd) return "end of file";
    if (token_.kind == Tok::kPunct) return std::string(1, token_.punct);
    return std::string(token_.text.substr(0, 40));
  }
  bool module_item();
  bool function(bool is_entry, bool is_external);
  bool formal(Function& f, bool result);
  bool body(Function& f);
  bool statement(Function& f);
  bool instruction(Function& f);
  bool operand(Function& f, Operand& out, unsigned depth);
  bool address(Function& f, Operand& out);
  bool name_operand(Function& f, std::string_view name, Operand& out);
  bool registers(Function& f);
  bool variable(Space space, bool is_external, Variable& out);
  bool initialiser(Variable& v, unsigned depth);
  bool integer(std::uint64_t& out);
  bool loc();
  bool skip_directive();
  bool find_register(std::string_view name, std::uint32_t& out);
  bool resolve_labels(Function& f);
  std::int32_t find_variable(std::string_view name, bool& found);

  Lexer lexer_;
  Token token_;
  bool failed_ = false;
  ParseError error_{};
  Module* module_ = nullptr;
  std::vector<Scope> scopes_;
  std::int32_t scope_ = -1;
  std::int32_t location_ = -1;
  struct LabelUse {
    std::uint32_t instruction;
    std::string_view name;
    std::int32_t scope;
    std::uint32_t line;
  };
  struct LabelKey {
    std::string_view name;
    std::int32_t scope;
    bool operator==(const LabelKey&) const = default;
  };
  struct LabelHash {
    std::size_t operator()(const LabelKey& k) const {
      return std::hash<std::string_view>()(k.name) * 31 + std::size_t(k.scope);
    }
  };
  std::unordered_map<LabelKey, std::uint32_t, LabelHash> labels_;
  std::unordered_map<LabelKey, std::vector<std::string_view>, LabelHash> branch_lists_;
  std::vector<LabelUse> label_uses_;
  std::vector<std::unique_ptr<std::string>> param_names_;  // keys of Scope::variables, at stable addresses
};

bool Parser::integer(std::uint64_t& out) {
  bool negative = false;
  while (token_.is('-') || token_.is('+')) {
    if (token_.is('-')) negative = !negative;
    advance();
  }
  if (token_.kind != Tok::kInteger) return error(fmt::format("expected an integer before '{}'", shown()));
  out = negative ? 0 - token_.bits : token_.bits;
  advance();
  return !failed_;
}

Status Parser::run(Module& module) {
  module_ = &module;
  while (!failed_ && token_.kind != Tok::kEnd) {
    if (!module_item()) break;
  }
  if (failed_) return fail(Code::kInvalidArgument, "ptx:{}: {}", error_.line, error_.message);
  return ok();
}

bool Parser::skip_directive() {
  // To the end of its statement: a ';', or for the line-based directives the next directive.
  advance();
  while (!failed_ && token_.kind != Tok::kEnd && !token_.is(';')) advance();
  accept(';');
  return !failed_;
}

bool Parser::loc() {
  advance();
  std::uint64_t file = 0, line = 0, column = 0;
  if (!integer(file) || !integer(line) || !integer(column)) return false;
  Location at{std::uint32_t(file), std::uint32_t(line), -1};
  if (token_.is(',')) {
    advance();
    // function_name LABEL[+offset], inlined_at FILE LINE COLUMN
    while (!failed_ && !token_.is(',') && token_.kind != Tok::kEnd) advance();
    accept(',');
    if (!token_.ident("inlined_at")) return error("expected inlined_at in .loc");
    advance();
    std::uint64_t outer_file = 0, outer_line = 0;
    if (!integer(outer_file) || !integer(outer_line) || !integer(column)) return false;
    // The caller's own chain, if it was itself inlined, is the nearest earlier location of the same place.
    Location outer{std::uint32_t(outer_file), std::uint32_t(outer_line), -1};
    auto& all = module_->locations;
    for (std::size_t i = all.size(); i-- > 0 && all.size() - i < 64;) {
      if (all[i].file == outer.file && all[i].line == outer.line) {
        at.inlined_at = std::int32_t(i);
        break;
      }
    }
    if (at.inlined_at < 0) {
      all.push_back(outer);
      at.inlined_at = std::int32_t(all.size() - 1);
    }
  }
  module_->locations.push_back(at);
  location_ = std::int32_t(module_->locations.size() - 1);
  return !failed_;
}

bool Parser::module_item() {
  if (token_.kind != Tok::kDotted) {
    if (accept(';')) return !failed_;
    return error(fmt::format("expected a directive before '{}'", shown()));
  }
  std::string_view word = token_.text;
  if (word == "version") {
    advance();
    advance();
    return !failed_;
  }
  if (word == "target") {
    advance();
    if (token_.kind == Tok::kIdentifier) module_->target = std::string(token_.text);
    advance();
    while (accept(',')) advance();
    return !failed_;
  }
  if (word == "address_size") {
    advance();
    std::uint64_t bits = 0;
    if (!integer(bits)) return false;
    if (bits != 64) return error("only .address_size 64 is supported");
    return true;
  }
  if (word == "file") {
    advance();
    std::uint64_t index = 0;
    if (!integer(index)) return false;
    if (token_.kind != Tok::kString) return error("expected a file name in quotes");
    module_->files[std::uint32_t(index)] = std::string(token_.text);
    advance();
    while (accept(',')) {
      std::uint64_t skip = 0;
      if (!integer(skip)) return false;
    }
    return !failed_;
  }
  if (word == "loc") return loc();
  if (word == "section") {
    advance();
    advance();
    if (!token_.is('{')) return error("expected '{' after .section");
    if (!lexer_.skip_braces()) return error("the section never ends");
    advance();
    return !failed_;
  }
  if (word == "pragma" || word == "alias" || word == "common") return skip_directive();
  if (word == "blocksareclusters") {
    advance();
    return !failed_;
  }
  bool is_external = false;
  while (!failed_ && (token_.dotted("visible") || token_.dotted("extern") || token_.dotted("weak") ||
                      token_.dotted("common") || token_.dotted("unified"))) {
    is_external |= token_.dotted("extern");
    advance();
  }
  if (token_.dotted("entry")) return function(true, is_external);
  if (token_.dotted("func")) return function(false, is_external);
  Space space;
  if (token_.dotted("global")) space = Space::kGlobal;
  else if (token_.dotted("const")) space = Space::kConst;
  else if (token_.dotted("shared")) space = Space::kShared;
  else if (token_.dotted("tex")) return skip_directive();
  else return error(fmt::format("unknown directive '.{}'", shown()));
  advance();
  do {
    Variable v;
    if (!variable(space, is_external, v)) return false;
    auto [it, fresh] = module_->variable_index.emplace(v.name, std::uint32_t(module_->variables.size()));
    if (fresh) {
      module_->variables.push_back(std::move(v));
    } else {
      Variable& old = module_->variables[it->second];
      if (old.is_external) old = std::move(v);
      else if (!v.is_external) return error(fmt::format("'{}' is defined twice", v.name));
    }
  } while (accept(','));
  return expect(';');
}

// After the space directive: [.align N] [.attribute(...)] .type name[dims] [= init]. With several names the type repeats.
bool Parser::variable(Space space, bool is_external, Variable& out) {
  out.space = space;
  out.is_external = is_external;
  bool typed = false;
  unsigned lanes = 1;
  std::uint32_t align = 0;
  while (!failed_ && token_.kind == Tok::kDotted) {
    if (token_.dotted("align")) {
      advance();
      std::uint64_t n = 0;
      if (!integer(n)) return false;
      if (n == 0 || n > 1 << 20 || (n & (n - 1))) return error("alignment must be a power of two up to 2^20");
      align = std::uint32_t(n);
    } else if (token_.dotted("attribute")) {
      advance();
      if (!expect('(')) return false;
      while (!failed_ && !token_.is(')') && token_.kind != Tok::kEnd) advance();
      if (!expect(')')) return false;
    } else if (token_.dotted("v2") || token_.dotted("v4")) {
      lanes = unsigned(token_.text[1] - '0');
      advance();
    } else if (token_.dotted("ptr") || token_.dotted("global") || token_.dotted("shared") || token_.dotted("const") ||
               token_.dotted("local") || token_.dotted("texref") || token_.dotted("surfref") ||
               token_.dotted("samplerref")) {
      if (token_.dotted("ptr")) {
        // .ptr [.space] [.align N] qualifies the pointee; it does not change the parameter's own alignment.
        advance();
        if (token_.kind == Tok::kDotted && !token_.dotted("align")) advance();
        if (token_.dotted("align")) {
          advance();
          std::uint64_t n = 0;
          if (!integer(n)) return false;
        }
        continue;
      }
      if (token_.text.ends_with("ref")) {
        out.type = Type::kB64;
        typed = true;
      }
      advance();
    } else {
      Type t = parse_type(token_.text);
      if (t == Type::kNone) return error(fmt::format("unknown type '.{}'", shown()));
      out.type = t;
      typed = true;
      advance();
    }
  }
  if (!typed) return error("a variable lacks its type");
  if (token_.kind != Tok::kIdentifier) return error(fmt::format("expected a variable name before '{}'", shown()));
  out.name = std::string(token_.text);
  advance();
  out.count = lanes;
  if (accept('<')) {
    std::uint64_t n = 0;
    if (!integer(n) || !expect('>')) return false;
  }
  bool unsized = false;
  while (accept('[')) {
    if (accept(']')) {
      unsized = true;
      continue;
    }
    std::uint64_t n = 0;
    if (!integer(n) || !expect(']')) return false;
    if (n > kMaxVariableBytes || (n && out.count > kMaxVariableBytes / n)) return error("a variable is too large");
    out.count *= n;
  }
  if (out.count * type_bytes(out.type) > kMaxVariableBytes) return error("a variable is too large");
  out.align = std::max(align, std::max(1u, type_bytes(out.type)));
  if (accept('=')) {
    if (!initialiser(out, 0)) return false;
    if (unsized) out.count = std::max<std::uint64_t>(1, out.init.size());
    if (out.init.size() > out.count) return error("more initial values than elements");
    unsized = false;
  }
  if (unsized) {
    out.count = 0;
    out.external_size = true;
  }
  return !failed_;
}

bool Parser::initialiser(Variable& v, unsigned depth) {
  if (depth > 8) return error("initialiser nested too deep");
  if (accept('{')) {
    if (accept('}')) return !failed_;
    do {
      if (!initialiser(v, depth + 1)) return false;
    } while (accept(','));
    return expect('}');
  }
  InitValue value;
  bool negative = false;
  while (token_.is('-') || token_.is('+')) {
    negative ^= token_.is('-');
    advance();
  }
  if (token_.kind == Tok::kInteger) {
    value.bits = negative ? 0 - token_.bits : token_.bits;
    advance();
    if (token_.is('(')) {  // mask(symbol): a byte of an address
      advance();
      std::uint64_t mask = value.bits;
      value.bits = 0;
      while (mask && !(mask & 0xff)) {
        mask >>= 8;
        value.shift = std::uint8_t(value.shift + 8);
      }
      if (token_.ident("generic")) {
        advance();
        if (!expect('(')) return false;
        value.symbol = token_.text;
        value.generic = true;
        advance();
        if (!expect(')')) return false;
      } else {
        value.symbol = token_.text;
        advance();
      }
      if (accept('+')) {
        std::uint64_t n = 0;
        if (!integer(n)) return false;
        value.bits = n;
      }
      if (!expect(')')) return false;
    }
  } else if (token_.kind == Tok::kFloat) {
    value.bits = token_.bits;
    if (token_.punct == 'f' && v.type == Type::kF64) {
      value.bits = std::bit_cast<std::uint64_t>(double(std::bit_cast<float>(std::uint32_t(token_.bits))));
    } else if (token_.punct == 'd' && type_bytes(v.type) == 4) {
      value.bits = std::bit_cast<std::uint32_t>(float(std::bit_cast<double>(token_.bits)));
    }
    if (negative) value.bits ^= 1ull << (type_bytes(v.type) * 8 - 1);
    advance();
  } else if (token_.kind == Tok::kIdentifier) {
    value.symbol = token_.text;
    advance();
    if (value.symbol == "generic" && accept('(')) {
      value.symbol = token_.text;
      value.generic = true;
      advance();
      if (!expect(')')) return false;
    }
    if (token_.is('+') || token_.is('-')) {
      if (!integer(value.bits)) return false;
    }
  } else {
    return error(fmt::format("expected an initial value before '{}'", shown()));
  }
  v.init.push_back(value);
  return !failed_;
}

bool Parser::formal(Function& f, bool result) {
  bool is_reg = token_.dotted("reg");
  if (!is_reg && !token_.dotted("param")) return error(fmt::format("expected .param or .reg before '{}'", shown()));
  advance();
  Variable v;
  if (!variable(is_reg ? Space::kReg : Space::kParam, false, v)) return false;
  std::uint32_t reg = ~0u;
  std::int32_t var = -1;
  if (is_reg) {
    reg = std::uint32_t(f.registers.size());
    f.registers.push_back({v.type});
  } else {
    var = std::int32_t(f.variables.size());
    f.variables.push_back(v);
  }
  (result ? f.results : f.params).push_back(std::move(v));
  (result ? f.result_regs : f.param_regs).push_back(reg);
  (result ? f.result_vars : f.param_vars).push_back(var);
  return !failed_;
}

bool Parser::function(bool is_entry, bool) {
  Function f;
  f.line = token_.line;
  f.is_entry = is_entry;
  advance();
  while (token_.dotted("attribute")) {
    advance();
    if (!expect('(')) return false;
    while (!failed_ && !token_.is(')') && token_.kind != Tok::kEnd) advance();
    if (!expect(')')) return false;
  }
  if (accept('(')) {
    if (!token_.is(')')) {
      do {
        if (!formal(f, true)) return false;
      } while (accept(','));
    }
    if (!expect(')')) return false;
  }
  if (token_.kind != Tok::kIdentifier) return error(fmt::format("expected a function name before '{}'", shown()));
  f.name = std::string(token_.text);
  advance();
  if (accept('(')) {
    if (!token_.is(')')) {
      do {
        if (!formal(f, false)) return false;
      } while (accept(','));
    }
    if (!expect(')')) return false;
  }
  while (!failed_ && token_.kind == Tok::kDotted) {
    bool threads = token_.dotted("maxntid") || token_.dotted("reqntid");
    bool blocks = token_.dotted("minnctapersm");
    if (token_.dotted("pragma")) {
      if (!skip_directive()) return false;
      continue;
    }
    advance();
    std::uint64_t product = 1;
    bool any = false;
    while (!failed_ && (token_.kind == Tok::kInteger || token_.is(','))) {
      if (token_.kind == Tok::kInteger) {
        product *= token_.bits & 0xffffffff;
        any = true;
      }
      advance();
    }
    if (threads && any) f.max_threads = std::uint32_t(std::min<std::uint64_t>(product, 1u << 30));
    if (blocks && any) f.min_blocks = std::uint32_t(product);
  }
  if (token_.is('{')) {
    f.has_body = true;
    if (!body(f)) return false;
  } else {
    accept(';');
  }
  auto [it, fresh] = module_->function_index.emplace(f.name, std::uint32_t(module_->functions.size()));
  if (fresh) {
    module_->functions.push_back(std::move(f));
  } else if (f.has_body) {
    if (module_->functions[it->second].has_body) return error(fmt::format("function '{}' is defined twice", f.name));
    module_->functions[it->second] = std::move(f);
  }
  return !failed_;
}

bool Parser::body(Function& f) {
  scopes_.clear();
  labels_.clear();
  branch_lists_.clear();
  label_uses_.clear();
  location_ = -1;
  scopes_.emplace_back();
  scope_ = 0;
  auto add_formals = [&](std::vector<Variable>& list, std::vector<std::uint32_t>& regs, std::vector<std::int32_t>& vars) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (regs[i] != ~0u) scopes_[0].registers[list[i].name] = regs[i];
      else scopes_[0].variables[list[i].name] = -1 - vars[i];
    }
  };
  add_formals(f.results, f.result_regs, f.result_vars);
  add_formals(f.params, f.param_regs, f.param_vars);
  advance();  // {
  unsigned depth = 1;
  while (!failed_) {
    if (token_.kind == Tok::kEnd) return error("a function body never ends");
    if (token_.is('{')) {
      if (++depth > kMaxNesting) return error("blocks nested too deep");
      scopes_.emplace_back();
      scopes_.back().parent = scope_;
      scope_ = std::int32_t(scopes_.size() - 1);
      advance();
      continue;
    }
    if (token_.is('}')) {
      scope_ = scopes_[std::size_t(scope_)].parent;
      if (--depth == 0) break;
      advance();
      continue;
    }
    if (!statement(f)) return false;
  }
  if (failed_) return false;
  advance();
  return resolve_labels(f) && !failed_;
}

bool Parser::registers(Function& f) {
  advance();
  if (token_.dotted("v2") || token_.dotted("v4")) return error("vector registers are not supported");
  Type type = token_.kind == Tok::kDotted ? parse_type(token_.text) : Type::kNone;
  if (type == Type::kNone) return error(fmt::format("unknown register type '.{}'", shown()));
  advance();
  Scope& scope = scopes_[std::size_t(scope_)];
  do {
    if (token_.kind != Tok::kIdentifier) return error(fmt::format("expected a register name before '{}'", shown()));
    std::string_view name = token_.text;
    advance();
    if (accept('<')) {
      std::uint64_t n = 0;
      if (!integer(n) || !expect('>')) return false;
      if (n > kMaxRegisters || f.registers.size() + n > kMaxRegisters) return error("too many registers");
      scope.families[name] = {std::uint32_t(n), std::uint32_t(f.registers.size())};
      f.registers.insert(f.registers.end(), n, Register{type});
    } else {
      if (f.registers.size() >= kMaxRegisters) return error("too many registers");
      scope.registers[name] = std::uint32_t(f.registers.size());
      f.registers.push_back({type});
    }
  } while (accept(','));
  return expect(';');
}

bool Parser::find_register(std::string_view name, std::uint32_t& out) {
  std::size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  std::string_view prefix = name.substr(0, digits);
  std::string_view suffix = name.substr(digits);
  std::uint32_t index = 0;
  bool indexed = !suffix.empty() && suffix.size() <= 8;
  if (indexed)
    for (char c : suffix) index = index * 10 + std::uint32_t(c - '0');
  for (std::int32_t s = scope_; s >= 0; s = scopes_[std::size_t(s)].parent) {
    const Scope& scope = scopes_[std::size_t(s)];
    if (auto it = scope.registers.find(name); it != scope.registers.end()) {
      out = it->second;
      return true;
    }
    if (!indexed) continue;
    // A family's own name may end in digits: %ptx2<4> names %ptx20 … %ptx23.
    if (auto it = scope.families.find(prefix); it != scope.families.end() && index < it->second.count) {
      out = it->second.first + index;
      return true;
    }
    for (std::size_t cut = digits + 1; cut < name.size(); ++cut) {
      auto it = scope.families.find(name.substr(0, cut));
      if (it == scope.families.end()) continue;
      std::uint32_t tail = 0;
      for (char c : name.substr(cut)) tail = tail * 10 + std::uint32_t(c - '0');
      if (tail < it->second.count) {
        out = it->second.first + tail;
        return true;
      }
    }
  }
  return false;
}

std::int32_t Parser::find_variable(std::string_view name, bool& found) {
  found = true;
  for (std::int32_t s = scope_; s >= 0; s = scopes_[std::size_t(s)].parent) {
    const auto& map = scopes_[std::size_t(s)].variables;
    if (auto it = map.find(name); it != map.end()) return it->second;
  }
  if (auto it = module_->variable_index.find(name); it != module_->variable_index.end()) return std::int32_t(it->second);
  found = false;
  return 0;
}

bool Parser::statement(Function& f) {
  if (accept(';')) return !failed_;
  if (token_.kind == Tok::kDotted) {
    std::string_view word = token_.text;
    if (word == "reg") return registers(f);
    if (word == "loc") return loc();
    if (word == "local" || word == "param" || word == "shared") {
      Space space = word == "local" ? Space::kLocal : word == "param" ? Space::kParam : Space::kShared;
      advance();
      do {
        Variable v;
        if (!variable(space, false, v)) return false;
        if (space == Space::kShared) {
          // Demoted shared variables belong to the module: every function that names one means the same bytes.
          std::string key = v.name;
          auto [it, fresh] = module_->variable_index.emplace(std::move(key), std::uint32_t(module_->variables.size()));
          if (fresh) module_->variables.push_back(std::move(v));
          scopes_[std::size_t(scope_)].variables[it->first] = std::int32_t(it->second);
        } else {
          // `.param .b32 p<4>` declares a family; nvcc never emits it.
          f.variables.push_back(std::move(v));
          param_names_.push_back(std::make_unique<std::string>(f.variables.back().name));
          scopes_[std::size_t(scope_)].variables[*param_names_.back()] = -std::int32_t(f.variables.size());
        }
      } while (accept(','));
      return expect(';');
    }
    if (word == "pragma" || word == "noreturn" || word == "callprototype" || word == "calltargets") return skip_directive();
    if (word == "file") return module_item();
    return error(fmt::format("unknown directive '.{}' in a function", shown()));
  }
  if (token_.is('@') || token_.kind == Tok::kIdentifier) return instruction(f);
  return error(fmt::format("expected an instruction before '{}'", shown()));
}

bool Parser::instruction(Function& f) {
  Instruction in;
  in.line = token_.line;
  in.location = location_;
  if (accept('@')) {
    in.guard_negate = accept('!');
    std::uint32_t reg = 0;
    if (token_.kind != Tok::kIdentifier || !find_register(token_.text, reg))
      return error(fmt::format("unknown guard predicate '{}'", shown()));
    if (f.registers[reg].type != Type::kPred) return error("a guard must be a predicate register");
    in.guard = std::int32_t(reg);
    advance();
  }
  if (token_.kind != Tok::kIdentifier) return error(fmt::format("expected an opcode before '{}'", shown()));
  in.opcode = token_.text;
  advance();
  if (in.guard < 0 && token_.is(':')) {  // label, prototype or branch targets
    advance();
    std::string_view name = in.opcode;
    if (token_.dotted("callprototype") || token_.dotted("calltargets")) return skip_directive();
    if (token_.dotted("branchtargets")) {
      advance();
      auto& list = branch_lists_[{name, scope_}];
      do {
        if (token_.kind != Tok::kIdentifier) return error("expected a label");
        list.push_back(token_.text);
        advance();
      } while (accept(','));
      return expect(';');
    }
    if (!labels_.emplace(LabelKey{name, scope_}, std::uint32_t(f.body.size())).second)
      return error(fmt::format("label '{}' is defined twice", name));
    return !failed_;
  }
  while (!failed_ && token_.kind == Tok::kDotted) {
    in.modifiers.push_back(token_.text);
    advance();
  }
  if (!token_.is(';')) {
    do {
      Operand o;
      if (!operand(f, o, 0)) return false;
      in.operands.push_back(std::move(o));
    } while (accept(','));
  }
  if (!expect(';')) return false;
  auto use = [&](const Operand& o) {
    if (o.kind == Kind::kName)
      label_uses_.push_back({std::uint32_t(f.body.size()), o.name, scope_, in.line});
  };
  if (in.opcode == "bra" && !in.operands.empty()) use(in.operands[0]);
  if (in.opcode == "brx" && in.operands.size() == 2) use(in.operands[1]);
  f.body.push_back(std::move(in));
  return !failed_;
}

bool Parser::address(Function& f, Operand& out) {
  out.kind = Kind::kAddress;
  out.items.emplace_back();
  Operand& base = out.items[0];
  if (token_.kind == Tok::kInteger || token_.is('-')) {
    base.kind = Kind::kInteger;
    if (!integer(base.bits)) return false;
  } else if (token_.kind == Tok::kIdentifier) {
    std::string_view name = token_.text;
    advance();
    if (!name_operand(f, name, base)) return false;
  } else {
    return error(fmt::format("expected an address before '{}'", shown()));
  }
  while (token_.is('+') || token_.is('-')) {
    bool negative = token_.is('-');
    advance();
    std::uint64_t n = 0;
    if (!integer(n)) return false;
    out.offset = std::int64_t(std::uint64_t(out.offset) + (negative ? 0 - n : n));
  }
  // Texture coordinates and tensor maps: [name, {…}]; kept as further items so that the text still parses.
  while (accept(',')) {
    Operand extra;
    if (!operand(f, extra, 2)) return false;
    out.items.push_back(std::move(extra));
  }
  return expect(']');
}

bool Parser::name_operand(Function&, std::string_view name, Operand& out) {
  if (name == "_") {
    out.kind = Kind::kSink;
    return true;
  }
  std::uint32_t reg = 0;
  if (find_register(name, reg)) {
    out.kind = Kind::kReg;
    out.reg = reg;
    return true;
  }
  if (name[0] == '%' || name == "WARP_SZ") {
    for (const auto& row : kSpecials) {
      if (row.name != name) continue;
      out.kind = Kind::kSpecial;
      out.special = row.special;
      if (row.vector && token_.kind == Tok::kDotted && token_.text.size() == 1) {
        std::size_t axis = std::string_view("xyzw").find(token_.text[0]);
        if (axis == std::string_view::npos) return error("expected .x, .y, .z or .w");
        out.component = std::uint8_t(axis);
        advance();
      }
      return true;
    }
    if (name.starts_with("%envreg") && name.size() > 7 && name.size() <= 9) {
      out.kind = Kind::kSpecial;
      out.special = Special::kEnvreg;
      unsigned n = 0;
      for (char c : name.substr(7)) n = n * 10 + unsigned(c - '0');
      out.component = std::uint8_t(n);
      return true;
    }
    out.kind = Kind::kName;  // a special register this device lacks: unsupported when executed
    out.name = name;
    return true;
  }
  bool found = false;
  std::int32_t variable = find_variable(name, found);
  if (found) {
    out.kind = Kind::kSymbol;
    out.variable = variable;
    out.name = name;
    return true;
  }
  if (module_->function_index.contains(name)) {
    out.kind = Kind::kFunction;
    out.name = name;
    return true;
  }
  out.kind = Kind::kName;
  out.name = name;
  return true;
}

bool Parser::operand(Function& f, Operand& out, unsigned depth) {
  if (depth > 4) return error("operand nested too deep");
  if (accept('!')) {
    out.negate = true;
    if (token_.kind != Tok::kIdentifier) return error("expected a predicate after '!'");
  }
  if (accept('[')) return address(f, out);
  if (token_.is('{') || token_.is('(')) {
    char close = token_.is('{') ? '}' : ')';
    out.kind = token_.is('{') ? Kind::kVector : Kind::kList;
    advance();
    if (accept(close)) return !failed_;
    do {
      out.items.emplace_back();
      if (!operand(f, out.items.back(), depth + 1)) return false;
      if (out.items.size() > 4096) return error("a list is too long");
    } while (accept(','));
    return expect(close);
  }
  bool negative = false;
  while (token_.is('-') || token_.is('+')) {
    negative ^= token_.is('-');
    advance();
  }
  if (token_.kind == Tok::kInteger) {
    out.kind = Kind::kInteger;
    out.bits = negative ? 0 - token_.bits : token_.bits;
    advance();
    return !failed_;
  }
  if (token_.kind == Tok::kFloat) {
    out.kind = Kind::kFloat;
    out.component = token_.punct == 'f' ? 32 : 64;
    out.bits = token_.bits ^ (negative ? 1ull << (out.component - 1) : 0);
    advance();
    return !failed_;
  }
  if (token_.kind != Tok::kIdentifier) return error(fmt::format("expected an operand before '{}'", shown()));
  std::string_view name = token_.text;
  advance();
  if (!name_operand(f, name, out)) return false;
  if (out.kind == Kind::kReg && token_.is('|')) {
    advance();
    Operand second;
    if (token_.kind != Tok::kIdentifier) return error("expected a predicate after '|'");
    name = token_.text;
    advance();
    if (!name_operand(f, name, second)) return false;
    if (second.kind == Kind::kReg) out.second = second.reg;
    else if (second.kind != Kind::kSink) return error("expected a predicate after '|'");
  } else if (out.kind == Kind::kSink && token_.is('|')) {
    advance();
    Operand second;
    name = token_.text;
    advance();
    if (!name_operand(f, name, second)) return false;
    if (second.kind == Kind::kReg) out.second = second.reg;
  }
  if ((out.kind == Kind::kSymbol || out.kind == Kind::kFunction) && (token_.is('+') || token_.is('-'))) {
    bool minus = token_.is('-');
    advance();
    std::uint64_t n = 0;
    if (!integer(n)) return false;
    out.offset = std::int64_t(minus ? 0 - n : n);
  }
  return !failed_;
}

bool Parser::resolve_labels(Function& f) {
  auto find_label = [&](std::string_view name, std::int32_t scope, std::uint32_t& out) {
    for (std::int32_t s = scope; s >= 0; s = scopes_[std::size_t(s)].parent) {
      if (auto it = labels_.find({name, s}); it != labels_.end()) {
        out = it->second;
        return true;
      }
    }
    return false;
  };
  for (const auto& use : label_uses_) {
    Instruction& in = f.body[use.instruction];
    auto missing = [&] {
      failed_ = true;
      error_ = {use.line, fmt::format("label '{}' is not defined", use.name.substr(0, 80))};
      return false;
    };
    if (in.opcode == "brx") {
      const std::vector<std::string_view>* list = nullptr;
      std::int32_t at = use.scope;
      for (; at >= 0; at = scopes_[std::size_t(at)].parent) {
        if (auto it = branch_lists_.find({use.name, at}); it != branch_lists_.end()) {
          list = &it->second;
          break;
        }
      }
      if (!list) return missing();
      Operand targets;
      targets.kind = Kind::kList;
      for (auto name : *list) {
        Operand label;
        label.kind = Kind::kLabel;
        if (!find_label(name, at, label.label)) return missing();
        targets.items.push_back(std::move(label));
      }
      in.operands[1] = std::move(targets);
    } else {
      std::uint32_t target = 0;
      if (!find_label(use.name, use.scope, target)) return missing();
      in.operands[0].kind = Kind::kLabel;
      in.operands[0].label = target;
    }
  }
  return true;
}

}  // namespace

Result<Module> parse(std::string_view text) {
  Module module;
  module.text = std::make_unique<std::string>(text);
  Parser parser(*module.text);
  MC_RETURN_IF_ERROR(parser.run(module));
  return module;
}

}  // namespace musacoder::vgpu::ptx
