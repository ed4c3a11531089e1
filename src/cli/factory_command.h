// `musacoder factory run CONFIG.toml`: a chain of commands from data to trained model (factory/run.h,
// docs/factory.md).
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace musacoder::cli {

struct FactoryOptions {
  std::string config;
  std::vector<std::string> set;  // "key=value"
  std::vector<std::string> only;
  double seconds = 0;
  int parallel = 1;
  bool dry_run = false, json = false, quiet = false;
};
// 0 done, 1 a stage failed (its log is named), 2 wrong usage, 3 the machine, 4 stopped before the end.
int run_factory(const FactoryOptions& options);
int show_factory(const FactoryOptions& options);

void add_factory_commands(CLI::App& app, int& code);

}  // namespace musacoder::cli
