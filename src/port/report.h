// What a port did, for people and for programs.
//
//   fmt::print("{}", report_text(files, Dialect::kMusa));
//   base::write_file_atomic("report.json", report_json(table, files, Dialect::kMusa).dump(2));
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "port/files.h"

namespace musacoder::port {

// Files, renames by group, what a person has to look at by kind, at most `listed` places of each kind.
std::string report_text(const std::vector<PortedFile>& files, Dialect to, std::size_t listed = 20);
// {"to", "tables", "files": [{"path", "to", "renames", "groups", "names", "attention"}], "groups",
// "attention_kinds", "reversible"}
nlohmann::ordered_json report_json(const RenameTable& table, const std::vector<PortedFile>& files,
                                   Dialect to);

// One of the files has something that keeps the way back from giving the original.
bool reversible(const std::vector<PortedFile>& files);

}  // namespace musacoder::port
