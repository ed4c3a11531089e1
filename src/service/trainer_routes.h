// Routes in the shapes that trainers' own clients speak: slime, OpenRLHF, NeMo-Gym, SandboxFusion, KernelGYM,
// OpenEnv (docs/service.md §3, shapes and sources in ../shared/research/training.md §3).
//
// Each turns the request into a job, waits for it, and says the verdict in the client's words. A fault of
// ours never becomes a number: 503 where the client would take any body as the reward, a flag where it has a
// field for one. Thread safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "service/http_types.h"
#include "service/service.h"

namespace musacoder::service {

struct Route;

// A multi-turn dialogue about one task.
struct Episode {
  std::string id, owner, task_id, reference, policy;
  int max_turns = 3, turns = 0;
  bool done = false, verified = false;
  std::vector<double> rewards;         // of the turns that were decided; an undecided one is NaN
  double busy_until = 0, used_at = 0;  // Unix seconds
};

class Episodes {
 public:
  explicit Episodes(std::size_t limit = 10'000, double idle_s = 3600) : limit_(limit), idle_s_(idle_s) {}
  void put(Episode episode, double now);
  // The owner's latest when `id` is empty. Null when there is none.
  std::shared_ptr<Episode> find(const std::string& id, const std::string& owner, double now);
  std::mutex mutex;  // of the episodes' members

 private:
  const std::size_t limit_;
  const double idle_s_;
  std::mutex map_mutex_;
  std::map<std::string, std::shared_ptr<Episode>> episodes_;  // "owner\nid"
  std::map<std::string, std::string> latest_;                 // by owner
};

class TrainerRoutes {
 public:
  explicit TrainerRoutes(Service& service) : service_(service) {}
  void add(std::vector<Route>& routes);
  Reply open_env_message(const std::string& text, const Token& token, std::string& episode);

 private:
  void add_rewards(std::vector<Route>& routes);  // slime, OpenRLHF, NeMo-Gym
  void add_run_code(std::vector<Route>& routes);
  void add_kernel_gym(std::vector<Route>& routes);
  void add_open_env(std::vector<Route>& routes);
  ApiResult<Reply> open_env_reset(const nlohmann::json& data, const Token& token, std::string* id);
  ApiResult<Reply> open_env_step(const nlohmann::json& action, const nlohmann::json& body, const Token& token,
                                 const std::string& fallback, double wait_s);
  ApiResult<nlohmann::json> open_env_state(const std::string& id, bool latest, const Token& token);

  Service& service_;
  Episodes episodes_;
};

}  // namespace musacoder::service
