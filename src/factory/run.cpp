#include "factory/run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <future>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json_lines.h"
#include "base/subprocess.h"
#include "base/terminal.h"

extern char** environ;

namespace musacoder::factory {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string dump(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

struct Record {
  std::string digest, state;
  double seconds = 0;
  int code = 0;
};

Record read_record(const std::string& folder) {
  Record record;
  const auto text = base::read_file(folder + "/stage.json", 1u << 20);
  if (!text) return record;
  const auto parsed = base::parse_json(*text);
  if (!parsed || !parsed->is_object()) return record;
  record.digest = parsed->value("digest", std::string());
  record.state = parsed->value("state", std::string());
  record.seconds = parsed->value("seconds", 0.0);
  record.code = parsed->value("code", 0);
  return record;
}

Status write_record(const PlannedStage& stage, const Record& record) {
  return base::write_file_atomic(stage.folder + "/stage.json", dump({{"stage", stage.stage->name},
                                                                     {"kind", stage.stage->kind},
                                                                     {"digest", record.digest},
                                                                     {"state", record.state},
                                                                     {"seconds", record.seconds},
                                                                     {"code", record.code},
                                                                     {"command", stage.argv},
                                                                     {"needs", stage.needs}}));
}

std::vector<std::pair<std::string, std::string>> read_shown(const PlannedStage& stage) {
  std::vector<std::pair<std::string, std::string>> shown;
  const auto text = base::read_file(stage.folder + "/" + stage.stage->summary, 64u << 20);
  if (!text) return shown;
  const auto parsed = base::parse_json(*text);
  if (!parsed || !parsed->is_object() || !parsed->contains("shown") || !(*parsed)["shown"].is_object())
    return shown;
  for (const auto& [key, value] : (*parsed)["shown"].items())
    shown.emplace_back(key, value.is_number_float() ? fmt::format("{:.4g}", value.get<double>())
                            : value.is_string()     ? base::printable(value.get<std::string>(), false)
                                                : value.dump(-1, ' ', false, json::error_handler_t::replace));
  return shown;
}

StageReport report_of(const PlannedStage& stage) {
  StageReport report{.name = stage.stage->name, .kind = stage.stage->kind};
  const Record record = read_record(stage.folder);
  if (record.digest != stage.digest) return report;
  report.seconds = record.seconds;
  report.code = record.code;
  report.state = record.state == "done"      ? StageState::kDone
                 : record.state == "stopped" ? StageState::kStopped
                 : record.state == "failed"  ? StageState::kFailed
                                             : StageState::kWaiting;
  report.shown = read_shown(stage);
  return report;
}

std::vector<std::string> environment(const std::vector<std::string>& over) {
  std::vector<std::string> env;
  for (char** item = environ; *item; ++item) {
    const std::string_view pair(*item);
    const std::string_view name = pair.substr(0, pair.find('=') + 1);
    if (std::none_of(over.begin(), over.end(), [&](const std::string& o) { return o.rfind(name, 0) == 0; }))
      env.emplace_back(pair);
  }
  env.insert(env.end(), over.begin(), over.end());
  return env;
}

// A child's output into a file, with its last line kept.
class Log {
 public:
  explicit Log(base::Fd file) : file_(std::move(file)) {}
  // False at the end.
  bool take(int fd, int wait_ms) {
    pollfd waiting{fd, POLLIN, 0};
    if (::poll(&waiting, 1, wait_ms) <= 0) return true;
    char bytes[16384];
    const ssize_t n = ::read(fd, bytes, sizeof bytes);
    if (n <= 0) return false;
    const std::string_view piece(bytes, static_cast<std::size_t>(n));
    if (auto written = base::write_all(file_.get(), piece); !written && status_) status_ = written;
    for (const char c : piece) {
      if (c != '\n' && c != '\r') {
        if (line_.size() < 2000) line_ += c;
        continue;
      }
      if (line_.find_first_not_of(" \t") != std::string::npos) last_ = base::printable(line_, false);
      line_.clear();
    }
    return true;
  }
  const std::string& last() const { return last_; }
  const Status& status() const { return status_; }

 private:
  base::Fd file_;
  std::string line_, last_;
  Status status_ = ok();
};

struct Ran {
  base::ExitInfo exit;
  bool stopped = false;
  std::string last_line;
};

Result<Ran> run_stage(const PlannedStage& stage, const base::Deadline& deadline, const RunOptions& options,
                      const RunHooks& hooks, std::size_t index) {
  base::Fd file(::open((stage.folder + "/log.txt").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file)
    return fail(base::code_of_errno(errno), "cannot write {}/log.txt: {}", stage.folder,
                std::strerror(errno));
  MC_ASSIGN_OR_RETURN(base::Child child, base::Child::start({.argv = stage.argv,
                                                             .env = environment(stage.env),
                                                             .merge_stderr = true,
                                                             .die_with_parent = true}));
  base::Fd out = child.take_stdout();
  Log log(std::move(file));
  Ran ran;
  const base::Stopwatch watch;
  base::Deadline killing = base::Deadline::never();
  for (bool open = true; child.running();) {
    open = open && log.take(out.get(), 100);
    if (!open) base::real_clock().sleep(0.05);
    if (hooks.progress) hooks.progress(index, watch.seconds(), log.last());
    if (!log.status()) child.kill_group();
    if (!ran.stopped && (deadline.expired() || (hooks.stop && hooks.stop()))) {
      ran.stopped = true;
      ::kill(child.pid(), SIGTERM);
      killing = base::Deadline::in(options.grace_s);
    }
    if (killing.expired()) child.kill_group();
  }
  while (log.take(out.get(), 0) && [&] {
    pollfd more{out.get(), POLLIN, 0};
    return ::poll(&more, 1, 0) > 0;
  }()) {
  }
  auto exit = child.wait(base::Deadline::in(10));
  ran.exit = exit ? *exit : child.stop();
  ran.last_line = log.last();
  MC_RETURN_IF_ERROR(log.status());
  return ran;
}

Status put_aside(const PlannedStage& stage, const std::string& old_digest) {
  const std::string aside =
      fmt::format("{}.before-{}", stage.folder, old_digest.empty() ? "unknown" : old_digest.substr(0, 8));
  MC_RETURN_IF_ERROR(base::remove_tree(aside));
  std::error_code error;
  fs::rename(stage.folder, aside, error);
  if (error) return fail(Code::kInternal, "cannot put {} aside: {}", stage.folder, error.message());
  return ok();
}

Status write_summaries(const std::string& name, const Plan& plan, const std::vector<StageReport>& stages) {
  json list = json::array();
  for (const StageReport& stage : stages)
    list.push_back({{"name", stage.name},
                    {"kind", stage.kind},
                    {"state", state_name(stage.state)},
                    {"seconds", stage.seconds},
                    {"code", stage.code},
                    {"shown", std::map<std::string, std::string>(stage.shown.begin(), stage.shown.end())}});
  MC_RETURN_IF_ERROR(
      base::write_file_atomic(plan.folder + "/summary.json", dump({{"name", name}, {"stages", list}})));
  MC_RETURN_IF_ERROR(base::write_file_atomic(plan.folder + "/summary.md", summary_text(stages, true)));
  return base::write_file_atomic(plan.folder + "/summary.html", summary_html(name, stages));
}

}  // namespace

const char* state_name(StageState state) {
  switch (state) {
    case StageState::kWaiting:
      return "waiting";
    case StageState::kDone:
      return "done";
    case StageState::kSkipped:
      return "done before";
    case StageState::kStopped:
      return "stopped";
    case StageState::kFailed:
      return "failed";
  }
  return "";
}

std::vector<StageReport> look_at(const Plan& plan) {
  std::vector<StageReport> reports;
  for (const PlannedStage& stage : plan.stages) reports.push_back(report_of(stage));
  return reports;
}

namespace {

// Runs what can run. A stage begins when those that it needs have ended, and none that holds what it holds runs; of several that could,
// those that stand first in the file.
class Runner {
 public:
  Runner(const std::string& name, const Plan& plan, const RunOptions& options, const RunHooks& hooks)
      : name_(name), plan_(plan), options_(options), hooks_(hooks), seen_(plan.stages.size()) {
    end_.stages = look_at(plan);
    for (std::size_t i = 0; i < seen_.size() && !options.only.empty(); ++i)
      seen_[i].over = std::count(options.only.begin(), options.only.end(), plan.stages[i].stage->name) == 0;
    if (options.seconds > 0) deadline_ = base::Deadline::in(options.seconds);
  }
  ~Runner() { stop_ = true; }  // what still runs after an error of this process's own

  Result<RunEnd> run() {
    for (;;) {
      MC_RETURN_IF_ERROR(begin_what_can());
      if (running_.empty()) break;
      base::real_clock().sleep(0.1);
      show();
      for (auto it = running_.begin(); it != running_.end();) {
        if (it->result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
          ++it;
          continue;
        }
        MC_RETURN_IF_ERROR(ended(*it));
        it = running_.erase(it);
      }
    }
    end_.seconds = watch_.seconds();
    MC_RETURN_IF_ERROR(write_summaries(name_, plan_, end_.stages));
    return end_;
  }

 private:
  struct Seen {  // of a stage: written by its thread, read by this one
    std::mutex mutex;
    double seconds = 0;
    std::string line;
    bool over = false;  // ended in one way or another in this call, or is not asked for
  };
  struct Running {
    std::size_t index;
    Record record;
    base::Stopwatch watch;
    std::future<Result<Ran>> result;
  };

  bool stopping() const { return deadline_.expired() || (hooks_.stop && hooks_.stop()); }
  bool may_begin(std::size_t index) const {
    const PlannedStage& stage = plan_.stages[index];
    for (std::size_t i = 0; i < index; ++i) {
      const Seen& other = seen_[i];
      const bool needed = std::count(stage.needs.begin(), stage.needs.end(), plan_.stages[i].stage->name) > 0;
      // One at a time keeps the file's order, whatever is needed.
      if (!other.over && (needed || options_.parallel < 2)) return false;
    }
    return std::none_of(running_.begin(), running_.end(), [&](const Running& other) {
      const auto& held = plan_.stages[other.index].stage->holds;
      return std::any_of(held.begin(), held.end(), [&](const std::string& word) {
        return std::count(stage.stage->holds.begin(), stage.stage->holds.end(), word) > 0;
      });
    });
  }

  Status begin_what_can() {
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
      const PlannedStage& stage = plan_.stages[i];
      if (end_.state != RunState::kDone) return ok();
      if (seen_[i].over || running(i) || !may_begin(i)) continue;
      Record record = read_record(stage.folder);
      if (record.digest == stage.digest && record.state == "done") {
        end_.stages[i].state = StageState::kSkipped;
        seen_[i].over = true;
        if (hooks_.ended) hooks_.ended(end_.stages[i]);
        continue;
      }
      if (stopping()) {
        end_.state = RunState::kStopped;
        return ok();
      }
      if (static_cast<int>(running_.size()) >= std::max(1, options_.parallel)) return ok();
      MC_RETURN_IF_ERROR(begin(i, std::move(record)));
    }
    return ok();
  }

  Status begin(std::size_t index, Record record) {
    const PlannedStage& stage = plan_.stages[index];
    if (record.digest != stage.digest) {
      if (base::exists(stage.folder)) MC_RETURN_IF_ERROR(put_aside(stage, record.digest));
      record = {.digest = stage.digest};
    }
    MC_RETURN_IF_ERROR(base::make_dirs(stage.folder));
    record.state = "running";
    MC_RETURN_IF_ERROR(write_record(stage, record));
    Seen& seen = seen_[index];
    RunHooks hooks{.progress =
                       [&seen](std::size_t, double seconds, const std::string& line) {
                         std::lock_guard lock(seen.mutex);
                         seen.seconds = seconds;
                         seen.line = line;
                       },
                   .stop = [this] { return stop_.load(); }};
    running_.push_back({index, std::move(record), base::Stopwatch(), std::async(std::launch::async, [this, &stage, hooks, index] {
                          return run_stage(stage, base::Deadline::never(), options_, hooks, index);
                        })});
    return ok();
  }

  bool running(std::size_t index) const {
    return std::any_of(running_.begin(), running_.end(), [&](const Running& one) { return one.index == index; });
  }

  // Stages ask a flag of this thread's: the hook is the caller's and may not be called from theirs.
  void show() {
    if (stopping()) stop_ = true;
    if (!hooks_.progress) return;
    for (const Running& one : running_) {
      Seen& seen = seen_[one.index];
      std::lock_guard lock(seen.mutex);
      hooks_.progress(one.index, seen.seconds, seen.line);
    }
  }

  Status ended(Running& one) {
    const PlannedStage& stage = plan_.stages[one.index];
    StageReport& report = end_.stages[one.index];
    Record& record = one.record;
    auto ran = one.result.get();
    record.seconds += one.watch.seconds();
    if (!ran) {
      report.last_line = ran.error().message;
      record.state = "failed";
      record.code = 127;
    } else {
      record.code = ran->exit.signal ? 128 + ran->exit.signal : ran->exit.code;
      const bool again =
          std::count(stage.stage->goes_on.begin(), stage.stage->goes_on.end(), record.code) > 0;
      record.state = ran->exit.ok() ? "done" : ran->stopped || again ? "stopped" : "failed";
      report.last_line = ran->last_line;
    }
    seen_[one.index].over = true;
    MC_RETURN_IF_ERROR(write_record(stage, record));
    const std::string last_line = report.last_line;
    report = report_of(stage);
    report.last_line = last_line;
    if (hooks_.ended) hooks_.ended(report);
    if (record.state == "stopped" && end_.state == RunState::kDone) end_.state = RunState::kStopped;
    if (record.state == "failed" && !stage.stage->optional) end_.state = RunState::kFailed;
    end_.seconds = watch_.seconds();
    return write_summaries(name_, plan_, end_.stages);
  }

  const std::string& name_;
  const Plan& plan_;
  const RunOptions& options_;
  const RunHooks& hooks_;
  const base::Stopwatch watch_;
  base::Deadline deadline_ = base::Deadline::never();
  std::atomic<bool> stop_{false};
  std::vector<Seen> seen_;
  std::list<Running> running_;  // behind what its threads use
  RunEnd end_;
};

}  // namespace

Result<RunEnd> run_plan(const std::string& name, const Plan& plan, const RunOptions& options,
                        const RunHooks& hooks) {
  MC_RETURN_IF_ERROR(base::make_dirs(plan.folder));
  base::Fd lock(::open((plan.folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(Code::kUnavailable, "{} is run by another process", plan.folder);
  return Runner(name, plan, options, hooks).run();
}

namespace {

std::string shown_text(const StageReport& stage) {
  std::string text;
  for (const auto& [key, value] : stage.shown) text += (text.empty() ? "" : ", ") + key + " " + value;
  return text;
}

// The stages that evaluate, with a column for everything that one of them shows.
base::Table evaluations(const std::vector<StageReport>& stages) {
  std::vector<std::string> keys;
  for (const StageReport& stage : stages)
    if (stage.kind == "evaluate")
      for (const auto& [key, value] : stage.shown)
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  std::vector<std::string> header = {"evaluation"};
  header.insert(header.end(), keys.begin(), keys.end());
  std::vector<base::Align> align(header.size(), base::Align::kRight);
  align[0] = base::Align::kLeft;
  base::Table table(header, align);
  for (const StageReport& stage : stages) {
    if (stage.kind != "evaluate" || stage.shown.empty()) continue;
    std::vector<std::string> row = {stage.name};
    for (const std::string& key : keys) {
      const auto found = std::find_if(stage.shown.begin(), stage.shown.end(),
                                      [&](const auto& pair) { return pair.first == key; });
      row.push_back(found == stage.shown.end() ? "–" : found->second);
    }
    table.add(row);
  }
  return table;
}

base::Table stage_table(const std::vector<StageReport>& stages) {
  double total = 0;
  for (const StageReport& stage : stages) total += stage.seconds;
  base::Table table({"stage", "kind", "state", "time", "share", "shows"},
                    {base::Align::kLeft, base::Align::kLeft, base::Align::kLeft, base::Align::kRight,
                     base::Align::kRight, base::Align::kLeft});
  for (const StageReport& stage : stages)
    table.add({stage.name, stage.kind, state_name(stage.state),
               stage.seconds > 0 ? base::human_seconds(stage.seconds) : "–",
               total > 0 ? fmt::format("{:.0f} %", 100 * stage.seconds / total) : "–",
               stage.kind == "evaluate" ? "see below" : shown_text(stage)});
  table.add({"all", "", "", base::human_seconds(total), "", ""});
  return table;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '&'   ? "&amp;"
           : c == '<' ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
  return out;
}

// GitHub's table as HTML; cells hold no pipes of their own but escaped ones.
std::string html_table(const std::string& markdown) {
  std::string out = "<table>\n";
  std::size_t row = 0;
  for (std::size_t at = 0; at < markdown.size(); ++row) {
    const std::size_t end = std::min(markdown.find('\n', at), markdown.size());
    const std::string line = markdown.substr(at, end - at);
    at = end + 1;
    if (row == 1 || line.size() < 2) continue;
    out += "<tr>";
    std::string cell;
    for (std::size_t i = 1; i < line.size(); ++i) {
      if (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|') {
        cell += '|';
        ++i;
      } else if (line[i] == '|') {
        // Cells stand between blanks.
        const std::string inner = cell.size() > 2 ? cell.substr(1, cell.size() - 2) : "";
        out += fmt::format("<{0}>{1}</{0}>", row == 0 ? "th" : "td", escaped(inner));
        cell.clear();
      } else {
        cell += line[i];
      }
    }
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

}  // namespace

std::string summary_text(const std::vector<StageReport>& stages, bool markdown) {
  const base::Table all = stage_table(stages), evaluated = evaluations(stages);
  std::string text = markdown ? all.markdown() : all.text();
  if (evaluated.rows() > 0) text += "\n" + (markdown ? evaluated.markdown() : evaluated.text());
  return text;
}

std::string summary_html(const std::string& name, const std::vector<StageReport>& stages) {
  const base::Table all = stage_table(stages), evaluated = evaluations(stages);
  double longest = 0;
  for (const StageReport& stage : stages) longest = std::max(longest, stage.seconds);
  std::string bars;
  for (const StageReport& stage : stages)
    bars += fmt::format(
        "<div class=row><span class=name>{}</span><span class=bar style=\"width:{:.1f}%\"></span> {}</div>\n",
        escaped(stage.name), longest > 0 ? 60 * stage.seconds / longest : 0,
        escaped(base::human_seconds(stage.seconds)));
  return fmt::format(
      "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">"
      "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src "
      "'unsafe-inline'\"><title>{0}</title>\n"
      "<style>:root{{color-scheme:light dark}}body{{font:15px system-ui,sans-serif;max-width:70em;margin:2em "
      "auto;padding:0 1em}}"
      "table{{border-collapse:collapse;margin:1em 0}}td,th{{padding:.3em .8em;border-bottom:1px solid "
      "#8884;text-align:left}}"
      ".name{{display:inline-block;width:10em}}.bar{{display:inline-block;height:.8em;background:#47c}}</"
      "style>\n"
      "<h1>{0}</h1>\n{1}{2}<h2>Time</h2>\n{3}</html>\n",
      escaped(name), html_table(all.markdown()),
      evaluated.rows() > 0 ? "<h2>Evaluations</h2>\n" + html_table(evaluated.markdown()) : "", bars);
}

}  // namespace musacoder::factory
