// `musacoder port`: CUDA files, folders and candidates to MUSA and back.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "port/files.h"
#include "port/report.h"

namespace musacoder::cli {
namespace {

int refuse(const Error& error) {
  fmt::print(stderr, "musacoder port: {}\n", base::printable(error.message));
  return error.code == Code::kInvalidArgument || error.code == Code::kNotFound ? 2 : 3;
}

Status check(const PortCommandOptions& options, const std::vector<port::Input>& inputs) {
  const int ways = !options.out.empty() + options.in_place + options.diff + options.dry_run;
  if (ways > 1)
    return fail(Code::kInvalidArgument, "-o, --in-place, --diff and --dry-run exclude each other; give one");
  if (inputs.empty())
    return fail(Code::kInvalidArgument, "there is no file to port in {}", fmt::join(options.paths, ", "));
  const bool several = inputs.size() > 1 || inputs[0].from_folder;
  if (several && ways == 0)
    return fail(Code::kInvalidArgument,
                "{} files need a place; give -o FOLDER, --in-place, --diff or --dry-run", inputs.size());
  return ok();
}

// A single file goes to `out` itself, unless that is a folder.
Status write(const PortCommandOptions& options, const std::vector<port::PortedFile>& files, bool single) {
  if (options.in_place) return port::replace_files(files, options.force);
  const bool folder = options.out.ends_with('/') || base::is_directory(options.out);
  if (!single) return port::write_files(files, options.out, options.force);
  const std::string place =
      folder ? (std::filesystem::path(options.out) / files[0].relative).string() : options.out;
  if (base::exists(place) && !options.force)
    return fail(Code::kInvalidArgument, "{} exists; give another place, or -f to write over it", place);
  if (folder) MC_RETURN_IF_ERROR(base::make_dirs(options.out));
  return base::write_file_atomic(place, files[0].after, base::is_executable(files[0].path) ? 0755 : 0644);
}

}  // namespace

int run_port(const PortCommandOptions& options) {
  auto table =
      options.tables.empty() ? port::RenameTable::installed() : port::RenameTable::load(options.tables);
  if (!table) return refuse(table.error());
  auto inputs = port::find_files(options.paths, options.hidden);
  if (!inputs) return refuse(inputs.error());
  if (auto checked = check(options, *inputs); !checked) return refuse(checked.error());

  const port::Dialect to = options.to == "cuda" ? port::Dialect::kCuda : port::Dialect::kMusa;
  port::FileOptions how{.port = {.in_strings = options.in_strings,
                                 .in_comments = options.in_comments,
                                 .keep_marks = options.keep_marks},
                        .language = {}};
  if (!options.fields.empty()) how.fields = options.fields;
  if (options.language == "cpp")
    how.language = port::Language::kCpp;
  else if (options.language == "python")
    how.language = port::Language::kPython;
  else if (options.language == "build")
    how.language = port::Language::kBuild;
  else if (options.language == "answer")
    how.language = port::Language::kAnswer;
  else if (options.language == "text")
    how.language = port::Language::kText;

  std::vector<port::PortedFile> files;
  for (const port::Input& input : *inputs) {
    auto file = port::port_file(*table, input, to, how);
    if (!file) return refuse(file.error());
    files.push_back(std::move(*file));
  }

  // The report stands where the ported text does not.
  const bool to_stdout = options.out.empty() && !options.in_place && !options.dry_run;
  if (to_stdout && !options.diff && !options.json) fmt::print("{}", files[0].after);
  if (options.diff)
    for (const port::PortedFile& file : files) fmt::print("{}", port::diff_of(file));
  if (!options.out.empty() || options.in_place)
    if (auto written = write(options, files, !(*inputs)[0].from_folder && inputs->size() == 1); !written)
      return refuse(written.error());

  const auto report = port::report_json(*table, files, to);
  const std::string text =
      report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  if (!options.report.empty())
    if (auto written = base::write_file_atomic(options.report, text); !written)
      return refuse(written.error());
  if (options.json)
    fmt::print("{}", text);
  else if (!options.quiet)
    fmt::print(to_stdout ? stderr : stdout, "{}", port::report_text(files, to));
  return options.strict && !report["attention_kinds"].empty() ? 1 : 0;
}

}  // namespace musacoder::cli
