#include "train/rl/rl.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "base/files.h"
#include "base/hash.h"
#include "llm/kernels/cuda/load.h"
#include "train/config/rl_config.h"
#include "train/parallel/join.h"
#include "train/rl/http_verifier.h"
#include "train/rl/rl_trainer.h"
#include "train/rl/verifier_process.h"

namespace musacoder::train {
namespace {

struct Prompts {
  std::vector<std::size_t> usable;  // of the tasks
  std::size_t longest = 0, too_long = 0;
};

Result<Prompts> measure(const Asker& asker, const std::vector<RlTask>& tasks, std::int64_t most) {
  Prompts out;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    MC_ASSIGN_OR_RETURN(const Conversation talk, asker.ask(tasks[i]));
    MC_ASSIGN_OR_RETURN(const auto prompt, asker.encode(talk));
    const std::size_t length = prompt.size();
    if (static_cast<std::int64_t>(length) > most || length == 0) {
      ++out.too_long;
      continue;
    }
    out.usable.push_back(i);
    out.longest = std::max(out.longest, length);
  }
  return out;
}

std::int64_t cache_tokens(const RlConfig& c, std::size_t longest_prompt) {
  if (c.cache_tokens > 0) return c.cache_tokens;
  const std::int64_t prompt = static_cast<std::int64_t>(longest_prompt),
                     turns = std::max(c.turns, c.eval_every || !c.tasks_eval.empty() ? c.eval_turns : 1);
  // A later turn's prompt holds the answers before it and what the verifier said.
  const std::int64_t last =
      turns == 1 ? prompt : std::min(c.prompt_tokens, prompt + (turns - 1) * (c.response_tokens + 1024));
  const std::int64_t page = 64;  // of each sample, at most one is not full
  return c.max_running * (last + c.response_tokens + page);
}

Result<std::string> token_of(const std::string& file) {
  if (file.empty()) return std::string();
  MC_ASSIGN_OR_RETURN(const std::string text, base::read_file(file, 4096));
  return text.substr(0, text.find_first_of("\r\n"));
}

// A service that is there, or one that is started; both kinds behind one client.
struct Service {
  std::unique_ptr<VerifierProcess> process;
  std::unique_ptr<HttpVerifier> client;
  Service() = default;
  Service(Service&&) = default;
  ~Service() {
    if (process) process->stop();  // so that the client's threads wait for nothing any more
  }
  int restarts() const { return process ? process->restarts() : 0; }
};

Result<Service> open_service(const RlConfig& c, const std::string& url, const std::vector<std::string>& args,
                             const char* name, const RunPlace& place, std::uint64_t seed) {
  Service out;
  const HttpVerifierOptions how{.connections = static_cast<int>(c.verifier_connections),
                                .timeout_s = c.verifier_timeout_s,
                                .retries = static_cast<int>(c.verifier_retries),
                                .seed = seed};
  if (!url.empty()) {
    MC_ASSIGN_OR_RETURN(const std::string token, token_of(c.verifier_token_file));
    const ServiceEndpoint endpoint{url, token};
    out.client =
        std::make_unique<HttpVerifier>([endpoint] { return Result<ServiceEndpoint>(endpoint); }, how);
    return out;
  }
  // Processes of one machine share its cores.
  const auto cores = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  const std::int64_t lanes =
      std::max<std::int64_t>(1, (c.verifier_lanes ? c.verifier_lanes : cores) / place.local_world);
  MC_ASSIGN_OR_RETURN(out.process,
                      VerifierProcess::start({.program = c.verifier_program,
                                              .args = args,
                                              .lanes = lanes,
                                              .log = fmt::format("{}/{}-{}.log", c.run_dir, name, place.rank),
                                              .work_dir = c.run_dir}));
  out.client =
      std::make_unique<HttpVerifier>([process = out.process.get()] { return process->endpoint(); }, how);
  return out;
}

std::string describe(const RlConfig& c, const TrainedModel& model, const std::vector<RlTask>& tasks,
                     const Prompts& prompts, std::size_t held_out, std::int64_t cache, int world) {
  std::string out = fmt::format(
      "{:.1f} M parameters{}, {:.2f} M of them trained, on {} process{}\n{} tasks, {} left out for their "
      "length, prompts of up to "
      "{} tokens; {} held out\n",
      static_cast<double>(model.parameters()) / 1e6, model.adapted() ? " with adapters" : "",
      static_cast<double>(model.trained_parameters()) / 1e6, world, world == 1 ? "" : "es", tasks.size(),
      prompts.too_long, prompts.longest, held_out);
  out += fmt::format(
      "{} steps of {} prompts × {} answers of up to {} tokens, {} turn{}, {}; room for {} tokens of keys and "
      "values\n",
      c.steps, c.batch, c.group, c.response_tokens, c.turns, c.turns == 1 ? "" : "s at most", c.mode, cache);
  out += fmt::format("{}, {} update{} a step, lr {:g}", c.preset, c.mini_batches * c.batch_epochs,
                     c.mini_batches * c.batch_epochs == 1 ? "" : "s", c.lr);
  return out;
}

Status check_vocabulary(const Asker& asker, const TrainedModel& model) {
  if (static_cast<std::int64_t>(asker.tokenizer().size()) > model.config().vocab)
    return fail(Code::kInvalidArgument, "the tokenizer has tokens up to {}, and the model {} only",
                asker.tokenizer().size(), model.config().vocab);
  return ok();
}

Result<RlOutcome> run(const RlConfig& config, bool dry_run) {
  MC_ASSIGN_OR_RETURN(const RunPlace place, run_place());
  const std::string device_name =
      config.device == "cuda" ? fmt::format("cuda:{}", place.local_rank) : config.device;
  MC_ASSIGN_OR_RETURN(const at::Device device, llm::open_device(device_name));
  const int threads = config.threads > 0 ? static_cast<int>(config.threads)
                                         : std::max(1, at::get_num_threads() / place.local_world);
  at::set_num_threads(threads);
  MC_RETURN_IF_ERROR(base::make_dirs(config.run_dir));

  MC_ASSIGN_OR_RETURN(const std::vector<RlTask> tasks, read_tasks(config.tasks_train));
  std::vector<RlTask> held_out;
  if (!config.tasks_eval.empty()) {
    MC_ASSIGN_OR_RETURN(held_out, read_tasks(config.tasks_eval));
  }
  MC_ASSIGN_OR_RETURN(const Asker asker,
                      Asker::open(config.model_path, {.form = config.prompt_form,
                                                      .exemplar = config.exemplar,
                                                      .dialect = config.dialect,
                                                      .date_s = static_cast<double>(config.date)}));
  MC_ASSIGN_OR_RETURN(const Prompts prompts, measure(asker, tasks, config.prompt_tokens));
  if (prompts.usable.empty())
    return fail(Code::kInvalidArgument, "no task's prompt fits into rollout.prompt_tokens ({})",
                config.prompt_tokens);
  MC_ASSIGN_OR_RETURN(const Prompts eval_prompts, measure(asker, held_out, config.prompt_tokens));

  // Others wait while one's rollouts are judged.
  MC_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> all,
                      join_run(place, config.backend, device,
                               1800 + 2 * config.verifier_timeout_s *
                                          static_cast<double>(std::max(config.turns, config.eval_turns))));
  MC_ASSIGN_OR_RETURN(const auto model, TrainedModel::open(config, device, *all));
  MC_RETURN_IF_ERROR(check_vocabulary(asker, *model));
  const std::int64_t cache = cache_tokens(config, std::max(prompts.longest, eval_prompts.longest));
  if (all->rank() == 0)
    fmt::print(stderr, "{}\n",
               describe(config, *model, tasks, prompts, eval_prompts.usable.size(), cache, all->world()));
  if (dry_run) return RlOutcome{};

  std::unique_ptr<Reference> reference;
  if (config.kl > 0) {
    const std::string path =
        config.reference.empty() && !model->adapted() ? config.model_path : config.reference;
    MC_ASSIGN_OR_RETURN(reference, Reference::open(path, config.model_type, *model));
  }
  const std::string type = config.rollout_type == "same" ? config.model_type : config.rollout_type;
  MC_ASSIGN_OR_RETURN(
      llm::Weights published,
      llm::Weights::open(config.model_path,
                         {.type = type == "bf16" ? llm::WeightType::kBF16 : llm::WeightType::kF32,
                          .trainable = true,  // copies: what is mapped cannot be written to
                          .device = device}));
  for (const std::string& name : published.names()) at::Tensor(published.get(name)).requires_grad_(false);
  MC_ASSIGN_OR_RETURN(
      const auto engine,
      llm::Engine::open(config.model_path,
                        {.device = device_name,
                         .type = type,
                         .cache_tokens = cache,
                         .max_running = static_cast<int>(config.max_running),
                         .step_tokens = std::max(256, static_cast<int>(config.max_running))}));
  MC_ASSIGN_OR_RETURN(const Service paying,
                      open_service(config, config.verifier_url, config.verifier_args, "verifier", place, 0));
  std::optional<Service> stricter;
  if (!eval_prompts.usable.empty()) {
    const bool shared = config.eval_url.empty() && !config.verifier_url.empty();
    MC_ASSIGN_OR_RETURN(Service opened, open_service(config, shared ? config.verifier_url : config.eval_url,
                                                     config.eval_args, "eval-verifier", place,
                                                     0x5eed + static_cast<std::uint64_t>(config.seed)));
    stricter.emplace(std::move(opened));
  }
  Rollouts rollouts(*engine, asker, tasks, held_out, *paying.client,
                    stricter ? stricter->client.get() : nullptr,
                    {.group = static_cast<int>(config.group),
                     .eval_samples = static_cast<int>(config.eval_samples),
                     .temperature = config.temperature,
                     .top_p = config.top_p,
                     .eval_temperature = config.eval_temperature,
                     .eval_top_p = config.eval_top_p,
                     .top_k = static_cast<int>(config.top_k),
                     .prompt_tokens = config.prompt_tokens,
                     .response_tokens = config.response_tokens,
                     .seed = static_cast<std::uint64_t>(config.seed),
                     .run = fmt::format("{:x}", base::xxh3(config.run_dir))});
  RolloutLoop loop(rollouts, {.threaded = config.mode == "async", .threads = threads});
  RlTrainer trainer(
      config,
      {.model = *model,
       .reference = reference.get(),
       .published = published,
       .rollouts = rollouts,
       .loop = loop,
       .tasks = tasks,
       .eval_tasks = held_out,
       .usable = prompts.usable,
       .eval_usable = eval_prompts.usable,
       .prompt_version = asker.version(),
       .verifier_restarts = [&] { return paying.restarts() + (stricter ? stricter->restarts() : 0); }},
      *all);
  MC_RETURN_IF_ERROR(trainer.resume());
  return trainer.run();
}

}  // namespace

Result<RlOutcome> run_rl(const RlOptions& options) {
  RlConfig config;
  const std::vector<ConfigKey> keys = rl_keys(config);
  MC_RETURN_IF_ERROR(read_config(keys, options.config, options.assignments));
  MC_RETURN_IF_ERROR(check(config));
  try {
    return run(config, options.dry_run);
  } catch (const std::exception& error) {  // libtorch's own errors
    return fail(Code::kInternal, "{}", error.what());
  }
}

}  // namespace musacoder::train
