// Runs a parsed template over a context.
//
//   std::string out;
//   Interpreter(context, budget, now_s).run(program, out);      // throws Fault
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "llm/chat/jinja/ast.h"
#include "llm/chat/jinja/template.h"

namespace musacoder::llm::jinja {

// Names and their values; an inner scope sees the outer's names and hides them by setting its own.
struct Scope {
  std::unordered_map<std::string, Value> names;
  std::shared_ptr<Scope> outer;
};
using ScopePtr = std::shared_ptr<Scope>;

class Interpreter {
 public:
  Interpreter(const Value& context, Budget& budget, double now_s);
  void run(const Block& program, std::string& out);
  std::vector<Span> generations;

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class Deeper;

  Flow block(const Block& statements, const ScopePtr& scope, std::string& out);
  Flow statement(const Stmt& s, const ScopePtr& scope, std::string& out);
  void loop(const Stmt& s, const ScopePtr& scope, std::string& out);
  void set(const Expr& target, const Value& value, const ScopePtr& scope);
  void call_block(const Stmt& s, const ScopePtr& scope, std::string& out);
  Value macro(const Stmt& s, const ScopePtr& scope);
  Value run_macro(const Stmt& s, const ScopePtr& scope, Call& call);
  void put(std::string_view text, std::string& out);

  Value evaluate(const Expr& e, const ScopePtr& scope);
  Value name(const std::string& name, const ScopePtr& scope);
  Value binary(const Expr& e, const ScopePtr& scope);
  Value compare_chain(const Expr& e, const ScopePtr& scope);
  Value slice(const Expr& e, const ScopePtr& scope);
  Value call(const Expr& e, const ScopePtr& scope, const Value* caller);
  Value filter(const Expr& e, const ScopePtr& scope, const Value* input);
  Value test(const Expr& e, const ScopePtr& scope);
  Call arguments(const Expr& e, const ScopePtr& scope, std::string name);

  ScopePtr globals_;
  Budget& budget_;
  double now_s_;
  const std::string* main_ = nullptr;   // what run() writes to
};

}  // namespace musacoder::llm::jinja
