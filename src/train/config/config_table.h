// Configuration files: TOML into a struct, by one table of keys that the documentation is printed from too.
//
//   struct Mine { std::string dir; double lr = 1e-5; } mine;
//   const std::vector<ConfigKey> keys = {{"run.dir", &mine.dir, "where the run's files go"},
//                                        {"optimizer.lr", &mine.lr, "learning rate"}};
//   MC_RETURN_IF_ERROR(read_config(keys, "run.toml"));
//   MC_RETURN_IF_ERROR(set_config(keys, "optimizer.lr=3e-5"));        // a command line's --set
//   config_markdown(keys);       // | key | default | meaning |, where `mine` has its defaults
//
// A key that is not in the table is an error that names the nearest one. Whole numbers are taken for real
// ones, nothing else is converted. Errors: kInvalidArgument "file:line: ...".
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"

namespace musacoder::train {

// Names under a key that are the user's own: `mixture.weights.reduction = 2`.
using NumberMap = std::map<std::string, double>;

struct ConfigKey {
  std::string name;  // "section.key"
  std::variant<std::string*, std::int64_t*, double*, bool*, std::vector<std::string>*, NumberMap*> at;
  std::string meaning;
  std::vector<std::string> choices = {};  // of a text; empty: any
};

Status read_config(const std::vector<ConfigKey>& keys, const std::string& path);
Status read_config_text(const std::vector<ConfigKey>& keys, const std::string& text,
                        const std::string& where);
// "key=value"; the value as TOML writes it, a text also without quotes.
Status set_config(const std::vector<ConfigKey>& keys, const std::string& assignment);
// The file, then the command line's assignments over it.
Status read_config(const std::vector<ConfigKey>& keys, const std::string& path,
                   const std::vector<std::string>& assignments);
// All values, {"section.key": value}.
nlohmann::json config_json(const std::vector<ConfigKey>& keys);
std::string config_markdown(const std::vector<ConfigKey>& keys);

// The candidate that takes the fewest edits to become `name`; empty where none is near.
std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace musacoder::train
