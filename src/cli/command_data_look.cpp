// `musacoder data stats|show|validate`.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "base/hash.h"
#include "base/terminal.h"
#include "cli/data_commands.h"
#include "cli/judge_config.h"
#include "cli/scratch.h"
#include "judge/judge.h"
#include "synth/manifest.h"
#include "synth/record.h"
#include "synth/seeded.h"
#include "synth/shards.h"

namespace musacoder::cli {
namespace {

using nlohmann::json;

int usage(const char* command, const std::string& message) {
  fmt::print(stderr, "musacoder data {}: {}\n", command, message);
  return 2;
}

// The files of a folder with a manifest in their order, or the file itself.
Result<std::vector<std::string>> files_of(const std::string& path) {
  if (!base::is_directory(path)) {
    if (!base::exists(path)) return fail(Code::kNotFound, "there is no {}", path);
    return std::vector<std::string>{path};
  }
  MC_ASSIGN_OR_RETURN(synth::Manifest manifest, synth::read_manifest(path));
  std::vector<std::string> files;
  for (const synth::Shard& shard : manifest.shards) files.push_back(path + "/" + shard.file);
  return files;
}

// Rows that the filters let through, with their lines.
Status each_row(const DataLookOptions& options, const std::function<Status(const synth::Row&, std::string_view)>& use) {
  MC_ASSIGN_OR_RETURN(auto files, files_of(options.folder));
  for (const std::string& file : files) {
    std::size_t number = 0;
    MC_RETURN_IF_ERROR(synth::read_lines(file, [&](std::string_view line) -> Status {
      ++number;
      auto row = synth::row_from_line(line);
      if (!row) return fail(Code::kInvalidArgument, "{}:{}: {}", file, number, row.error().message);
      if ((!options.kind.empty() && row->kind != options.kind) || (!options.family.empty() && row->family != options.family)) return ok();
      return use(*row, line);
    }));
  }
  return ok();
}

constexpr const char* kDone = "enough rows";  // ends each_row early

}  // namespace

int run_data_stats(const DataLookOptions& options) {
  std::map<std::string, std::map<std::string, std::size_t>> by_kind;
  std::map<std::string, std::size_t> families, statuses, turns;
  std::set<std::string> tasks;
  std::vector<std::size_t> prompts, answers;
  std::size_t rows = 0;
  auto read = each_row(options, [&](const synth::Row& row, std::string_view) {
    ++rows;
    ++by_kind[row.kind][row.family];
    ++families[row.family];
    ++statuses[row.verdict.status.empty() ? "none" : row.verdict.status];
    ++turns[std::to_string(row.messages.size() / 2)];
    if (!row.task.empty()) tasks.insert(row.task);
    std::size_t before = 0;
    for (std::size_t i = 0; i + 1 < row.messages.size(); ++i) before += row.messages[i].content.size();
    prompts.push_back(before);
    answers.push_back(row.messages.empty() ? 0 : row.messages.back().content.size());
    return ok();
  });
  if (!read) return usage("stats", read.error().message);
  const auto at = [](std::vector<std::size_t>& values, double share) {
    if (values.empty()) return std::size_t{0};
    std::sort(values.begin(), values.end());
    return values[std::min(values.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values.size())))];
  };
  if (options.json) {
    fmt::print("{}\n", json({{"rows", rows}, {"tasks", tasks.size()}, {"kinds", by_kind}, {"families", families}, {"statuses", statuses}, {"turns", turns},
                             {"prompt_bytes", {{"median", at(prompts, 0.5)}, {"p95", at(prompts, 0.95)}, {"max", at(prompts, 1)}}},
                             {"answer_bytes", {{"median", at(answers, 0.5)}, {"p95", at(answers, 0.95)}, {"max", at(answers, 1)}}}}).dump());
    return 0;
  }
  std::vector<std::string> header = {"family"};
  for (const auto& [kind, counts] : by_kind) header.push_back(kind);
  header.push_back("rows");
  base::Table table(header, [&] {
    std::vector<base::Align> align(header.size(), base::Align::kRight);
    align[0] = base::Align::kLeft;
    return align;
  }());
  for (const auto& [family, count] : families) {
    std::vector<std::string> line = {family};
    for (auto& [kind, counts] : by_kind) line.push_back(counts.contains(family) ? std::to_string(counts[family]) : "");
    line.push_back(std::to_string(count));
    table.add(std::move(line));
  }
  fmt::print("{} rows about {} tasks\n\n{}\n", rows, tasks.size(), table.text());
  fmt::print("bytes before the last answer: median {}, 95 % {}, most {}\nbytes of the last answer: median {}, 95 % {}, most {}\n", at(prompts, 0.5), at(prompts, 0.95), at(prompts, 1), at(answers, 0.5),
             at(answers, 0.95), at(answers, 1));
  for (const auto& [status, count] : statuses) fmt::print("{:7}  {}\n", count, status);
  return 0;
}

int run_data_show(const DataLookOptions& options) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(nullptr, std::fclose);
  if (!options.out.empty()) {
    file.reset(std::fopen(options.out.c_str(), "wb"));
    if (!file) return usage("show", "cannot write " + options.out);
  }
  std::FILE* out = file ? file.get() : stdout;
  const base::Terminal terminal(stdout);
  std::size_t seen = 0, shown = 0;
  auto read = each_row(options, [&](const synth::Row& row, std::string_view line) -> Status {
    if (seen++ < options.skip) return ok();
    if (options.raw || options.json) {
      fmt::print(out, "{}\n", line);
    } else {
      fmt::print("{}\n", terminal.bold(fmt::format("{} · {} · stage {} · {} · {} {}", row.kind, row.family, row.stage, row.source.from, row.source.teacher, row.source.schedule)));
      fmt::print("verdict {}{}; task {}\n", row.verdict.status.empty() ? "none" : row.verdict.status, row.verdict.reward ? fmt::format(", reward {:.2f}", *row.verdict.reward) : "", row.task.substr(0, 12));
      for (const synth::Message& message : row.messages) fmt::print("\n{}\n{}\n", terminal.cyan("── " + message.role), base::printable(message.content));
      fmt::print("\n");
    }
    return ++shown == options.limit ? Status(fail(Code::kUnavailable, "{}", kDone)) : ok();
  });
  if (!read && read.error().message != kDone) return usage("show", read.error().message);
  if (file && std::fclose(file.release()) != 0) {
    fmt::print(stderr, "musacoder data show: {} could not be written\n", options.out);
    return 3;
  }
  return 0;
}

int run_data_validate(const DataLookOptions& options) {
  std::vector<std::string> problems;
  const auto problem = [&](std::string text) {
    if (problems.size() < 1000) problems.push_back(std::move(text));
  };
  std::size_t rows = 0;
  if (base::is_directory(options.folder)) {
    auto manifest = synth::read_manifest(options.folder);
    if (!manifest) return usage("validate", manifest.error().message);
    for (const synth::Shard& shard : manifest->shards) {
      const auto hash = base::sha256_file(options.folder + "/" + shard.file);
      if (!hash) problem(hash.error().message);
      else if (*hash != shard.sha256) problem(shard.file + ": the hash is not the manifest's");
    }
  }
  auto files = files_of(options.folder);
  if (!files) return usage("validate", files.error().message);
  std::vector<synth::Row> verifiable;
  for (const std::string& file : *files) {
    std::size_t number = 0;
    auto read = synth::read_lines(file, [&](std::string_view line) {
      ++number, ++rows;
      auto row = synth::row_from_line(line);
      Status checked = row ? synth::check_row(*row) : Status(tl::unexpected(row.error()));
      if (!checked) problem(fmt::format("{}:{}: {}", file, number, checked.error().message));
      else if (options.verify && synth::answers_with_code(row->kind)) verifiable.push_back(std::move(*row));
      return ok();
    });
    if (!read) problem(read.error().message);
  }
  std::size_t judged = 0, differ = 0;
  if (options.verify && !verifiable.empty()) {
    auto config = judge_config(options.judge);
    if (!config) return usage("validate", config.error().message);
    auto scratch = own_scratch();
    if (!scratch) return usage("validate", scratch.error().message);
    auto judge = judge::Judge::create(*config);
    if (!judge) {
      fmt::print(stderr, "musacoder data validate: {}\nTry `musacoder doctor`.\n", judge.error().message);
      return 3;
    }
    synth::Seeded(options.seed).shuffle(verifiable);
    base::ProgressLine progress(stderr);
    for (const synth::Row& row : verifiable) {
      if (judged == options.verify) break;
      // The reference is the last Python block of the first message that has a Model; its hash says whether it is the task.
      std::string code;
      for (const synth::Message& message : row.messages) {
        for (std::size_t at = 0; code.empty() && (at = message.content.find("```python\n", at)) != std::string::npos; ++at) {
          const std::string text = message.content.substr(at + 10);
          for (std::size_t end = 0; (end = text.find("```", end)) != std::string::npos; ++end)
            if (const std::string body = text.substr(0, end); base::sha256_hex(body) == row.task || base::sha256_hex(body.substr(0, body.size() - 1)) == row.task) {
              code = base::sha256_hex(body) == row.task ? body : body.substr(0, body.size() - 1);
              break;
            }
        }
      }
      if (code.empty()) {
        problem(fmt::format("a row of {} does not hold the task it names", row.source.from));
        continue;
      }
      progress.update(fmt::format("verified {}/{}", judged, std::min(options.verify, verifiable.size())));
      judge::JudgeRequest request;
      request.task_id = row.source.from;
      request.task_code = code;
      request.answer = row.messages.back().content;
      const judge::Verdict verdict = (*judge)->judge(request);
      ++judged;
      if (verdict.status != "ok") {
        ++differ;
        problem(fmt::format("an answer to {} ({}) is {} now: {}", row.source.from, row.kind, verdict.status, verdict.cause));
      }
    }
    progress.finish(fmt::format("{} judged again", judged));
  }
  if (options.json) {
    fmt::print("{}\n", json({{"rows", rows}, {"judged", judged}, {"differ", differ}, {"problems", problems}}).dump(-1, ' ', false, json::error_handler_t::replace));
  } else {
    for (const std::string& text : problems) fmt::print("{}\n", text);
    fmt::print("{} rows, {} problems{}\n", rows, problems.size(), options.verify ? fmt::format(", {} judged again, {} otherwise", judged, differ) : "");
  }
  return problems.empty() ? 0 : 1;
}

}  // namespace musacoder::cli
