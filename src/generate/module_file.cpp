#include "generate/module_file.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json_lines.h"
#include "base/subprocess.h"

namespace musacoder::generate {

Result<task::Task> task_of_module(const std::string& path, const ModuleInputs& given,
                                  const std::string& python, const std::string& runtime_dir) {
  if (!base::exists(path)) return fail(Code::kNotFound, "there is no file {}", path);
  std::vector<std::string> argv = {python, "-I", runtime_dir + "/python/module_task.py", path};
  if (!given.class_name.empty()) argv.insert(argv.end(), {"--class", given.class_name});
  if (given.inputs) argv.push_back("--inputs=" + *given.inputs);
  if (given.init) argv.push_back("--init=" + *given.init);
  MC_ASSIGN_OR_RETURN(const auto result,
                      base::run({.argv = argv, .output_limit = 32u << 20, .timeout_s = 60}));
  const auto said = base::parse_json(result.out);
  if (!result.exit.ok() || !said || !said->is_object())
    return fail(Code::kInternal, "{} could not be read: {} {}", path, result.exit.describe(), result.err);
  if (said->contains("error"))
    return fail(Code::kInvalidArgument, "{}: {}", path, said->value("error", std::string()));
  const std::filesystem::path file(path);
  task::Task task;
  task.id = task.name = file.stem().string();
  task.source = path;
  task.code = said->value("code", std::string());
  return task;
}

}  // namespace musacoder::generate
