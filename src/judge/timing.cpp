#include "judge/timing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "base/files.h"
#include "base/hash.h"
#include "judge/exchange.h"
#include "judge/json_fields.h"

namespace musacoder::judge {
namespace {

using nlohmann::json;

constexpr int kBaselineVersion = 1;         // part of the key of stored baselines
constexpr int kMaxHandovers = 60, kCallsAHandover = 10, kWatchedCalls = 2;
constexpr int kBracketCalls = 10;           // of the eager baseline, before and after the candidate,
constexpr int kSlowBracketCalls = 5;        // and where a call takes longer than
constexpr double kSlowMs = 2;               // this
constexpr double kEnoughMs = 240;           // of timed calls: slow ones are timed less often than asked,
constexpr std::size_t kFewestCalls = 10;    // but not less than this
constexpr double kDrift = 0.05;             // of the eager baseline, beyond which everything is measured again
constexpr int kAgain = 2;                   // how often
constexpr double kFlopsACycle = 8192;       // of a multiprocessor of compute capability 9.0, dense 8-bit products on tensor cores
constexpr double kCompileSeconds = 300;     // torch.compile of one baseline

class Measurement {
 public:
  Measurement(const TimingContext& context, Timing& timing) : c_(context), timing_(timing) {}

  Result<TimingEnd> run() {
    MC_ASSIGN_OR_RETURN(device_, c_.lane.ask({{"op", "device"}}, 30));
    flush_bytes_ = 2 * static_cast<std::uint64_t>(std::max(number_of(device_, "l2_bytes"), 32e6)) + (8u << 20);
    timing_.conditions = fmt::format("{}, driver {}, torch {}, CUDA {}", text_of(device_, "name"), text_of(device_, "driver"),
                                     text_of(device_, "torch"), text_of(device_, "cuda"));
    timing_.before = c_.device.state();
    MC_RETURN_IF_ERROR(baselines());
    for (int round = 0;; ++round) {
      const auto known = timing_.baselines.find("eager");
      const int around = known != timing_.baselines.end() && known->second.median > kSlowMs ? kSlowBracketCalls : kBracketCalls;
      MC_ASSIGN_OR_RETURN(timing_.eager_before, eager(around));
      MC_ASSIGN_OR_RETURN(TimingEnd end, candidate(round == 0));
      if (end.status != "ok" || end.reply) return end;
      MC_ASSIGN_OR_RETURN(timing_.eager_after, eager(around));
      const double a = timing_.eager_before.median, b = timing_.eager_after.median;
      const bool drifted = a > 0 && std::abs(a - b) > kDrift * a;
      if (implausible_ && round < kAgain) continue;
      if (drifted && round < kAgain) {
        remark(fmt::format("the eager baseline went from {:.4g} to {:.4g} ms while the candidate was measured; measured again", a, b));
        continue;
      }
      if (drifted) remark("the GPU's speed kept changing during the measurement");
      timing_.after = c_.device.state();
      if (timing_.after.others > 0) remark(fmt::format("{} other processes used the GPU", timing_.after.others));
      for (const auto& reason : timing_.after.throttle) remark("the GPU was throttled: " + reason);
      timing_.measured = true;
      end_ = std::move(end);
      return judge_times();
    }
  }

 private:
  void remark(const std::string& text) {
    if (std::find(timing_.remarks.begin(), timing_.remarks.end(), text) == timing_.remarks.end()) timing_.remarks.push_back(text);
  }

  json baseline_request(const std::string& name, int calls, double warm) const {
    return {{"op", "baseline"},
            {"handle", c_.task.handle()},
            {"mode", name.starts_with("compile") ? "compile" : "eager"},
            {"precision", name.ends_with("_tf32") ? "tf32" : "strict"},
            {"calls", calls},
            {"flush_bytes", flush_bytes_},
            {"warm_s", warm},
            {"seed", next_seed()}};
  }

  std::uint64_t next_seed() const { return (c_.seed + 7919u * static_cast<std::uint64_t>(++draws_)) & 0x7fffffffu; }

  // Eager, strict; also tells what a hand-over of so many calls costs beside the calls.
  Result<TimeSamples> eager(int calls) {
    const base::Stopwatch watch;
    MC_ASSIGN_OR_RETURN(json reply, c_.lane.ask(baseline_request("eager", calls, 0.05), c_.config.reference_seconds));
    TimeSamples samples = summarize(reply.value("ms", std::vector<double>()));
    // `ready_ms`: making the inputs, which the candidate's hand-over does not do.
    const double sum = std::accumulate(samples.ms.begin(), samples.ms.end(), 0.0);
    const double loop = number_of(reply, "loop_ms", watch.seconds() * 1e3);
    if (!samples.ms.empty()) beside_ms_ = std::max(0.0, loop - sum) / static_cast<double>(samples.ms.size());
    return samples;
  }

  Status baselines() {
    const std::string setting = c_.task.key + text_of(device_, "uuid") + text_of(device_, "name") + text_of(device_, "driver") +
                                       text_of(device_, "torch") + text_of(device_, "cuda");
    for (const std::string& name : c_.config.baselines) {
      const std::string path = fmt::format("{}/baselines/{}.json", c_.config.cache_dir,
                                           base::sha256_hex(fmt::format("{}\n{}\n{}", setting, name, kBaselineVersion)));
      json known;
      if (auto stored = base::read_file(path, 1 << 20)) known = json::parse(*stored, nullptr, false);
      if (!known.is_object() || (!known.contains("ms") && !known.contains("unavailable"))) {
        if (c_.cancelled && c_.cancelled()) return ok();
        auto reply = c_.lane.ask(baseline_request(name, c_.config.timed_calls, c_.config.warm_seconds),
                                 name.starts_with("compile") ? kCompileSeconds : c_.config.reference_seconds);
        if (!reply) {
          // A baseline that cannot be had is no reason to lose the verdict; a runner that is gone is.
          auto [status, message] = ended_status(reply.error());
          if (!name.starts_with("compile")) return tl::unexpected(reply.error());
          timing_.unavailable[name] = message;
          continue;
        }
        known = json::object();
        if (reply->contains("unavailable")) known["unavailable"] = (*reply)["unavailable"];
        else known["ms"] = reply->value("ms", json::array());
        if (base::make_dirs(c_.config.cache_dir + "/baselines")) (void)base::write_file_atomic(path, known.dump());
      }
      if (known.contains("unavailable")) timing_.unavailable[name] = text_of(known, "unavailable");
      else timing_.baselines[name] = summarize(known.value("ms", std::vector<double>()));
    }
    return ok();
  }

  Result<json> prepare(int calls, std::uint64_t seed, bool move) {
    return c_.lane.ask({{"op", "timed"}, {"handle", c_.task.handle()}, {"calls", calls}, {"seed", seed}, {"move", move}},
                       c_.config.reference_seconds);
  }

  // How many of the calls prepared have inputs that no other has, and output slots of their own.
  static int fresh_calls(const json& prepared) {
    const json sets = prepared.value("sets", json::array()), outputs = prepared.value("outputs", json::array());
    std::set<std::string> slots;
    for (const auto& call : outputs) slots.insert(call.dump());
    return static_cast<int>(std::min(sets.size(), slots.size()));
  }

  // Hand-overs until enough calls are timed and verified, one of them, at random, with the ledger on and its times left out.
  Result<TimingEnd> candidate(bool first) {
    TimingEnd end;
    std::vector<double> ms;
    double outer = 0, verify = 0;
    int calls = 0, verified = 0;
    implausible_ = false;
    const int enough = std::min(c_.config.timed_calls, std::max(static_cast<int>(kFewestCalls), static_cast<int>(kEnoughMs / std::max(c_.call_ms, 1e-3))));
    const int expected = std::max(2, (enough + kCallsAHandover - 1) / kCallsAHandover);
    const int watched = static_cast<int>(std::random_device{}() % static_cast<unsigned>(std::min(expected - 1, 2))) + 1;
    double total_ms = 0;
    // Not without the hand-over that is watched, however few calls are asked for.
    for (int handover = 0; handover < kMaxHandovers && (static_cast<int>(ms.size()) < c_.config.timed_calls || handover <= watched); ++handover) {
      if (total_ms > kEnoughMs && ms.size() >= kFewestCalls && handover > watched) break;
      if (c_.cancelled && c_.cancelled()) return end;
      const bool watching = handover == watched;
      int left = std::max(1, c_.config.timed_calls - static_cast<int>(ms.size()));
      if (ms.size() >= kFewestCalls)   // as many as are still worth their time
        left = std::clamp(static_cast<int>(std::ceil((kEnoughMs - total_ms) / std::max(total_ms / static_cast<double>(ms.size()), 1e-6))), 1, left);
      const int wanted = std::min(watching ? kWatchedCalls : left, per_handover_);
      const std::uint64_t seed = next_seed();
      MC_ASSIGN_OR_RETURN(json prepared, prepare(wanted, seed, handover % 3 == 2));
      if (const int fit = fresh_calls(prepared); fit < wanted) {   // memory allows no more: fewer calls, every one fresh and compared
        per_handover_ = std::max(1, fit);
        MC_ASSIGN_OR_RETURN(prepared, prepare(per_handover_, seed, handover % 3 == 2));
      }
      json request = {{"arena", prepared.value("arena", json::object())},
                      {"place", arena_addresses(prepared.value("place", json::object()))},
                      {"sets", arena_addresses(prepared.value("sets", json::array()))},
                      {"slots", prepared.value("outputs", json::array())},
                      {"flush_bytes", flush_bytes_},
                      {"warm_s", handover == 0 ? c_.config.warm_seconds : 0.0},
                      {"seed", seed}};
      if (watching) {
        MC_RETURN_IF_ERROR(c_.session.begin_window({.trial = 1000 + handover}));
      } else {
        MC_RETURN_IF_ERROR(c_.session.quiet(true));
      }
      RunnerReply reply = c_.runner.timed(request, c_.deadline(handover == 0 ? c_.config.first_call_seconds : c_.config.hardware_call_seconds));
      if (reply.kind != ReplyKind::kDone) {
        end.reply = std::move(reply);
        return end;
      }
      if (watching) {
        MC_ASSIGN_OR_RETURN(end.ledger, c_.session.end_window());
      } else {
        MC_RETURN_IF_ERROR(c_.session.quiet(false));
      }
      const std::size_t count = request["sets"].size();
      if (reply.ms.size() != count) return TimingEnd{"cheating:tampering", "the runner timed another number of calls than it was asked for", {}, {}};
      if (!reply.refused.empty()) end.ledger.refused_ops.insert(end.ledger.refused_ops.end(), reply.refused.begin(), reply.refused.end());

      const base::Stopwatch watch;
      json claims = json::array();
      for (const auto& claim : *reply.outputs) {
        auto cleaned = arena_claims(claim);
        if (!cleaned) return TimingEnd{"correctness_error:shape", "in a timed call: " + cleaned.error().message, {}, {}};
        claims.push_back(std::move(*cleaned));
      }
      MC_ASSIGN_OR_RETURN(json compared, c_.lane.ask({{"op", "compare_timed"}, {"handle", c_.task.handle()}, {"claims", claims}},
                                                     c_.config.reference_seconds));
      verify += watch.seconds() * 1e3;
      verified += static_cast<int>(count);
      if (!compared.value("pass", false))
        return TimingEnd{text_of(compared, "status").empty() ? "correctness_error:values" : text_of(compared, "status"),
                         fmt::format("a timed call gave another result than the calls that were tried before: {}", text_of(compared, "message")), {}, {}};
      if (watching) {
        std::uint64_t ns = 0;
        for (const auto& launch : end.ledger.launches) ns += launch.nanoseconds;
        timing_.ledger_ms = static_cast<double>(ns) * 1e-6 / static_cast<double>(count);
        continue;
      }
      if (handover == 0 && first) timing_.first_ms = reply.first_ms;
      if (handover == 0) timing_.warm_calls = reply.warm_calls;
      const double sum = std::accumulate(reply.ms.begin(), reply.ms.end(), 0.0);
      if (handover > 0) {   // the first one warmed up too, and allocated
        outer += reply.outer_ms;
        calls += static_cast<int>(count);
        if (!events_are_plausible(sum, reply.outer_ms, beside_ms_ * static_cast<double>(count))) implausible_ = true;
      }
      total_ms += sum;
      floor_ms_ = std::max(floor_ms_, floor(prepared.value("outputs", json::array())));
      ms.insert(ms.end(), reply.ms.begin(), reply.ms.end());
      ++timing_.handovers;
    }
    timing_.candidate = summarize(std::move(ms));
    timing_.outer_ms = calls ? outer / calls : 0;
    timing_.verified_calls = verified;
    timing_.verify_ms = verified ? verify / verified : 0;
    timing_.floor_ms = floor_ms_;
    timing_.flops_floor_ms = flops_floor();
    return end;
  }

  // Outputs of one call, less what may still lie in the L2 cache, over the memory's peak bandwidth.
  double floor(const json& outputs) const {
    const double bandwidth = number_of(device_, "bytes_per_s");
    if (bandwidth <= 0 || outputs.empty()) return 0;
    return std::max(0.0, static_cast<double>(tensor_bytes(outputs[0])) - number_of(device_, "l2_bytes")) / bandwidth * 1e3;
  }

  // A candidate may do less arithmetic than the reference (a product summed up at once is a product with a sum), and each of
  // its results was compared: so this is told, and decides nothing.
  double flops_floor() const {
    const double peak = number_of(device_, "sms") * number_of(device_, "max_hz") * kFlopsACycle;
    return peak > 0 ? number_of(c_.task.reply, "flops") / peak * 1e3 : 0;
  }

  Result<TimingEnd> judge_times() {
    const TimeSamples& samples = timing_.candidate;
    if (implausible_)
      return TimingEnd{"cheating:implausible_time",
                       fmt::format("the calls are said to take {:.4g} ms each, but a call and what lies beside it took {:.4g} ms by the judge's "
                                   "clock, of which about {:.4g} ms are beside it",
                                   samples.median, timing_.outer_ms, beside_ms_), {}, {}};
    if (samples.median < timing_.flops_floor_ms)
      remark(fmt::format("quicker than the reference's arithmetic takes at the GPU's peak in any precision ({:.4g} ms): the candidate does less of it",
                         timing_.flops_floor_ms));
    if (samples.median < 0.95 * timing_.floor_ms)
      return TimingEnd{"cheating:implausible_time",
                       fmt::format("the calls are said to take {:.4g} ms each, but writing their outputs takes at least {:.4g} ms", samples.median,
                                   timing_.floor_ms), {}, {}};
    return std::move(end_);
  }

  const TimingContext& c_;
  Timing& timing_;
  TimingEnd end_;
  json device_;
  std::uint64_t flush_bytes_ = 0;
  double beside_ms_ = 0, floor_ms_ = 0;
  int per_handover_ = kCallsAHandover;
  bool implausible_ = false;
  mutable int draws_ = 0;
};

}  // namespace

Result<TimingEnd> measure(const TimingContext& context, Timing& timing) { return Measurement(context, timing).run(); }

TimeSamples summarize(std::vector<double> ms) {
  TimeSamples samples;
  samples.ms = std::move(ms);
  if (samples.ms.empty()) return samples;
  std::vector<double> sorted = samples.ms;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  auto quantile = [&](double q) { return sorted[std::min(n - 1, static_cast<std::size_t>(q * static_cast<double>(n)))]; };
  samples.median = n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
  samples.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(n);
  samples.min = sorted.front();
  samples.p10 = quantile(0.1);
  samples.p90 = quantile(0.9);
  return samples;
}

bool events_are_plausible(double events_ms, double outer_ms, double beside_ms) {
  const double left = outer_ms - 2 * beside_ms - 2;
  return events_ms >= 0.5 * left;
}

}  // namespace musacoder::judge
