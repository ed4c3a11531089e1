// Members of torch.nn that have state: the order of their constructor's arguments, and the parameters and buffers they make.
//
//   const ModuleInfo* info = find_module("Linear");
//   info->state({"fc", "Linear", {{"in_features", 64}, {"out_features", 8}}}, DType::kF32);   // weight (8, 64), bias (8,)
//
// Adding one: a row in the table of modules.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "synth/graph/graph.h"

namespace musacoder::synth {

struct ModuleInfo {
  const char* kind;
  std::vector<const char*> positional;  // printed by position where all before them are given; the others by keyword
  std::vector<const char*> shared;      // arguments that are attributes of the node too
  Result<std::vector<Value>> (*state)(const Module& module, DType dtype);
  // Where a call is not self.<name>(x, …) with one result: its arguments, a template of its tensors (python_text.h), and the names that take its
  // results, a template of those. Where there are several, the first is what matters.
  const char* arguments = "{*}";
  const char* results = "{0}";
};

const ModuleInfo* find_module(std::string_view kind);

}  // namespace musacoder::synth
