#include "synth/pipeline/pipeline.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <toml++/toml.h>

#include "base/files.h"
#include "base/hash.h"
#include "synth/manifest.h"
#include "synth/pipeline/journal.h"
#include "synth/seeded.h"
#include "synth/shards.h"
#include "task/task.h"

namespace musacoder::synth {
namespace {

using json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// Bump with runtime/python/musagraph, whose results are kept in journals.
constexpr const char* kGraphVersion = "graph 1";

struct Entry {
  TaskEntry task;
  std::string source_id;
  std::optional<Graph> graph;
  std::vector<std::string> styles;
  std::vector<std::string> corpus_answers, corpus_names;
  std::vector<Judged> verified;
};

std::string class_or_ok(const Examined& verdict) { return verdict.ok() ? "ok" : judge::status_class(verdict.status); }

class Maker {
 public:
  Maker(const DataConfig& config, Examiner& examiner, GraphWorker& worker, const RowWriter& writer, const std::vector<Teacher*>& teachers, const DataProgress& progress)
      : config_(config), examiner_(examiner), worker_(worker), writer_(writer), teachers_(teachers), progress_(progress) {}

  Result<DataReport> run() {
    const auto begin = std::chrono::steady_clock::now();
    MC_RETURN_IF_ERROR(base::make_dirs(config_.out + "/work"));
    MC_ASSIGN_OR_RETURN(Journal graphs, Journal::open(config_.out + "/work/graphs.jsonl"));
    graphs_ = &graphs;
    MC_ASSIGN_OR_RETURN(Journal answers, Journal::open(config_.out + "/work/answers.jsonl"));
    answers_ = &answers;
    MC_RETURN_IF_ERROR(load_tasks());
    MC_RETURN_IF_ERROR(trace_tasks());
    MC_RETURN_IF_ERROR(guard());
    MC_RETURN_IF_ERROR(audit());
    MC_RETURN_IF_ERROR(add_cases());
    MC_RETURN_IF_ERROR(answer());
    MC_RETURN_IF_ERROR(first_stages());
    if (wants(3)) {
      MC_RETURN_IF_ERROR(faults());
      MC_RETURN_IF_ERROR(rollouts());
      MC_RETURN_IF_ERROR(conversations());
      MC_RETURN_IF_ERROR(rewrites());
    }
    MC_RETURN_IF_ERROR(documents());
    MC_RETURN_IF_ERROR(general());
    MC_RETURN_IF_ERROR(write());
    report_.judged_now = examiner_.fresh();
    report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return report_;
  }

 private:
  bool wants(int stage) const { return std::find(config_.stages.begin(), config_.stages.end(), stage) != config_.stages.end(); }
  void say(const std::string& text) const {
    if (progress_) progress_(text);
  }
  Status go_on() const { return config_.stop && config_.stop() ? fail(Code::kUnavailable, "stopped; the same command goes on from here") : ok(); }
  Examiner::Progress counted(const std::string& what) const {
    return [this, what](std::size_t done, std::size_t all) { say(fmt::format("{} {}/{}", what, done, all)); };
  }

  Status load_tasks() {
    std::set<std::string> seen;
    const auto take = [&](const std::string& id, const std::string& code, const std::optional<Graph>& graph, const std::vector<std::string>& styles) {
      if (config_.limit && entries_.size() >= config_.limit) return;
      ++report_.tasks;
      const std::string hash = base::sha256_hex(code);
      if (!seen.insert(hash).second) {
        ++report_.dropped["the same file twice"];
        return;
      }
      Entry& entry = entries_.emplace_back();
      entry.task.id = entry.source_id = id;
      entry.task.code = code;
      entry.task.hash = hash;
      entry.graph = graph;
      entry.styles = styles;
    };
    for (const GeneratedTask& task : config_.generated) take(task.id, task.code, task.graph, task.styles);
    for (const std::string& path : config_.tasks) {
      MC_ASSIGN_OR_RETURN(task::TaskSet set, task::TaskSet::load(path));
      for (const task::Task& task : set.tasks()) take(task.id, task.code, std::nullopt, {});
    }
    if (entries_.empty()) return fail(Code::kInvalidArgument, "there is no task in what was given");
    return load_corpus();
  }

  // Cases that must verify, as answers to their tasks.
  Status load_corpus() {
    std::map<std::string, Entry*> by_id;
    // Cases name tasks from the folder above the domains; a domain's folder alone has shorter ids.
    for (Entry& entry : entries_) by_id[entry.source_id.substr(entry.source_id.rfind('/') + 1)] = by_id[entry.source_id] = &entry;
    for (const std::string& folder : config_.corpus) {
      std::vector<fs::path> cases;
      std::error_code error;
      for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
        if (it->path().filename() == "case.toml") cases.push_back(it->path());
      if (error) return fail(Code::kNotFound, "cannot read {}: {}", folder, error.message());
      std::sort(cases.begin(), cases.end());
      for (const fs::path& path : cases) {
        try {
          const toml::table table = toml::parse_file(path.string());
          if (table["expect"].value_or(std::string()) != "ok" || table["policy"].value_or(std::string("strict")) != "strict") continue;
          const std::string id = table["task"].value_or(std::string());
          auto task = by_id.find(id);
          if (task == by_id.end()) task = by_id.find(id.substr(id.rfind('/') + 1));
          const std::string file = table["candidate"].value_or(std::string());
          if (task == by_id.end() || !file.ends_with(".py")) continue;
          MC_ASSIGN_OR_RETURN(std::string answer, base::read_file((path.parent_path() / file).string(), 4 << 20));
          task->second->corpus_answers.push_back(std::move(answer));
          task->second->corpus_names.push_back(path.parent_path().filename().string());
        } catch (const toml::parse_error& problem) {
          return fail(Code::kInvalidArgument, "{}: {}", path.string(), std::string(problem.description()));
        }
      }
    }
    return ok();
  }

  // The graph of a task from the journal or the worker; an error text (not kept where it may pass) in place of what cannot be traced.
  Result<std::optional<TaskGraph>> graph_of(const std::string& code, std::string& why) {
    base::Sha256 hash;
    hash.field(kGraphVersion);
    hash.field(code);
    const std::string key = hash.hex();
    if (const std::string* text = graphs_->find(key)) {
      const json found = json::parse(*text);
      if (found.contains("error")) {
        why = found["error"].get<std::string>();
        return std::optional<TaskGraph>();
      }
      return std::optional<TaskGraph>(TaskGraph{.hash = found["hash"], .family = found["family"], .ops = found["ops"], .shapes = found["shapes"], .hint = found["hint"]});
    }
    MC_RETURN_IF_ERROR(go_on());
    auto graph = worker_.graph(code);
    if (!graph) {
      if (graph.error().code == Code::kUnavailable) return tl::unexpected(graph.error());
      why = graph.error().message;
      MC_RETURN_IF_ERROR(graphs_->put(key, json({{"error", why}}).dump(-1, ' ', false, json::error_handler_t::replace)));
      return std::optional<TaskGraph>();
    }
    const json value = {{"hash", graph->hash}, {"family", graph->family}, {"ops", graph->ops}, {"shapes", graph->shapes}, {"hint", graph->hint}};
    MC_RETURN_IF_ERROR(graphs_->put(key, value.dump(-1, ' ', false, json::error_handler_t::replace)));
    return std::optional<TaskGraph>(std::move(*graph));
  }

  // Puts graphs into the journal, as many at a time as the worker has processes.
  Status trace(const std::vector<const std::string*>& codes, const std::string& what) {
    std::atomic<std::size_t> next{0};
    std::atomic<bool> failed{false};
    const auto run = [&]() -> Status {
      for (std::size_t k; !failed && (k = next++) < codes.size();) {
        std::string why;
        if (auto graph = graph_of(*codes[k], why); !graph) {
          failed = true;
          return tl::unexpected(graph.error());
        }
      }
      return ok();
    };
    std::vector<std::future<Status>> threads;
    for (int i = 0; i < worker_.processes(); ++i) threads.push_back(std::async(std::launch::async, run));
    Status all = ok();
    for (auto& thread : threads) {
      while (thread.wait_for(std::chrono::milliseconds(200)) != std::future_status::ready) say(fmt::format("{} {}/{}", what, std::min(next.load(), codes.size()), codes.size()));
      if (Status one = thread.get(); !one && all) all = std::move(one);
    }
    return all;
  }

  Status trace_tasks() {
    std::vector<const std::string*> codes;
    for (const Entry& entry : entries_) codes.push_back(&entry.task.code);
    MC_RETURN_IF_ERROR(trace(codes, "graphs"));
    std::vector<Entry> kept;
    for (Entry& entry : entries_) {
      std::string why;
      MC_ASSIGN_OR_RETURN(auto graph, graph_of(entry.task.code, why));
      if (!graph) {
        ++report_.dropped["does not execute: " + why.substr(0, why.find(':'))];
        continue;
      }
      entry.task.graph = std::move(*graph);
      kept.push_back(std::move(entry));
    }
    entries_ = std::move(kept);
    return ok();
  }

  Status guard() {
    std::map<std::string, std::string> benchmark, held_out;  // hash → the first task's name
    if (!config_.kernelbench.empty()) {
      MC_ASSIGN_OR_RETURN(task::TaskSet set, task::TaskSet::load(config_.kernelbench));
      const auto named = [](const task::Task& task) { return fmt::format("level {}: {}", task.level, task.name.empty() ? task.id : task.name); };
      const auto level = [](const task::Task& task) { return fmt::format("level {}", task.level); };
      MC_RETURN_IF_ERROR(guard_of(set, config_.guard_levels, level, named, benchmark));
      if (benchmark.empty()) return fail(Code::kInvalidArgument, "{} holds no task of the levels that the guard looks at; give them as level 1, 2 and 3", config_.kernelbench);
    }
    for (const std::string& path : config_.held_out) {
      MC_ASSIGN_OR_RETURN(task::TaskSet set, task::TaskSet::load(path));
      const auto named = [](const task::Task& task) { return "held out: " + task.id; };
      MC_RETURN_IF_ERROR(guard_of(set, {}, [](const task::Task&) { return std::string("held out"); }, named, held_out));
    }
    std::erase_if(entries_, [&](const Entry& entry) {
      for (const auto* known : {&benchmark, &held_out})
        if (const auto found = known->find(entry.task.graph.hash); found != known->end()) {
          report_.contaminated[found->second].push_back(entry.source_id);
          ++report_.dropped[known == &benchmark ? "equals a task of the benchmark" : "equals a held-out task"];
          return true;
        }
      return false;
    });
    return ok();
  }

  // Hashes of what a set's tasks of these levels (all where none is named) compute, and how many there were of each kind.
  template <class Kind, class Named>
  Status guard_of(const task::TaskSet& set, const std::vector<int>& levels, const Kind& kind, const Named& named, std::map<std::string, std::string>& hashes) {
    const auto looked_at = [&](const task::Task& task) { return levels.empty() || std::find(levels.begin(), levels.end(), task.level) != levels.end(); };
    std::vector<const std::string*> codes;
    for (const task::Task& task : set.tasks())
      if (looked_at(task)) codes.push_back(&task.code);
    MC_RETURN_IF_ERROR(trace(codes, "guard: graphs of the benchmark"));
    for (const task::Task& task : set.tasks()) {
      if (!looked_at(task)) continue;
      std::string why;
      MC_ASSIGN_OR_RETURN(auto graph, graph_of(task.code, why));
      ++guarded_[graph ? kind(task) : kind(task) + ", not traceable"];
      if (graph) hashes.try_emplace(graph->hash, named(task));
    }
    return ok();
  }

  Status audit() {
    std::vector<Candidate> tasks;
    for (const Entry& entry : entries_) tasks.push_back({.task_id = entry.task.id, .task_code = entry.task.code, .answer = {}});
    MC_ASSIGN_OR_RETURN(auto results, examiner_.audit(tasks, counted("audits")));
    std::vector<Entry> kept;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (results[i].status == "ok") kept.push_back(std::move(entries_[i]));
      else ++report_.dropped["audit: " + results[i].status];
    }
    entries_ = std::move(kept);
    report_.kept = entries_.size();
    return ok();
  }

  Status add_cases() {
    if (!config_.cases) return ok();
    for (Entry& entry : entries_) {
      const std::string key = base::sha256_hex(fmt::format("cases 2|{}|{}", config_.seed, entry.task.code));
      std::string code;
      if (const std::string* text = answers_->find(key)) {
        code = json::parse(*text)["code"];
      } else {
        say("unit tests for " + entry.task.id);
        MC_RETURN_IF_ERROR(go_on());
        auto cases = worker_.cases(entry.task.code, config_.seed);
        if (!cases && cases.error().code == Code::kUnavailable) return tl::unexpected(cases.error());
        code = cases && !cases->kept.empty() ? cases->code : entry.task.code;
        MC_RETURN_IF_ERROR(answers_->put(key, json({{"code", code}}).dump(-1, ' ', false, json::error_handler_t::replace)));
      }
      with_cases_ += code != entry.task.code;
      entry.task.code = code;
      entry.task.hash = base::sha256_hex(code);
    }
    return ok();
  }

  // What each teacher says of a task, from the journal or the teacher.
  Result<std::vector<Judged>> taught(Teacher& teacher, const Entry& entry) {
    const std::uint64_t seed = mix(config_.seed, teacher.name() + entry.task.hash);
    const std::string key = base::sha256_hex(fmt::format("{}|{}|{}|{}", teacher.name(), seed, config_.answers, entry.task.hash));
    json value;
    if (const std::string* text = answers_->find(key)) {
      value = json::parse(*text);
    } else {
      MC_RETURN_IF_ERROR(go_on());
      auto answers = teacher.answer({.file = entry.task.code, .graph = entry.graph}, {.seed = seed, .most = config_.answers, .derive = wants(2)});
      // A teacher that is gone ends the run; one that fails at a task does not.
      if (!answers && answers.error().code == Code::kUnavailable) return tl::unexpected(answers.error());
      value = json::array();
      if (answers)
        for (const Answer& answer : *answers) value.push_back({answer.file, answer.schedule, answer.derivation});
      else
        value = {{"unanswered", answers.error().message.substr(0, 120)}};
      MC_RETURN_IF_ERROR(answers_->put(key, value.dump(-1, ' ', false, json::error_handler_t::replace)));
    }
    if (value.is_object()) {
      ++report_.unanswered[fmt::format("{}: {}", teacher.name(), value.at("unanswered").get<std::string>())];
      return std::vector<Judged>{};
    }
    std::vector<Judged> out;
    for (const json& answer : value) out.push_back({.file = answer.at(0), .schedule = answer.at(1), .derivation = answer.at(2), .teacher = teacher.name(), .seed = seed, .verdict = {}});
    return out;
  }

  Status answer() {
    std::vector<Judged> all;
    std::vector<std::size_t> owner;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      Entry& entry = entries_[i];
      for (std::size_t k = 0; k < entry.corpus_answers.size(); ++k)
        all.push_back({.file = entry.corpus_answers[k], .schedule = entry.corpus_names[k], .derivation = {}, .teacher = "corpus", .seed = 0, .verdict = {}});
      for (Teacher* teacher : teachers_) {
        say(fmt::format("{} {}/{}", teacher->name(), i, entries_.size()));
        MC_ASSIGN_OR_RETURN(auto answers, taught(*teacher, entry));
        for (Judged& answer : answers) all.push_back(std::move(answer));
      }
      owner.resize(all.size(), i);
    }
    std::vector<Candidate> candidates;
    for (std::size_t k = 0; k < all.size(); ++k) candidates.push_back({.task_id = entries_[owner[k]].task.id, .task_code = entries_[owner[k]].task.code, .answer = all[k].file});
    MC_ASSIGN_OR_RETURN(auto verdicts, examiner_.examine(candidates, counted("verdicts of answers")));
    for (std::size_t k = 0; k < all.size(); ++k) {
      Entry& entry = entries_[owner[k]];
      if (verdicts[k].status == kNotJudged) {
        ++report_.not_judged;
        continue;
      }
      Share& share = report_.answers[all[k].teacher][entry.task.graph.family];
      ++share.tried;
      share.verified += verdicts[k].ok();
      if (!verdicts[k].ok()) continue;
      all[k].verdict = std::move(verdicts[k]);
      entry.verified.push_back(std::move(all[k]));
    }
    return ok();
  }

  void add(Result<Row> row) {
    if (row) rows_.push_back(std::move(*row));
    else ++report_.refused_rows[row.error().message.substr(0, 80)];
  }

  Status first_stages() {
    std::vector<const std::string*> styles;
    for (const Entry& entry : entries_)
      if (wants(1) && !entry.verified.empty())
        for (const std::string& code : entry.styles) styles.push_back(&code);
    MC_RETURN_IF_ERROR(trace(styles, "styles of tasks"));
    for (const Entry& entry : entries_) {
      for (const Judged& answer : entry.verified) {
        if (wants(1)) MC_RETURN_IF_ERROR(generate_rows(entry, answer));
        if (wants(2)) add(writer_.derive(entry.task, answer));
      }
    }
    return ok();
  }

  // The task as it was judged, and in its other styles; an epoch takes one of them. Executing a style must give the graph of the task that was
  // judged. Their `task` is that one.
  Status generate_rows(const Entry& entry, const Judged& answer) {
    std::vector<Row> rows;
    Result<Row> first = writer_.generate(entry.task, answer);
    if (!first) {
      add(std::move(first));
      return ok();
    }
    rows.push_back(std::move(*first));
    for (const std::string& code : entry.styles) {
      std::string why;
      MC_ASSIGN_OR_RETURN(const auto graph, graph_of(code, why));
      if (!graph || graph->hash != entry.task.graph.hash) {
        ++report_.refused_rows["a style that is not the same task"];
        continue;
      }
      TaskEntry shown = entry.task;
      shown.code = code;
      shown.graph = *graph;
      Result<Row> row = writer_.generate(shown, answer);
      if (row) rows.push_back(std::move(*row));
    }
    report_.styled += rows.size() - 1;
    for (Row& row : rows) {
      if (rows.size() > 1) row.group = fmt::format("{}/{}", entry.task.hash.substr(0, 16), row.verdict.candidate.substr(0, 16));
      add(std::move(row));
    }
    return ok();
  }

  Status faults() {
    struct Place {
      std::size_t entry;
      Mutant mutant;
    };
    std::vector<Place> places;
    std::vector<Candidate> candidates;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].verified.empty()) continue;
      const std::uint64_t seed = mix(config_.seed, "faults" + entries_[i].task.hash);
      for (Mutant& mutant : mutants(entries_[i].verified[0].file, seed, static_cast<std::size_t>(config_.mutants))) {
        candidates.push_back({.task_id = entries_[i].task.id, .task_code = entries_[i].task.code, .answer = mutant.file});
        places.push_back({i, std::move(mutant)});
      }
    }
    MC_ASSIGN_OR_RETURN(auto verdicts, examiner_.examine(candidates, counted("verdicts of faults")));
    for (std::size_t k = 0; k < places.size(); ++k) {
      const auto& [i, mutant] = places[k];
      const Entry& entry = entries_[i];
      ++report_.mutations[mutant.kind][class_or_ok(verdicts[k])];
      if (repair_kind(verdicts[k].status).empty()) continue;
      add(writer_.repair(entry.task, mutant, verdicts[k], entry.verified[0]));
      // Every other fault is reviewed, and half as many right ones; a quarter become questions.
      if (k % 2 == 0) add(writer_.review(entry.task, mutant.file, &mutant, verdicts[k]));
      if (k % 4 == 1) add(writer_.failure_question(entry.task, mutant, verdicts[k]));
    }
    for (const Entry& entry : entries_)
      for (const Judged& answer : entry.verified) {
        add(writer_.review(entry.task, answer.file, nullptr, answer.verdict));
        auto rows = writer_.profile(entry.task, answer);
        if (!rows) {
          ++report_.refused_rows[rows.error().code == Code::kInvalidArgument ? "no profile" : rows.error().message];
          continue;
        }
        for (Row& row : *rows) rows_.push_back(std::move(row));
      }
    return ok();
  }

  // Conversations that mend one fault after the other: a working file with up to three faults, taken back one at a time.
  Status rollouts() {
    std::vector<Candidate> candidates;
    std::vector<std::pair<std::size_t, std::vector<std::string>>> ladders;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      if (entry.verified.empty()) continue;
      for (int n = 0; n < config_.rollouts; ++n) {
        const std::uint64_t seed = mix(config_.seed, fmt::format("rollout {} {}", n, entry.task.hash));
        Seeded draw(seed);
        const Judged& answer = entry.verified[draw.below(entry.verified.size())];
        std::vector<std::string> files = {answer.file};
        const std::int64_t depth = draw.between(1, 3);
        for (std::int64_t d = 0; d < depth; ++d) {
          const auto next = mutants(files.back(), mix(seed, fmt::format("fault {}", d)), 1);
          if (next.empty()) break;
          files.push_back(next[0].file);
        }
        std::reverse(files.begin(), files.end());
        // A slow but right version before the last, now and then: the last turn then has to be faster.
        if (draw.chance(0.3))
          if (auto slow = slow_variants(answer.file, seed, 1); !slow.empty()) files.insert(files.end() - 1, slow[0].file);
        for (const std::string& file : files) candidates.push_back({.task_id = entry.task.id, .task_code = entry.task.code, .answer = file});
        ladders.emplace_back(i, std::move(files));
      }
    }
    MC_ASSIGN_OR_RETURN(auto verdicts, examiner_.examine(candidates, counted("verdicts of rollouts")));
    std::size_t at = 0;
    for (const auto& [i, files] : ladders) {
      std::vector<Turn> turns;
      for (const std::string& file : files) {
        // A turn that says what the one before it said is none.
        if (turns.empty() || turns.back().verdict.status != verdicts[at].status || turns.back().verdict.feedback.where != verdicts[at].feedback.where || verdicts[at].ok())
          turns.push_back({file, verdicts[at]});
        ++at;
      }
      // Faults that do not show: a conversation does not go on after its goal without a gain.
      while (turns.size() > 1 && turns[turns.size() - 2].verdict.ok() && turns.back().verdict.ok() &&
             !(turns[turns.size() - 2].verdict.estimate_ms >= config_.rollout.gain * turns.back().verdict.estimate_ms && turns.back().verdict.estimate_ms > 0))
        turns.erase(turns.end() - 2);
      std::string why;
      turns = keep_rollout(std::move(turns), config_.rollout, why);
      ++report_.rollouts[why.empty() ? "kept" : why];
      if (why.empty()) add(writer_.multi_turn(entries_[i].task, turns, "faults mended one at a time", config_.seed));
    }
    return ok();
  }

  struct Talk {
    const Entry* entry;
    Teacher* teacher;
    std::uint64_t seed;
    std::vector<Turn> turns;
    bool over = false;
  };

  // The teacher's next file, from the journal or from it; "" ends the conversation.
  Result<std::string> next_file(const Talk& talk) {
    std::vector<Teacher::Said> so_far;
    base::Sha256 hash;
    hash.field("next");
    hash.field(talk.teacher->name());
    hash.field(std::to_string(talk.seed));
    hash.field(talk.entry->task.hash);
    for (const Turn& turn : talk.turns) {
      so_far.push_back({turn.file, feedback_for(turn.verdict, static_cast<int>(so_far.size()) + 1)});
      hash.field(so_far.back().file);
      hash.field(so_far.back().feedback);
    }
    const std::string key = hash.hex();
    if (const std::string* text = answers_->find(key)) return json::parse(*text).at("file").get<std::string>();
    MC_RETURN_IF_ERROR(go_on());
    auto file = talk.teacher->next({.file = talk.entry->task.code, .graph = talk.entry->graph}, so_far, mix(talk.seed, fmt::format("turn {}", so_far.size())));
    if (!file) {
      if (file.error().code == Code::kUnavailable) return file;
      // Counted, and asked again by the next run.
      const std::lock_guard lock(mutex_);
      ++report_.unanswered[fmt::format("{}: {}", talk.teacher->name(), file.error().message.substr(0, 120))];
      return std::string();
    }
    MC_RETURN_IF_ERROR(answers_->put(key, json({{"file", *file}}).dump(-1, ' ', false, json::error_handler_t::replace)));
    return file;
  }

  // Conversations with teachers that hold them: five turns, which after a verified file are for a faster one, and three more to repair.
  Status conversations() {
    std::vector<Talk> talks;
    for (const Entry& entry : entries_)
      for (Teacher* teacher : teachers_)
        for (int n = 0; teacher->converses() && n < config_.rollouts; ++n)
          talks.push_back({.entry = &entry, .teacher = teacher, .seed = mix(config_.seed, fmt::format("talk {} {} {}", n, teacher->name(), entry.task.hash)), .turns = {}});
    for (int turn = 0; turn < config_.rollout.turns + config_.rollout.extra; ++turn) {
      std::vector<Talk*> open;
      for (Talk& talk : talks) {
        if (turn >= config_.rollout.turns && talk.turns.back().verdict.ok()) talk.over = true;
        if (!talk.over) open.push_back(&talk);
      }
      if (open.empty()) break;
      MC_ASSIGN_OR_RETURN(const auto files, next_files(open, turn));
      std::vector<Candidate> candidates;
      std::vector<Talk*> asked;
      for (std::size_t k = 0; k < open.size(); ++k) {
        open[k]->over = files[k].empty();
        if (files[k].empty()) continue;
        candidates.push_back({.task_id = open[k]->entry->task.id, .task_code = open[k]->entry->task.code, .answer = files[k]});
        asked.push_back(open[k]);
      }
      MC_ASSIGN_OR_RETURN(auto verdicts, examiner_.examine(candidates, counted(fmt::format("verdicts of turn {}", turn + 1))));
      for (std::size_t k = 0; k < asked.size(); ++k) {
        asked[k]->over = verdicts[k].infra();  // nothing to answer to
        asked[k]->turns.push_back({std::move(candidates[k].answer), std::move(verdicts[k])});
      }
    }
    for (Talk& talk : talks) {
      // The longest beginning that ends well.
      std::string why = "no file", first;
      for (std::size_t length = talk.turns.size(); length > 0; --length) {
        auto turns = keep_rollout({talk.turns.begin(), talk.turns.begin() + static_cast<std::ptrdiff_t>(length)}, config_.rollout, why);
        if (first.empty()) first = why.empty() ? "kept" : why;
        if (!why.empty()) continue;
        add(writer_.multi_turn(talk.entry->task, turns, talk.teacher->name(), talk.seed));
        break;
      }
      ++report_.rollouts[why.empty() ? "kept" : first.empty() ? why : first];
    }
    return ok();
  }

  // Several requests under way at a time: what a model needs to be busy.
  Result<std::vector<std::string>> next_files(const std::vector<Talk*>& talks, int turn) {
    constexpr std::size_t kAsking = 16;
    std::vector<std::string> files;
    for (std::size_t begin = 0; begin < talks.size(); begin += kAsking) {
      say(fmt::format("turn {} of conversations {}/{}", turn + 1, begin, talks.size()));
      std::vector<std::future<Result<std::string>>> asked;
      for (std::size_t k = begin; k < std::min(begin + kAsking, talks.size()); ++k)
        asked.push_back(std::async(std::launch::async, [this, talk = talks[k]] { return next_file(*talk); }));
      std::optional<Error> error;
      for (auto& one : asked) {
        auto file = one.get();
        if (file) files.push_back(std::move(*file));
        else error = file.error();
      }
      if (error) return tl::unexpected(*error);
    }
    return files;
  }

  // Correct but slow ones and their better form: known patterns put into a verified answer, and pairs of a task's own answers.
  Status rewrites() {
    std::vector<Candidate> candidates;
    std::vector<std::pair<std::size_t, Mutant>> places;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].verified.empty()) continue;
      for (Mutant& slow : slow_variants(entries_[i].verified[0].file, mix(config_.seed, "slow" + entries_[i].task.hash), 3)) {
        candidates.push_back({.task_id = entries_[i].task.id, .task_code = entries_[i].task.code, .answer = slow.file});
        places.emplace_back(i, std::move(slow));
      }
    }
    MC_ASSIGN_OR_RETURN(auto verdicts, examiner_.examine(candidates, counted("verdicts of rewrites")));
    for (std::size_t k = 0; k < places.size(); ++k) {
      const auto& [i, slow] = places[k];
      const Judged& fast = entries_[i].verified[0];
      auto& counts = report_.rewrites[slow.kind];
      // The estimate knows launches and how full the GPU is; it does not know waiting hosts, coalescing and contention.
      const bool modelled = slow.kind == "many_launches" || slow.kind == "tiny_blocks";
      const bool gains = fast.verdict.estimate_ms > 0 && verdicts[k].estimate_ms >= config_.rewrite_gain * fast.verdict.estimate_ms;
      ++counts[!verdicts[k].ok() ? "not_verified" : modelled && !gains ? "no_gain" : modelled ? "kept" : "kept, gain not modelled"];
      if (!verdicts[k].ok() || (modelled && !gains)) continue;
      add(writer_.rewrite(entries_[i].task, {.file = slow.file, .schedule = slow.kind, .derivation = {}, .teacher = "mutation", .seed = config_.seed, .verdict = verdicts[k]}, slow.kind, fast));
    }
    for (const Entry& entry : entries_)
      for (const Judged& slow : entry.verified)
        for (const Judged& fast : entry.verified) {
          if (fast.verdict.estimate_ms <= 0 || slow.verdict.estimate_ms < config_.rewrite_gain * fast.verdict.estimate_ms) continue;
          ++report_.rewrites["another schedule"]["kept"];
          add(writer_.rewrite(entry.task, slow, "another schedule", fast));
        }
    return ok();
  }

  Status documents() {
    for (const std::string& path : config_.documents) {
      MC_ASSIGN_OR_RETURN(std::string text, base::read_file(path, 64 << 20));
      for (Row& row : document_questions(fs::path(path).filename().string(), text)) rows_.push_back(std::move(row));
    }
    return ok();
  }

  Status general() {
    for (const std::string& path : config_.general) {
      std::size_t number = 0;
      MC_RETURN_IF_ERROR(read_lines(path, [&](std::string_view line) -> Status {
        ++number;
        const json given = json::parse(line, nullptr, false);
        Row row{.family = "general", .kind = "general", .stage = 0, .source = {.teacher = "user", .schedule = "", .from = fs::path(path).filename().string()}};
        if (!given.is_object() || !given.contains("messages") || !given["messages"].is_array())
          return fail(Code::kInvalidArgument, "{}:{}: a row of the general slot has `messages`", path, number);
        for (const json& message : given["messages"]) {
          if (!message.is_object() || !message.contains("role") || !message.contains("content") || !message["role"].is_string() || !message["content"].is_string())
            return fail(Code::kInvalidArgument, "{}:{}: a message has `role` and `content`, both texts", path, number);
          row.messages.push_back({message["role"].get<std::string>(), message["content"].get<std::string>()});
        }
        add(check_row(row) ? Result<Row>(row) : Result<Row>(tl::unexpected(check_row(row).error())));
        return ok();
      }));
    }
    return ok();
  }

  Result<std::map<std::string, Share>> diagnostic() {
    std::map<std::string, Share> shares;
    if (config_.diagnostic.empty()) return shares;
    MC_RETURN_IF_ERROR(read_lines(config_.diagnostic, [&](std::string_view line) -> Status {
      const json row = json::parse(line, nullptr, false);
      if (!row.is_object() || !row.contains("status") || !row["status"].is_string()) return fail(Code::kInvalidArgument, "{}: a line without `status`", config_.diagnostic);
      const std::string status = row["status"];
      if (judge::is_null_reward(status)) return ok();
      std::string family = row.contains("family") && row["family"].is_string() ? row["family"].get<std::string>() : "", why;
      if (family.empty() && row.contains("reference") && row["reference"].is_string()) {
        MC_ASSIGN_OR_RETURN(auto graph, graph_of(row["reference"].get<std::string>(), why));
        if (graph) family = graph->family;
      }
      if (family.empty()) return ok();
      ++shares[family].tried;
      shares[family].verified += status == "ok";
      return ok();
    }));
    return shares;
  }

  Status write() {
    say(fmt::format("writing {} rows", rows_.size()));
    // Mixed, so that the first shard alone is a fair sample.
    Seeded draw(mix(config_.seed, "order"));
    draw.shuffle(rows_);
    Manifest manifest{.generator = config_.generator, .verifier = examiner_.describe(), .seed = config_.seed, .rows_by_kind = {}, .rows_by_family = {}, .mixture = {}, .sections = {}, .shards = {}};
    ShardWriter shards(config_.out, "rows", config_.shard_bytes);
    std::map<std::string, std::size_t> families;
    for (const Row& row : rows_) {
      ++manifest.rows_by_kind[row.kind];
      ++manifest.rows_by_family[row.family];
      ++report_.rows_by_family[row.kind][row.family];
      if (row.kind != "general") ++families[row.family];
      MC_RETURN_IF_ERROR(shards.add(row_line(row)));
    }
    report_.rows = rows_.size();
    MC_ASSIGN_OR_RETURN(manifest.shards, shards.finish());
    MC_ASSIGN_OR_RETURN(auto known, diagnostic());
    manifest.mixture = family_weights(families, known);
    const bool slot = manifest.rows_by_kind.contains("general");
    MC_RETURN_IF_ERROR(write_mixture(manifest.mixture, slot));
    manifest.sections = sections(slot);
    // Shards of an earlier, larger run.
    std::set<std::string> fresh;
    for (const Shard& shard : manifest.shards) fresh.insert(shard.file);
    MC_RETURN_IF_ERROR(write_tasks());
    MC_RETURN_IF_ERROR(write_manifest(config_.out, manifest));
    std::error_code error;
    for (const auto& file : fs::directory_iterator(config_.out, error)) {
      const std::string name = file.path().filename();
      if (name.starts_with("rows-") && name.ends_with(".jsonl.zst") && !fresh.contains(name)) fs::remove(file.path(), error);
    }
    return ok();
  }

  // What was kept, for whoever samples answers to it or learns from its rewards.
  Status write_tasks() const {
    std::string text;
    for (const Entry& entry : entries_)
      text += json({{"id", entry.task.id}, {"family", entry.task.graph.family}, {"reference", entry.task.code}}).dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    return base::write_file_atomic(config_.out + "/tasks.jsonl", text);
  }

  Status write_mixture(const std::map<std::string, double>& weights, bool slot) const {
    std::string text = "# For `musacoder-train sft`: how often an epoch goes through a family.\n[mixture.weights]\n";
    for (const auto& [family, weight] : weights) text += fmt::format("\"{}\" = {:.3f}\n", family, weight);
    if (slot) text += fmt::format("\n[mixture.shares]\ngeneral = {:.3f}\n", config_.general_share);
    return base::write_file_atomic(config_.out + "/mixture.toml", text);
  }

  std::map<std::string, std::string> sections(bool slot) const {
    const auto text = [](const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); };
    json answers = json::object(), guard = {{"benchmark", guarded_}, {"equal", report_.contaminated}};
    for (const auto& [teacher, by_family] : report_.answers)
      for (const auto& [family, share] : by_family) answers[teacher][family] = {{"tried", share.tried}, {"verified", share.verified}};
    json settings = {{"stages", config_.stages}, {"answers", config_.answers}, {"styles", config_.generated.empty() ? 1 : 1 + config_.generated[0].styles.size()}, {"mutants", config_.mutants}, {"rollouts", config_.rollouts},
                     {"turns", config_.rollout.turns}, {"extra_turns", config_.rollout.extra}, {"rollout_gain", config_.rollout.gain}, {"rewrite_gain", config_.rewrite_gain},
                     {"cases", config_.cases}, {"general_share", slot ? config_.general_share : 0}, {"graphs", kGraphVersion}};
    return {{"settings", text(settings)},
            {"tasks", text({{"seen", report_.tasks}, {"kept", report_.kept}, {"with_cases", with_cases_}, {"dropped", report_.dropped}})},
            {"guard", text(guard)},
            {"answers", text(answers)},
            {"unanswered", text(report_.unanswered)},
            {"not_judged", text(report_.not_judged)},
            {"styled", text(report_.styled)},
            {"mutations", text(report_.mutations)},
            {"rollouts", text(report_.rollouts)},
            {"rewrites", text(report_.rewrites)},
            {"rows", text(report_.rows_by_family)},
            {"refused_rows", text(report_.refused_rows)}};
  }

  const DataConfig& config_;
  Examiner& examiner_;
  GraphWorker& worker_;
  const RowWriter& writer_;
  const std::vector<Teacher*>& teachers_;
  const DataProgress& progress_;
  Journal *graphs_ = nullptr, *answers_ = nullptr;
  std::vector<Entry> entries_;
  std::vector<Row> rows_;
  std::map<std::string, std::size_t> guarded_;
  std::size_t with_cases_ = 0;
  std::mutex mutex_;  // of the report, where requests run beside each other
  DataReport report_;
};

}  // namespace

std::map<std::string, double> family_weights(const std::map<std::string, std::size_t>& rows, const std::map<std::string, Share>& diagnostic) {
  constexpr double kFloor = 0.1, kLeast = 0.25, kMost = 4;
  std::map<std::string, double> weights;
  double sum = 0;
  std::size_t known = 0;
  for (const auto& [family, count] : rows) {
    auto found = diagnostic.find(family);
    if (found == diagnostic.end() || found->second.tried == 0) continue;
    sum += 1 - static_cast<double>(found->second.verified) / static_cast<double>(found->second.tried) + kFloor;
    ++known;
  }
  for (const auto& [family, count] : rows) {
    auto found = diagnostic.find(family);
    if (found != diagnostic.end() && found->second.tried > 0) {
      const double weak = 1 - static_cast<double>(found->second.verified) / static_cast<double>(found->second.tried) + kFloor;
      weights[family] = std::clamp(weak * static_cast<double>(known) / sum, kLeast, kMost);
    } else {
      weights[family] = diagnostic.empty() && family.starts_with("elementwise") ? 0.5 : 1;
    }
  }
  return weights;
}

Result<DataReport> make_data(const DataConfig& config, Examiner& examiner, GraphWorker& worker, const RowWriter& writer, const std::vector<Teacher*>& teachers,
                             const DataProgress& progress) {
  return Maker(config, examiner, worker, writer, teachers, progress).run();
}

}  // namespace musacoder::synth
