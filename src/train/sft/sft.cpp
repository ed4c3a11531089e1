#include "train/sft/sft.h"

#include <ATen/Parallel.h>

#include "llm/kernels/cuda/load.h"
#include "train/config/sft_config.h"
#include "train/parallel/join.h"
#include "train/sft/trainer.h"

namespace musacoder::train {
namespace {

Result<SftOutcome> run(const SftConfig& config, bool dry_run) {
  MC_ASSIGN_OR_RETURN(const RunPlace place, run_place());
  MC_ASSIGN_OR_RETURN(const at::Device device,
                      llm::open_device(config.device == "cuda" ? fmt::format("cuda:{}", place.local_rank)
                                                               : config.device));
  // Processes of one machine share its cores.
  const int threads = config.threads > 0 ? static_cast<int>(config.threads)
                                         : std::max(1, at::get_num_threads() / place.local_world);
  at::set_num_threads(threads);
  // Others wait while rank 0 writes a checkpoint and runs the command behind it.
  MC_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> all,
                      join_run(place, config.backend, device, 1800 + config.eval_timeout_s));

  ReaderOptions reading{.length = config.length,
                        .too_long = config.too_long == "drop"    ? TooLong::kDrop
                                    : config.too_long == "error" ? TooLong::kError
                                                                 : TooLong::kCut,
                        .loss_on_all = config.loss == "all",
                        .allow_control_text = config.control_text == "allow",
                        .date_s = static_cast<double>(config.date)};
  MC_ASSIGN_OR_RETURN(const ExampleReader reader, ExampleReader::open(config.model_path, reading));
  MC_ASSIGN_OR_RETURN(Dataset data, read_dataset(reader, config.data_train));
  MC_RETURN_IF_ERROR(check_mixture(data, {config.weights, config.shares}));
  std::optional<Dataset> eval;
  if (!config.data_eval.empty()) {
    MC_ASSIGN_OR_RETURN(eval, read_dataset(reader, config.data_eval));
    if (eval->examples.empty()) return fail(Code::kInvalidArgument, "data.eval has no examples");
  }
  MC_ASSIGN_OR_RETURN(const auto model, TrainedModel::open(config, device, *all));
  for (const Dataset* one : {&data, eval ? &*eval : &data})
    for (const llm::TokenId id : one->tokens)
      if (static_cast<std::int64_t>(id) >= model->config().vocab)
        return fail(Code::kInvalidArgument, "the tokenizer has token {}, and the model {} only", id,
                    model->config().vocab);
  Trainer trainer(config, std::move(data), std::move(eval), *model, *all);
  if (all->rank() == 0) fmt::print(stderr, "{}\n", trainer.describe());
  if (dry_run) return SftOutcome{};
  MC_RETURN_IF_ERROR(trainer.resume());
  return trainer.run();
}

}  // namespace

Result<SftOutcome> run_sft(const SftOptions& options) {
  SftConfig config;
  const std::vector<ConfigKey> keys = sft_keys(config);
  MC_RETURN_IF_ERROR(read_config(keys, options.config, options.assignments));
  MC_RETURN_IF_ERROR(check(config));
  try {
    return run(config, options.dry_run);
  } catch (const std::exception& error) {  // libtorch's own errors
    return fail(Code::kInternal, "{}", error.what());
  }
}

}  // namespace musacoder::train
