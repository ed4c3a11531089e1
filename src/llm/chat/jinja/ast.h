// A parsed template. Plain trees; interpreter.cpp gives them meaning.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "llm/chat/jinja/value.h"

namespace musacoder::llm::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Argument {
  std::string name;      // empty: by position
  ExprPtr value;
  int unpack = 0;        // 1: *value, 2: **value
};

struct Expr {
  enum Kind {
    kConstant,      // value
    kName,          // name
    kList, kTuple,  // items
    kDict,          // items: key, value, key, value, …
    kAttribute,     // items[0].name
    kItem,          // items[0][items[1]]
    kSlice,         // items[0][items[1]:items[2]:items[3]]; absent parts are null
    kCall,          // items[0](arguments)
    kFilter,        // items[0] | name(arguments); items[0] is null in a filter block
    kTest,          // items[0] is name(arguments)
    kUnary,         // name: "-", "+", "not"
    kBinary,        // name: "+", "-", "*", "/", "//", "%", "**", "~", "and", "or"
    kCompare,       // items[0] names[0] items[1] names[1] items[2] …
    kConditional,   // items[0] if items[1] else items[2]; items[2] may be null
  } kind = kConstant;
  int line = 1, depth = 1;   // depth: of the tree below, bounded by the parser
  std::string name;
  Value value;
  std::vector<ExprPtr> items;
  std::vector<std::string> names;
  std::vector<Argument> arguments;
};

struct Stmt;
using Block = std::vector<std::unique_ptr<Stmt>>;

struct Parameter {
  std::string name;
  ExprPtr otherwise;   // null: none
};

struct Stmt {
  enum Kind {
    kText,         // text
    kPrint,        // a
    kIf,           // a: condition; body, otherwise (an elif is an If in there)
    kFor,          // target in a, if b; body, otherwise
    kSet,          // target = a
    kSetBlock,     // target = body, through the filters of a
    kMacro,        // text(parameters): body
    kCallBlock,    // call(parameters) a: body
    kFilterBlock,  // a (its innermost input is the body)
    kWith,         // parameters: names with values; body
    kGeneration,   // body
    kBreak, kContinue,
  } kind = kText;
  int line = 1;
  std::string text;
  ExprPtr a, b, target;
  bool varargs = false, kwargs = false;   // kMacro, kCallBlock: the body mentions them, so further arguments may be given
  std::vector<Parameter> parameters;
  Block body, otherwise;
};

}  // namespace musacoder::llm::jinja
