#include "train/metrics/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

namespace musacoder::train {

Status drop_later_lines(const std::string& path, std::int64_t done) {
  if (!base::exists(path)) return ok();
  MC_ASSIGN_OR_RETURN(const std::string text, base::read_file(path, 4ull << 30));
  std::string kept;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = text.find('\n', from);
    if (end == std::string::npos) break;
    const auto line = nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(from),
                                            text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (line.is_object() && line.contains("step") && line["step"].is_number_integer() &&
        line["step"].get<std::int64_t>() <= done)
      kept.append(text, from, end + 1 - from);
    from = end + 1;
  }
  return kept == text ? ok() : base::write_file_atomic(path, kept);
}

Result<Metrics> Metrics::open(const std::string& run_dir, const MetricsOptions& options) {
  MC_RETURN_IF_ERROR(base::make_dirs(run_dir));
  const std::string path = run_dir + "/metrics.jsonl";
  MC_RETURN_IF_ERROR(drop_later_lines(path, options.resumed_at));
  base::Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd) return fail(base::code_of_errno(errno), "cannot write {}: {}", path, std::strerror(errno));
  std::optional<EventFile> events;
  if (options.tensorboard) {
    MC_ASSIGN_OR_RETURN(auto file, EventFile::create(run_dir + "/tensorboard", *options.clock,
                                                     options.resumed_at < 0 ? -1 : options.resumed_at + 1));
    events.emplace(std::move(file));
  }
  return Metrics(std::move(fd), std::move(events), options.clock);
}

Status Metrics::write(std::int64_t step, const Numbers& numbers) {
  nlohmann::ordered_json line = {{"step", step}, {"time", clock_->unix_time()}};
  for (const auto& [name, value] : numbers) {
    if (!std::isfinite(value))
      line[name] = nullptr;
    else if (value == std::floor(value) && std::fabs(value) < 1e15)
      line[name] = static_cast<std::int64_t>(value);
    else
      line[name] = value;
  }
  MC_RETURN_IF_ERROR(base::write_all(fd_.get(), line.dump() + "\n"));
  return events_ ? events_->write(step, numbers) : ok();
}

}  // namespace musacoder::train
