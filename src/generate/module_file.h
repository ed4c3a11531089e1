// Any Python file with an nn.Module as a task.
//
//   MC_ASSIGN_OR_RETURN(task::Task task, task_of_module("net.py", {.inputs = "16x128xf32"}, python,
//   runtime_dir));
//
// A file in KernelBench's format is a task as it is. For others the module's class is found by Python's
// parser (nothing is run), and get_inputs and get_init_inputs are written from what is given here. Errors:
// kInvalidArgument with what is missing and how to give it; kNotFound.
#pragma once

#include <optional>
#include <string>

#include "task/task.h"

namespace musacoder::generate {

struct ModuleInputs {
  std::string class_name;             // "": Model, else the only module that no other one of the file uses
  std::optional<std::string> inputs;  // "2x3xf32,4xi64<10,0.5": of forward
  std::optional<std::string> init;    // "64, bias=False": of the constructor
};

Result<task::Task> task_of_module(const std::string& path, const ModuleInputs& given,
                                  const std::string& python, const std::string& runtime_dir);

}  // namespace musacoder::generate
