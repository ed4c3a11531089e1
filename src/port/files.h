// Files, folders and candidate rows ported as a whole: what `musacoder port` does, without printing.
//
//   MC_ASSIGN_OR_RETURN(auto inputs, find_files({"kernels/"}, /*hidden=*/false));
//   for (const Input& input : inputs) {
//     MC_ASSIGN_OR_RETURN(PortedFile file, port_file(table, input, Dialect::kMusa, {}));
//     …
//   }
//   MC_RETURN_IF_ERROR(write_files(files, "kernels_musa", {}));
//
// Nothing is written before everything is ported. A new folder appears whole or not at all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "port/port.h"

namespace musacoder::port {

struct Input {
  std::string path;      // where it is read
  std::string relative;  // below the folder that was given; for a file its name
  bool from_folder = false;
};

// The files of each path: the file itself, or what is below a folder, in order of names. In a folder, names
// that begin with
// "." and what git ignores (where git knows the folder) are passed over unless `hidden`. Links are not
// followed. Errors: kNotFound.
Result<std::vector<Input>> find_files(const std::vector<std::string>& paths, bool hidden);

struct FileOptions {
  PortOptions port;
  std::optional<Language> language;                 // of every file; else by name and content
  std::vector<std::string> fields = {"candidate"};  // of JSONL rows that hold texts to be ported
};

struct PortedFile {
  std::string path;      // as read
  std::string relative;  // with the other dialect's file name
  std::string before, after;
  bool text = false;  // false: copied as it is: no text, or a text of no language such as README.md
  Language language = Language::kText;
  std::vector<Rename> renames;  // of JSONL: lines count within a row's text
  std::vector<Attention> attention;
  bool changed() const { return before != after; }
};

// Errors: kNotFound, kInvalidArgument with path and line for a JSONL row that is no object or has none of the
// fields.
Result<PortedFile> port_file(const RenameTable& table, const Input& input, Dialect to,
                             const FileOptions& options);

// Writes below `out`, or for a single file as `out`. Errors: kInvalidArgument when something is there and
// `force` is not set, or two files would be written to one place; those of base/files.h.
Status write_files(const std::vector<PortedFile>& files, const std::string& out, bool force);
// Replaces each file where it stands; a file whose name changes gets the new name.
Status replace_files(const std::vector<PortedFile>& files, bool force);

// A unified diff. Lines stay on their lines, so it needs no search.
std::string diff_of(const PortedFile& file, int context = 3);

}  // namespace musacoder::port
