#include "generate/campaign.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <set>
#include <thread>

#include "base/hash.h"
#include "base/terminal.h"
#include "judge/feedback.h"

namespace musacoder::generate {
namespace {

constexpr std::size_t kMaxQuotedBytes = 48u << 10;  // of an answer in the next turn's conversation
constexpr int kTroublesInARow = 3;  // replies that did not come, until the model counts as gone

struct Key {
  int turn = 1;
  std::size_t start = 0;
  bool operator<(const Key& other) const {
    return turn != other.turn ? turn > other.turn : start < other.start;
  }
};

class Campaign {
 public:
  Campaign(const std::vector<Start>& starts, chat::ChatModel& model, Verifier* verifier,
           const CampaignConfig& config, const CampaignHooks& hooks)
      : starts_(starts), model_(model), verifier_(verifier), config_(config), hooks_(hooks) {
    end_.progress.samples = starts.size();
    for (std::size_t i = 0; i < starts.size(); ++i) to_ask_.emplace(Key{1, i}, starts[i].messages);
    open_ = starts.size();
  }

  CampaignEnd run() {
    const base::Stopwatch watch;
    std::vector<std::thread> threads;
    const int lanes = verifier_ ? verifier_->lanes() : 0;
    const int asking = std::max(1, std::min(config_.asking, static_cast<int>(starts_.size())));
    working_ = asking + lanes;
    for (int i = 0; i < asking; ++i)
      threads.emplace_back([this] {
        ask_all();
        leave();
      });
    for (int lane = 0; lane < lanes; ++lane)
      threads.emplace_back([this, lane] {
        judge_all(lane);
        leave();
      });
    {
      // Time goes on for whoever watches, also while nothing happens.
      std::unique_lock lock(mutex_);
      while (!changed_.wait_for(lock, std::chrono::milliseconds(500), [this] { return working_ == 0; }))
        told();
    }
    for (auto& thread : threads) thread.join();
    end_.seconds = watch.seconds();
    end_.stopped = stopped_;
    end_.out_of_time = end_of_time_;
    return end_;
  }

 private:
  void leave() {
    std::lock_guard lock(mutex_);
    --working_;
    changed_.notify_all();
  }

  bool over() {
    if (closing_) return true;
    if (hooks_.stop && hooks_.stop()) stopped_ = closing_ = true;
    if (config_.deadline.expired()) end_of_time_ = closing_ = true;
    return closing_;
  }

  // Under the lock.
  void told() {
    auto& progress = end_.progress;
    progress.waiting = to_judge_.size();
    if (hooks_.progress) hooks_.progress(progress);
  }

  void ask_all() {
    std::unique_lock lock(mutex_);
    for (;;) {
      while (to_ask_.empty() && open_ > 0 && !over()) changed_.wait_for(lock, std::chrono::milliseconds(100));
      if (over() || to_ask_.empty()) break;
      auto [key, messages] = *to_ask_.begin();
      to_ask_.erase(to_ask_.begin());
      ++end_.progress.asking;
      told();
      lock.unlock();
      Attempt attempt = ask(key, std::move(messages));
      lock.lock();
      --end_.progress.asking;
      end_.asking_s += attempt.ask_s;
      if (attempt.error.empty()) {
        ++end_.progress.answers;
        end_.progress.tokens += attempt.usage.completion_tokens;
      }
      if (!attempt.error.empty() || !verifier_) {
        finish(std::move(attempt), key, false);
      } else {
        to_judge_.push_back({key, std::move(attempt)});
        changed_.notify_all();
      }
      told();
    }
    changed_.notify_all();
  }

  Attempt ask(const Key& key, std::vector<chat::Message> messages) {
    const Start& start = starts_[key.start];
    Attempt attempt;
    attempt.task = start.task;
    attempt.sample = start.sample;
    attempt.turn = key.turn;
    attempt.seed = turn_seed(config_.sampling.seed, start.task->code, start.sample, key.turn);
    attempt.messages = std::move(messages);
    chat::Request request{.messages = attempt.messages,
                          .sampling = config_.sampling,
                          .deadline = config_.deadline,
                          .cancelled = [this] { return over(); }};
    request.sampling.n = 1;
    request.sampling.seed = attempt.seed;
    const base::Stopwatch watch;
    auto reply = model_.ask(request);
    // A conversation that grew too long is asked again with its last exchange alone.
    if (!reply && reply.error().code == Code::kResourceExhausted &&
        attempt.messages.size() > start.messages.size() + 2) {
      attempt.messages.erase(attempt.messages.begin() + static_cast<std::ptrdiff_t>(start.messages.size()),
                             attempt.messages.end() - 2);
      request.messages = attempt.messages;
      reply = model_.ask(request);
    }
    attempt.ask_s = watch.seconds();
    if (!reply) {
      attempt.error = reply.error().message;
      trouble(reply.error());
      return attempt;
    }
    troubles_ = 0;
    attempt.answer = std::move(reply->answers.at(0));
    attempt.usage = reply->usage;
    attempt.model = reply->model;
    attempt.cached = reply->cached;
    return attempt;
  }

  void trouble(const Error& error) {
    if (error.code == Code::kResourceExhausted) return;
    if (closing_ || (error.code == Code::kDeadlineExceeded && config_.deadline.expired())) return;
    const bool passing = error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded;
    std::lock_guard lock(mutex_);
    if (passing && ++troubles_ < kTroublesInARow) return;
    if (end_.error) end_.error = tl::unexpected(error);
    closing_ = true;
  }

  struct Waiting {
    Key key;
    Attempt attempt;
  };

  void judge_all(int lane) {
    std::shared_ptr<const task::Task> last;
    std::unique_lock lock(mutex_);
    for (;;) {
      while (to_judge_.empty() && (open_ > 0 || end_.progress.asking > 0) && !over_for_lanes())
        changed_.wait_for(lock, std::chrono::milliseconds(100));
      if (to_judge_.empty()) break;
      auto found = std::find_if(to_judge_.begin(), to_judge_.end(),
                                [&](const Waiting& w) { return w.attempt.task == last; });
      if (found == to_judge_.end()) found = to_judge_.begin();
      Waiting now = std::move(*found);
      to_judge_.erase(found);
      last = now.attempt.task;
      if (over()) {  // answers that nobody will judge
        now.attempt.error = "the search ended before it was judged";
        finish(std::move(now.attempt), now.key, false);
        continue;
      }
      ++end_.progress.judging;
      told();
      lock.unlock();
      judge(lane, now.attempt);
      lock.lock();
      --end_.progress.judging;
      ++end_.progress.judged;
      end_.judging_s += now.attempt.judge_s;
      if (closing_ && judge::status_class(now.attempt.verdict->status) == "infra") {
        now.attempt.verdict.reset();
        now.attempt.error = "the search ended while it was judged";
      }
      const bool judged = now.attempt.verdict.has_value();
      const bool verified = judged && now.attempt.verdict->status == "ok";
      end_.progress.verified += verified;
      if (verified && config_.stop_when_verified) closing_ = true;
      finish(std::move(now.attempt), now.key, judged);
      told();
    }
    changed_.notify_all();
  }
  // Lanes go on until the answers that are under way have come.
  bool over_for_lanes() { return over() && end_.progress.asking == 0; }

  void judge(int lane, Attempt& attempt) {
    const std::string key = base::sha256_hex(attempt.task->code + '\0' + attempt.answer.text);
    {
      std::lock_guard lock(known_mutex_);
      if (const auto found = known_.find(key); found != known_.end()) {
        attempt.verdict = found->second.verdict;
        attempt.code = found->second.code;
        attempt.repeated = true;
        return;
      }
    }
    const base::Stopwatch watch;
    Judged judged = verifier_->judge(lane, *attempt.task, attempt.answer.text, [this] { return over(); });
    attempt.judge_s = watch.seconds();
    attempt.code = judged.code;
    attempt.verdict = judged.verdict;
    std::lock_guard lock(known_mutex_);
    if (judge::status_class(judged.verdict.status) != "infra") known_.emplace(key, std::move(judged));
  }

  // Under the lock.
  void finish(Attempt attempt, const Key& key, bool judged) {
    bool wanted = judged && key.turn < config_.turns;
    if (wanted) {
      const std::string& status = attempt.verdict->status;
      wanted = status == "ok" ? config_.improve : judge::is_candidate_fault(status);
    }
    // A sample that only the time has ended is begun again by whoever takes it up.
    attempt.last = !wanted;
    const bool goes_on = wanted && !closing_;
    if (goes_on) {
      to_ask_.emplace(Key{key.turn + 1, key.start}, next_turn(attempt.messages, attempt.answer.text,
                                                              *attempt.verdict, attempt.code, key.turn));
    } else {
      --open_;
      ++end_.progress.ended;
    }
    if (hooks_.attempt) hooks_.attempt(attempt);
    changed_.notify_all();
  }

  const std::vector<Start>& starts_;
  chat::ChatModel& model_;
  Verifier* verifier_;
  const CampaignConfig& config_;
  const CampaignHooks& hooks_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::vector<chat::Message>> to_ask_;
  std::list<Waiting> to_judge_;
  std::size_t open_ = 0;  // samples that have not ended
  int working_ = 0;       // threads
  CampaignEnd end_;
  std::atomic<bool> closing_{false}, stopped_{false}, end_of_time_{false};
  std::atomic<int> troubles_{0};
  std::mutex known_mutex_;
  std::map<std::string, Judged> known_;
};

}  // namespace

CampaignEnd run_campaign(const std::vector<Start>& starts, chat::ChatModel& model, Verifier* verifier,
                         const CampaignConfig& config, const CampaignHooks& hooks) {
  return Campaign(starts, model, verifier, config, hooks).run();
}

std::uint64_t turn_seed(std::uint64_t seed, const std::string& task_code, int sample, int turn) {
  const std::string what = fmt::format("{}/{}/{}", sample, turn, task_code);
  return base::xxh3(what, seed) % 0x7ffffffe + 1;
}

std::vector<chat::Message> next_turn(const std::vector<chat::Message>& asked, const std::string& answer,
                                     const judge::Verdict& verdict, const std::string& code, int round) {
  std::vector<chat::Message> messages = asked;
  std::string quoted = base::printable(answer);
  if (quoted.size() > kMaxQuotedBytes)
    quoted = base::printable(quoted.substr(0, kMaxQuotedBytes)) + "\n[cut]";
  messages.push_back({"assistant", quoted.empty() ? "(nothing)" : quoted});
  const auto feedback = judge::make_feedback(verdict, {.round = round, .sources = {{"candidate.py", code}}});
  messages.push_back({"user", judge::feedback_text(feedback)});
  return messages;
}

}  // namespace musacoder::generate
