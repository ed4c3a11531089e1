#include "build/warm_compiler.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <unordered_set>

#include "base/clock.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/json_lines.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "build/cache.h"
#include "build/dryrun.h"
#include "build/text.h"
#include "sandbox/launcher.h"

namespace fs = std::filesystem;

namespace musacoder::build {
namespace {

constexpr double kStartSeconds = 120;
constexpr double kCompileSeconds = 120;
constexpr int kSocket = 4;
constexpr int kVersion = 1;    // part of the cached prefixes' address
constexpr const char* kName = "cuda";   // base name of every intermediate file

std::vector<std::string> without(std::vector<std::string> list, const std::string& word) {
  list.erase(std::remove(list.begin(), list.end(), word), list.end());
  return list;
}

// "-o file", "--flag file": the word after `flag`, to be replaced.
void set_after(std::vector<std::string>& argv, const std::string& flag, const std::string& value) {
  for (std::size_t i = 0; i + 1 < argv.size(); ++i)
    if (argv[i] == flag) argv[i + 1] = value;
}

std::string quoted(const std::vector<std::string>& argv) {
  std::string line;
  for (const auto& word : argv) line += (line.empty() ? "'" : " '") + replaced(word, "'", "'\\''") + "'";
  return line;
}

// One compiler front end as a fork server.
class Server {
 public:
  // `argv` names files in `scratch` only. Returns when the headers are read.
  static Result<std::unique_ptr<Server>> start(const WarmCompilers::Options& options, std::vector<std::string> argv, const std::string& root,
                                               const std::string& input) {
    auto server = std::unique_ptr<Server>(new Server);
    server->root_ = root;
    sandbox::Policy policy = options.policy;
    const std::uint64_t memory = policy.memory_bytes;
    const double wall = policy.wall_s > 0 ? policy.wall_s : kCompileSeconds;
    policy.writable = {root};
    policy.readable.push_back(options.preload);
    policy.cwd = root;
    policy.wall_s = policy.cpu_s = 0;
    policy.memory_bytes = 0;                 // of the whole group; each child has its own limit
    policy.writable_bytes = 0;
    std::vector<std::string> command = {options.launcher, "--policy", sandbox::to_json(policy), "--", "/usr/bin/env", "LD_PRELOAD=" + options.preload,
                                        "MUSACODER_WARM_INPUT=" + input, "MUSACODER_WARM_SCRATCH=" + root + "/server",
                                        "TMPDIR=" + root + "/server", fmt::format("MUSACODER_WARM_SOCKET={}", kSocket),
                                        fmt::format("MUSACODER_WARM_WALL_S={:.0f}", wall), fmt::format("MUSACODER_WARM_MEMORY_MB={}", memory >> 20)};
    append(command, argv);
    base::SubprocessOptions start;
    start.argv = std::move(command);
    start.env = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "LANG=C", "LC_ALL=C"};
    start.socket_at = kSocket;
    start.merge_stderr = true;
    MC_ASSIGN_OR_RETURN(server->child_, base::Child::start(start));
    base::Fd out = server->child_.take_stdout();
    server->lines_ = std::make_unique<base::JsonLines>(server->child_.take_socket());
    auto ready = server->lines_->read_line(base::Deadline::in(kStartSeconds));
    if (!ready || *ready != "ready") {
      char text[2000];
      ssize_t n = out ? ::read(out.get(), text, sizeof text) : 0;
      return fail(Code::kUnavailable, "{} did not start: {}", fs::path(argv[0]).filename().string(), n > 0 ? std::string(text, static_cast<std::size_t>(n)) : ready ? *ready : ready.error().message);
    }
    server->out_ = std::move(out);
    server->reader_ = std::thread([raw = server.get()] { raw->read_answers(); });
    return server;
  }

  ~Server() {
    if (lines_) ::shutdown(lines_->fd(), SHUT_RDWR);
    if (reader_.joinable()) reader_.join();
    child_.stop();
  }

  bool alive() const { return alive_; }

  // Compiles folder/source.ii in a forked child. The wait status, or -1.
  int compile(const std::string& folder) {
    std::future<int> answer;
    {
      std::lock_guard lock(mutex_);
      if (!alive_) return -1;
      unsigned long id = ++last_id_;
      answer = waiting_[id].get_future();
      if (!lines_->write_line(fmt::format("{} {}", id, folder), base::Deadline::in(10))) return -1;
    }
    // The child has its own deadline; this one is for a server that is gone in some unknown way.
    if (answer.wait_for(std::chrono::duration<double>(2 * kCompileSeconds)) != std::future_status::ready) return -1;
    return answer.get();
  }

 private:
  Server() = default;
  void read_answers() {
    for (;;) {
      auto line = lines_->read_line(base::Deadline::never());
      if (!line) break;
      char* end = nullptr;
      unsigned long id = std::strtoul(line->c_str(), &end, 10);
      int status = std::atoi(end);
      std::lock_guard lock(mutex_);
      if (auto it = waiting_.find(id); it != waiting_.end()) {
        it->second.set_value(status);
        waiting_.erase(it);
      }
    }
    std::lock_guard lock(mutex_);
    alive_ = false;
    for (auto& [id, promise] : waiting_) promise.set_value(-1);
    waiting_.clear();
  }

  std::string root_;
  base::Child child_;
  base::Fd out_;
  std::unique_ptr<base::JsonLines> lines_;
  std::thread reader_;
  std::mutex mutex_;
  unsigned long last_id_ = 0;
  std::map<unsigned long, std::promise<int>> waiting_;
  std::atomic<bool> alive_{true};
};

// The servers and prefixes for one set of flags and headers.
class Kind {
 public:
  // Everything slow: asks nvcc, makes the prefixes or finds them in the cache, starts both servers.
  static Result<std::shared_ptr<Kind>> make(const WarmCompilers::Options& options, const WarmJob& job, const std::string& prefix, const std::string& key) {
    auto kind = std::make_shared<Kind>();
    kind->options_ = &options;
    MC_ASSIGN_OR_RETURN(kind->root_, base::TempDir::create("musacoder-warm", 128u << 20));
    const std::string root = kind->root_.path();
    kind->template_src_ = root + "/source";
    kind->template_out_ = root + "/out";
    for (const char* name : {"source", "out", "host", "host/server", "device", "device/server"}) MC_RETURN_IF_ERROR(base::make_dirs(root + "/" + name));
    const std::string source = kind->template_src_ + "/" + kName + ".cu";
    MC_RETURN_IF_ERROR(base::write_file(source, prefix));

    std::vector<std::string> argv = {job.nvcc, "--dryrun", "-c", source, "-o", kind->template_out_ + "/unit.o", "--keep", "--keep-dir", kind->template_out_,
                                     "-I" + kind->template_src_};
    append(argv, job.flags);
    base::SubprocessOptions ask;
    ask.argv = argv;
    ask.env = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "LANG=C", "LC_ALL=C"};
    ask.merge_stderr = true;
    MC_ASSIGN_OR_RETURN(auto answer, base::run(ask));
    MC_ASSIGN_OR_RETURN(kind->commands_, parse_dryrun(answer.out));
    DryRun& c = kind->commands_;

    // The prefixes, made once for all processes.
    kind->cached_ = fmt::format("{}/warm/{}", options.cache_dir, key);
    MC_RETURN_IF_ERROR(base::make_dirs(kind->cached_));
    // One process makes them, the others wait: nobody may read half a prefix. A killed maker lets go of the lock.
    base::Fd lock(::open((kind->cached_ + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!lock || ::flock(lock.get(), LOCK_EX) != 0) return fail(Code::kUnavailable, "cannot lock {}", kind->cached_);
    const bool made = base::exists(kind->cached_ + "/done");
    std::error_code ignored;
    fs::last_write_time(kind->cached_, fs::file_time_type::clock::now(), ignored);
    remove_older(options.cache_dir + "/warm", kind->cached_);
    if (made) lock.reset();
    else MC_RETURN_IF_ERROR(kind->make_macros(prefix));

    auto server_argv = [&](std::vector<std::string> command, const std::string& where) {
      command = replaced(std::move(command), kind->template_out_, where);
      command = without(std::move(command), "--gen_module_id_file");   // both front ends are told the same name
      return command;
    };
    kind->host_root_ = root + "/host";
    kind->device_root_ = root + "/device";
    std::string host_in = kind->host_root_ + "/server/" + kName + ".cpp4.ii", device_in = kind->device_root_ + "/server/" + kName + ".cpp1.ii";
    MC_ASSIGN_OR_RETURN(std::string host_text, base::read_file(kind->cached_ + "/host.ii"));
    MC_ASSIGN_OR_RETURN(std::string device_text, base::read_file(kind->cached_ + "/device.ii"));
    MC_RETURN_IF_ERROR(base::write_file(host_in, host_text));
    MC_RETURN_IF_ERROR(base::write_file(device_in, device_text));
    auto device = std::async(std::launch::async, [&] {
      return Server::start(options, server_argv(c.cicc, kind->device_root_ + "/server"), kind->device_root_, device_in);
    });
    auto host = Server::start(options, server_argv(c.cudafe, kind->host_root_ + "/server"), kind->host_root_, host_in);
    auto device_result = device.get();
    if (!host) return tl::unexpected(host.error());
    if (!device_result) return tl::unexpected(device_result.error());
    kind->host_ = std::move(*host);
    kind->device_ = std::move(*device_result);
    if (!made) MC_RETURN_IF_ERROR(kind->make_host_header());
    MC_ASSIGN_OR_RETURN(kind->host_prefix_, base::read_file(kind->cached_ + "/host_prefix.h"));
    return kind;
  }

  bool alive() const { return host_->alive() && device_->alive(); }

  std::optional<WarmResult> compile(const WarmJob& job) {
    WarmResult result;
    const std::string number = std::to_string(++jobs_);
    const std::string host_dir = host_root_ + "/" + number, device_dir = device_root_ + "/" + number;
    struct Remove {
      const std::string &a, &b;
      ~Remove() { (void)base::remove_tree(a), (void)base::remove_tree(b); }
    } remove{host_dir, device_dir};
    if (!base::make_dirs(host_dir) || !base::make_dirs(device_dir)) return std::nullopt;

    // What follows the headers, with their macros known.
    auto preprocess = [&](std::vector<std::string> command, const char* macros, const std::string& output) {
      command = replaced(std::move(command), template_src_ + "/" + kName + ".cu", job.source);
      command = replaced(std::move(command), template_src_, job.source_dir);
      set_after(command, "-o", output);
      append(command, job.name_flags);
      append(command, {"-imacros", cached_ + "/" + macros});
      return quoted(command);
    };
    const std::string host_ii = job.out_dir + "/host.ii", device_ii = job.out_dir + "/device.ii";
    // Side by side; both say the same of a missing header, which is said once.
    std::string script = preprocess(commands_.host_cpp, "host.macros", host_ii) + " & host=$!; " + preprocess(commands_.device_cpp, "device.macros", device_ii) +
                         " 2>device.log; device=$?; wait $host || exit 1; cat device.log; exit $device";
    switch (run(job, script, result)) {
      case End::kInfra: return std::nullopt;
      case End::kError: return result;
      case End::kDone: break;
    }
    auto host_text = base::read_file(host_ii), device_text = base::read_file(device_ii);
    std::string id = base::sha256_hex(job.text + "\n" + key_of(job)).substr(0, 16);
    std::string module_id = fmt::format("_{}_{}_{}_cu_{}", id.substr(0, 8), std::string(kName).size() + 3, kName, id.substr(8));
    auto hand_over = [&](const std::string& dir, const Result<std::string>& text) {
      return text && base::write_file(dir + "/source.ii", *text) && base::write_file(dir + "/" + kName + ".module_id", module_id);
    };
    if (!hand_over(host_dir, host_text) || !hand_over(device_dir, device_text)) return std::nullopt;
    auto device = std::async(std::launch::async, [&] { return device_->compile(device_dir); });
    int host_status = host_->compile(host_dir), device_status = device.get();
    // nvcc stops at the first program that fails, and cudafe++ comes first. Both give the same warnings about host code.
    auto code = [](int status) { return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1; };
    std::string host_log = base::read_file(host_dir + "/log", 4u << 20).value_or(""), device_log = base::read_file(device_dir + "/log", 4u << 20).value_or("");
    for (auto [status, log] : {std::pair{code(host_status), &host_log}, {code(device_status), &device_log}}) {
      // Killed, out of memory, a server gone: nvcc finds out under the builder's own limits.
      if (status < 0 || status > 2) {
        base::log_info("a warm compiler ended with wait status {} and {}", host_status, device_status);
        return std::nullopt;
      }
      if (result.log.find(*log) == std::string::npos) result.log += *log;
      if (status == 0) continue;
      if (result.log.find("error") != std::string::npos) return result;
      base::log_info("a warm compiler ended with status {} and said nothing of an error: {}", status, result.log.substr(0, 300));
      return std::nullopt;
    }

    const std::string base_name = "/" + std::string(kName);
    auto cpp = base::read_file(host_dir + base_name + ".cudafe1.cpp");
    if (!cpp) return std::nullopt;
    std::error_code error;
    for (const char* ending : {".ptx", ".cudafe1.stub.c"}) {
      fs::copy_file(device_dir + base_name + ending, job.out_dir + base_name + ending, fs::copy_options::overwrite_existing, error);
      if (error) return std::nullopt;
    }
    std::vector<std::string> gxx = replaced(commands_.gxx, template_out_ + "/unit.o", job.object);
    gxx = replaced(replaced(std::move(gxx), template_out_, job.out_dir), template_src_, job.source_dir);
    if (cpp->starts_with(host_prefix_)) {
      cpp->erase(0, host_prefix_.size());
      gxx.insert(gxx.begin() + 1, {"-include", cached_ + "/host_prefix.h"});
    }
    if (!base::write_file(job.out_dir + base_name + ".cudafe1.cpp", *cpp)) return std::nullopt;
    std::vector<std::string> fatbinary = replaced(commands_.fatbinary, template_out_, job.out_dir);
    std::string script_end = quoted(fatbinary) + " && " + quoted(gxx);
    if (!commands_.ptxas.empty()) script_end = quoted(replaced(commands_.ptxas, template_out_, job.out_dir)) + " && " + script_end;
    End end = run(job, script_end, result);
    if (end == End::kInfra || (end == End::kDone && !base::exists(job.object))) return std::nullopt;
    result.ok = end == End::kDone;
    return result;
  }

  static std::string key_of(const WarmJob& job) {
    std::string text = job.nvcc;
    for (const auto& flag : job.flags) text += "\n" + flag;
    return text;
  }

 private:
  enum class End { kDone, kError, kInfra };

  End run(const WarmJob& job, const std::string& script, WarmResult& result) {
    sandbox::Policy policy = options_->policy;
    policy.writable = {job.out_dir};
    append(policy.readable, {job.source_dir, cached_});
    base::SubprocessOptions o;
    o.argv = {"/bin/sh", "-c", script};
    o.cwd = job.out_dir;
    o.env = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "TMPDIR=/tmp", "LANG=C", "LC_ALL=C"};
    o.merge_stderr = true;
    auto outcome = sandbox::run_sandboxed(options_->launcher, policy, o);
    if (!outcome) return End::kInfra;
    result.log += outcome->process.out;
    result.sandbox = outcome->features;
    if (outcome->process.exit.ok() && outcome->limit.empty()) return End::kDone;
    // A message about the cached prefixes is about us.
    bool own_words = result.log.find(cached_) == std::string::npos && outcome->limit.empty() && !outcome->process.exit.signal && result.log.find("error") != std::string::npos;
    return own_words ? End::kError : End::kInfra;
  }

  // Without a sandbox: these read the project's own headers only.
  Status shell(std::vector<std::string> argv) {
    base::SubprocessOptions o;
    o.argv = std::move(argv);
    o.env = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "TMPDIR=/tmp", "LANG=C", "LC_ALL=C"};
    o.merge_stderr = true;
    o.timeout_s = kStartSeconds;
    MC_ASSIGN_OR_RETURN(auto done, base::run(o));
    if (!done.exit.ok()) return fail(Code::kInternal, "{}: {}", fs::path(o.argv[0]).filename().string(), done.out.substr(0, 500));
    return {};
  }

  // host.ii, device.ii: the preprocessed headers; host.macros, device.macros: what they define.
  Status make_macros(const std::string& prefix) {
    MC_RETURN_IF_ERROR(base::write_file(cached_ + "/prefix.cu", prefix));
    for (bool host : {true, false}) {
      std::string base = cached_ + (host ? "/host" : "/device");
      std::vector<std::string> command = host ? commands_.host_cpp : commands_.device_cpp;
      command = without(std::move(command), "-I" + template_src_);
      command = replaced(std::move(command), template_src_ + "/" + kName + ".cu", cached_ + "/prefix.cu");
      set_after(command, "-o", base + ".ii");
      MC_RETURN_IF_ERROR(shell(command));
      std::string text = base::read_file(base + ".ii").value_or("");
      if (text.empty()) return fail(Code::kInternal, "no preprocessed headers in {}", base);
      set_after(command, "-o", base + ".all");
      command.insert(command.begin() + 1, "-dM");
      MC_RETURN_IF_ERROR(shell(command));
      // The compiler defines its own macros again.
      std::vector<std::string> bare = {command[0], "-dM", "-E", "-x", "c++", "/dev/null", "-o", base + ".own"};
      for (const auto& word : command)
        if (word.starts_with("-std=") || word.starts_with("-O") || word == "-fPIC" || word == "-m64" || word.starts_with("-f") || word.starts_with("-m")) bare.push_back(word);
      MC_RETURN_IF_ERROR(shell(bare));
      std::string own = base::read_file(base + ".own").value_or(""), all = base::read_file(base + ".all").value_or(""), macros;
      std::unordered_set<std::string_view> known;
      auto each_line = [](std::string_view lines, auto&& use) {
        for (std::size_t from = 0; from < lines.size();) {
          std::size_t to = std::min(lines.find('\n', from), lines.size());
          use(lines.substr(from, to - from));
          from = to + 1;
        }
      };
      each_line(own, [&](std::string_view line) { known.insert(line); });
      each_line(all, [&](std::string_view line) {
        if (!known.contains(line)) macros.append(line).push_back('\n');
      });
      MC_RETURN_IF_ERROR(base::write_file_atomic(base + ".macros", macros));
    }
    return {};
  }

  // host_prefix.h: what cudafe++ writes for the headers, the same for every source; precompiled for g++.
  Status make_host_header() {
    std::string outputs[2];
    const char* const sources[2] = {"static int musacoder_first;\n", "namespace musacoder_second { struct A { int b; }; }\n"};
    for (int i = 0; i < 2; ++i) {
      std::string dir = fmt::format("{}/prefix{}", host_root_, i);
      MC_RETURN_IF_ERROR(base::make_dirs(dir));
      MC_RETURN_IF_ERROR(base::write_file(dir + "/source.ii", sources[i]));
      MC_RETURN_IF_ERROR(base::write_file(dir + "/" + kName + ".module_id", "_00000000_7_cuda_cu_00000000"));
      int status = host_->compile(dir);
      if (status != 0) return fail(Code::kInternal, "cudafe++ failed behind the headers (status {}): {}", status, base::read_file(dir + "/log").value_or("").substr(0, 500));
      MC_ASSIGN_OR_RETURN(outputs[i], base::read_file(dir + "/" + kName + ".cudafe1.cpp"));
      (void)base::remove_tree(dir);
    }
    auto [end, other] = std::mismatch(outputs[0].begin(), outputs[0].end(), outputs[1].begin(), outputs[1].end());
    std::string prefix(outputs[0].begin(), end);
    prefix.erase(prefix.rfind('\n') + 1);
    if (prefix.size() < 1000) return fail(Code::kInternal, "cudafe++'s outputs have no common beginning");
    // A line directive or pragma at the end belongs to what follows.
    while (!prefix.empty()) {
      std::size_t start = prefix.rfind('\n', prefix.size() - 2) + 1;
      if (prefix[start] != '#' && prefix[start] != '\n') break;
      prefix.erase(start);
    }
    MC_RETURN_IF_ERROR(base::write_file_atomic(cached_ + "/host_prefix.h", prefix));
    std::vector<std::string> gxx = without(replaced(commands_.gxx, template_out_ + "/" + kName + ".cudafe1.cpp", cached_ + "/host_prefix.h"), "-c");
    gxx = without(std::move(gxx), "-I" + template_src_);
    for (std::size_t i = 0; i + 1 < gxx.size(); ++i)
      if (gxx[i] == "-x") gxx[i + 1] = "c++-header";
    std::string made = fmt::format("{}/host_prefix.{}", cached_, key_part(root_.path()));
    set_after(gxx, "-o", made);
    MC_RETURN_IF_ERROR(shell(gxx));
    std::error_code error;
    fs::rename(made, cached_ + "/host_prefix.h.gch", error);
    if (error) return fail(Code::kInternal, "{}", error.message());
    return base::write_file_atomic(cached_ + "/done", "");
  }
  static std::string key_part(const std::string& path) { return base::sha256_hex(path).substr(0, 12); }

  const WarmCompilers::Options* options_ = nullptr;
  base::TempDir root_;
  std::string template_src_, template_out_, host_root_, device_root_, cached_, host_prefix_;
  DryRun commands_;
  std::atomic<unsigned long> jobs_{0};
  std::unique_ptr<Server> host_, device_;     // after root_: end before their folder goes
};

}  // namespace

std::string warm_prefix(const std::string& text) {
  static const char* const kImplicit = "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n";
  static const char* const kExtension = "#include <torch/extension.h>\n";
  std::string prefix;
  std::size_t at = 0;
  if (text.starts_with(kImplicit)) {
    prefix = kImplicit;
    at = prefix.size();
  }
  // Comments, blank lines, #line and #include: the first word of another kind ends the source's own leading block.
  while (at < text.size()) {
    std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line(text.data() + at, end - at);
    std::size_t first = line.find_first_not_of(" \t\r");
    if (first != std::string_view::npos) {
      std::string_view body = line.substr(first);
      if (body.starts_with("/*")) {
        std::size_t close = text.find("*/", at);
        if (close == std::string::npos) break;
        at = close + 2;
        continue;
      }
      if (body.starts_with("#include")) {
        std::string_view name = body.substr(8);
        name.remove_prefix(std::min(name.find_first_not_of(" \t"), name.size()));
        if (name.starts_with("<torch/extension.h>") || name.starts_with("\"torch/extension.h\"")) return prefix + kExtension;
      } else if (!body.starts_with("//") && !body.starts_with("#line") && !body.starts_with("#pragma once")) {
        break;
      }
    }
    at = end + 1;
  }
  return prefix;
}

struct WarmCompilers::Impl {
  Options options;
  std::mutex mutex;
  std::condition_variable changed;
  struct Entry {
    int wanted = 0, failures = 0;
    bool starting = false;
    double last_used = 0;
    std::shared_ptr<Kind> kind;
  };
  std::map<std::string, Entry> entries;
  std::vector<std::thread> starters;
  bool ending = false;

  std::string key(const WarmJob& job, const std::string& prefix) const {
    base::Sha256 hash;
    for (const auto& part : {std::to_string(kVersion), options.fingerprint, Kind::key_of(job), prefix}) hash.field(part);
    return hash.hex().substr(0, 32);
  }

  // Under the lock.
  void start(const std::string& key, const WarmJob& job, const std::string& prefix) {
    Entry& entry = entries[key];
    entry.starting = true;
    starters.emplace_back([this, key, job, prefix] {
      auto made = Kind::make(options, job, prefix, key);
      std::shared_ptr<Kind> evicted;
      std::lock_guard lock(mutex);
      Entry& mine = entries[key];
      mine.starting = false;
      if (!made) {
        ++mine.failures;
        base::log_info("no warm compiler: {}", made.error().message);
      } else {
        mine.kind = std::move(*made);
        mine.last_used = base::real_clock().now();
        Entry* oldest = nullptr;
        std::size_t count = 0;
        for (auto& [name, other] : entries)
          if (other.kind) {
            ++count;
            if (&other != &mine && (!oldest || other.last_used < oldest->last_used)) oldest = &other;
          }
        if (count > options.limit && oldest) {
          evicted = std::move(oldest->kind);
          oldest->kind.reset();
          oldest->wanted = 0;
        }
      }
      changed.notify_all();
    });
  }
};

WarmCompilers::WarmCompilers(Options options) : impl_(std::make_unique<Impl>()) { impl_->options = std::move(options); }

WarmCompilers::~WarmCompilers() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->ending = true;
  }
  for (auto& thread : impl_->starters) thread.join();
}

std::optional<WarmResult> WarmCompilers::compile(const WarmJob& job) {
  if (impl_->options.after <= 0) return std::nullopt;
  std::string prefix = warm_prefix(job.text);
  if (prefix.empty()) return std::nullopt;
  std::string key = impl_->key(job, prefix);
  std::shared_ptr<Kind> kind;
  {
    std::lock_guard lock(impl_->mutex);
    auto& entry = impl_->entries[key];
    if (entry.kind && !entry.kind->alive()) {
      entry.kind.reset();
      ++entry.failures;
    }
    if (!entry.kind) {
      if (++entry.wanted >= impl_->options.after && !entry.starting && entry.failures < 3 && !impl_->ending) impl_->start(key, job, prefix);
      return std::nullopt;
    }
    entry.last_used = base::real_clock().now();
    kind = entry.kind;
  }
  return kind->compile(job);
}

bool WarmCompilers::wait_until_warm(const WarmJob& job, double seconds) {
  std::string prefix = warm_prefix(job.text);
  if (prefix.empty()) return false;
  std::string key = impl_->key(job, prefix);
  std::unique_lock lock(impl_->mutex);
  auto& entry = impl_->entries[key];
  if (!entry.kind && !entry.starting) impl_->start(key, job, prefix);
  impl_->changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return !impl_->entries[key].starting; });
  return impl_->entries[key].kind != nullptr;
}

}  // namespace musacoder::build
