// Hostile programs, each contained and named. What a machine's kernel does not offer is skipped with the reason.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/subprocess.h"
#include "sandbox/c_api.h"
#include "sandbox/enter.h"
#include "sandbox/launcher.h"

namespace musacoder::sandbox {
namespace {

const std::string kLauncher = MC_BINARY_DIR "/runtime/bin/musacoder-sandbox";

bool has(const std::vector<std::string>& features, const std::string& name) {
  return std::find(features.begin(), features.end(), name) != features.end();
}

Outcome shell(const std::string& script, Policy policy = {}) {
  if (policy.wall_s == 0) policy.wall_s = 20;
  base::SubprocessOptions o;
  o.argv = {"/bin/bash", "-c", script};
  auto outcome = run_sandboxed(kLauncher, policy, o);
  if (!outcome) {
    ADD_FAILURE() << outcome.error().message;
    return {};
  }
  return *outcome;
}

// Compiles a C program once and runs it inside.
class Program {
 public:
  explicit Program(const std::string& source) : dir_(std::move(*base::TempDir::create("sandbox-test"))) {
    base::SubprocessOptions o;
    o.argv = {"gcc", "-O1", "-w", "-x", "c", "-", "-o", dir_.file("p"), "-lpthread"};
    o.stdin_text = source;
    auto made = base::run(o);
    EXPECT_TRUE(made && made->exit.ok()) << (made ? made->err : made.error().message);
    ::chmod(dir_.path().c_str(), 0755);
  }
  Outcome run(Policy policy = {}) {
    policy.readable.push_back(dir_.path());
    if (policy.wall_s == 0) policy.wall_s = 20;
    base::SubprocessOptions o;
    o.argv = {dir_.file("p")};
    auto outcome = run_sandboxed(kLauncher, policy, o);
    EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().message);
    return outcome ? *outcome : Outcome{};
  }

 private:
  base::TempDir dir_;
};

class SandboxTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto report = probe();
    if (report) features = report->features;
    else why = report.error().message;
  }
  void need(const std::string& feature) {
    if (!has(features, feature)) GTEST_SKIP() << "this machine offers no " << feature << " " << why;
  }
  static inline std::vector<std::string> features;
  static inline std::string why;
};

TEST_F(SandboxTest, PolicyJsonRoundTripAndErrors) {
  Policy p;
  p.readable = {"/opt"};
  p.devices = {"/dev/nvidia0"};
  p.bound_addresses = false;
  p.inet_sockets = true;
  p.child_devices = true;
  p.wall_s = 1.5;
  p.memory_bytes = 1ull << 40;
  auto back = policy_from_json(to_json(p));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(to_json(*back), to_json(p));
  for (const char* bad : {"", "[]", R"({"readable":["relative"]})", R"({"memory":1})", R"({"wall_s":-1})", R"({"network":1})", R"({"processes":"x"})"})
    EXPECT_FALSE(policy_from_json(bad)) << bad;
}

TEST_F(SandboxTest, ExitStatusAndSignalsAreMirrored) {
  EXPECT_EQ(shell("echo hi; exit 7").process.exit.code, 7);
  EXPECT_EQ(shell("echo hi").process.out, "hi\n");
  EXPECT_EQ(shell("kill -SEGV $$").process.exit.signal, SIGSEGV);
  EXPECT_EQ(shell("kill -ABRT $$").process.exit.signal, SIGABRT);
}

TEST_F(SandboxTest, MissingProgramIsAnError) {
  base::SubprocessOptions o;
  o.argv = {"/no/such/program"};
  Policy policy;
  policy.wall_s = 5;
  auto outcome = run_sandboxed(kLauncher, policy, o);
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().message.find("/no/such/program"), std::string::npos);
  policy.writable = {"/no/such/folder"};
  o.argv = {"/bin/true"};
  EXPECT_FALSE(run_sandboxed(kLauncher, policy, o));
}

TEST_F(SandboxTest, WallLimitKillsTheWholeTree) {
  Policy policy;
  policy.wall_s = 0.5;
  auto outcome = shell("trap '' TERM INT; (setsid sleep 100 &) ; while :; do :; done", policy);
  EXPECT_EQ(outcome.limit, "wall");
  EXPECT_TRUE(outcome.process.exit.timed_out);
  EXPECT_LT(outcome.process.exit.wall_s, 5);
}

TEST_F(SandboxTest, CpuLimit) {
  Policy policy;
  policy.cpu_s = 1;
  auto outcome = shell("while :; do :; done", policy);
  EXPECT_EQ(outcome.limit, "cpu");
  EXPECT_EQ(outcome.process.exit.signal, SIGXCPU);
}

TEST_F(SandboxTest, ForkBombIsBounded) {
  Policy policy;
  policy.processes = 50;
  policy.wall_s = 3;
  Program bomb("#include <unistd.h>\nint main() { for (;;) fork(); }");
  auto outcome = bomb.run(policy);
  EXPECT_TRUE(outcome.limit == "wall" || outcome.limit == "processes") << outcome.limit;
  EXPECT_LT(outcome.process.exit.wall_s, 10);
}

TEST_F(SandboxTest, MemoryHogOfOneProcess) {
  Policy policy;
  policy.memory_bytes = 200u << 20;
  Program hog("#include <stdlib.h>\n#include <string.h>\nint main() { for (;;) { char* p = malloc(1 << 20); if (!p) return 9; memset(p, 1, 1 << 20); } }");
  auto outcome = hog.run(policy);
  EXPECT_TRUE(outcome.process.exit.code == 9 || outcome.oom);
  EXPECT_LT(outcome.process.exit.max_rss_bytes, 400u << 20);
}

TEST_F(SandboxTest, MemoryHogOfManyProcesses) {
  need("pid_ns");
  Policy policy;
  policy.memory_bytes = 200u << 20;
  policy.processes = 30;
  policy.wall_s = 15;
  Program hog("#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n#include <sys/wait.h>\n"
              "int main() { for (int i = 0; i < 20; ++i) if (!fork()) { char* p = malloc(100 << 20); if (p) memset(p, 1, 100 << 20); pause(); }"
              " while (wait(0) > 0); return 3; }");
  for (bool cgroups : {true, false}) {
    policy.cgroups = cgroups;
    auto outcome = hog.run(policy);
    EXPECT_TRUE(outcome.oom) << "cgroups " << cgroups << " limit " << outcome.limit << " code " << outcome.process.exit.code;
  }
}

TEST_F(SandboxTest, NetworkIsOutOfReach) {
  Program p("#include <sys/socket.h>\n#include <netinet/in.h>\n#include <arpa/inet.h>\n#include <errno.h>\n"
            "int main() { int s = socket(AF_INET, SOCK_STREAM, 0); if (s < 0) return errno;"
            " struct sockaddr_in a = {AF_INET, htons(53)}; inet_pton(AF_INET, \"1.1.1.1\", &a.sin_addr); return connect(s, (void*)&a, sizeof a) ? errno : 0; }");
  EXPECT_NE(p.run().process.exit.code, 0);
  EXPECT_NE(shell("exec 3<>/dev/tcp/127.0.0.1/22 && echo connected").process.out, "connected\n");
  need("net_ns");
  EXPECT_EQ(shell("cat /proc/net/dev | grep -c eth").process.out, "0\n");
  // Sockets that lead nowhere, where a program gives up without any.
  Policy policy;
  policy.inet_sockets = true;
  EXPECT_EQ(p.run(policy).process.exit.code, ENETUNREACH);
  policy.namespaces = false;
  EXPECT_EQ(p.run(policy).process.exit.code, EACCES) << "only in a namespace of its own";
}

TEST_F(SandboxTest, NamedPipesButNoDeviceNodes) {
  EXPECT_EQ(shell("mkfifo pipe; [ -p pipe ] && echo made").process.out, "made\n");  // compute-sanitizer's launcher needs them
  EXPECT_EQ(shell("mknod zero c 1 5; mknod disk b 8 0; ls").process.out, "");
}

TEST_F(SandboxTest, ProcessesThatAreStartedMayNameTheirThreads) {
  need("mount_ns");
  Policy policy;
  policy.devices = {"/dev/null"};
  const std::string name = "/bin/bash -c 'printf named > /proc/$$/task/$$/comm; cat /proc/$$/comm; true'; true";
  EXPECT_NE(shell(name, policy).process.out, "named\n");
  policy.child_devices = true;
  EXPECT_EQ(shell(name, policy).process.out, "named\n");
  // What belongs to the machine stays as it is, for root too.
  EXPECT_EQ(shell("echo 1 > /proc/sys/vm/swappiness && echo written; echo h > /proc/sysrq-trigger && echo written", policy).process.out, "");
}

TEST_F(SandboxTest, FilesOutsideAreInvisible) {
  auto dir = base::TempDir::create("outside");
  ASSERT_TRUE(dir);
  ::chmod(dir->path().c_str(), 0755);
  ASSERT_TRUE(base::write_file(dir->file("secret"), "secret"));
  std::string path = dir->file("secret");
  EXPECT_EQ(shell("cat " + path).process.out, "");
  EXPECT_EQ(shell("cat " MC_SOURCE_DIR "/CMakeLists.txt").process.out, "");
  EXPECT_EQ(shell("cat /etc/shadow /root/.bashrc /home/*/.bashrc").process.out, "");
  EXPECT_EQ(shell("cat /proc/*/environ | tr '\\0' '\\n' | grep -c MC_SECRET_MARKER=").process.out, "0\n");
  Policy policy;
  policy.readable = {dir->path()};
  EXPECT_EQ(shell("cat " + path + "; echo x > " + path, policy).process.out, "secret");
  EXPECT_EQ(base::read_file(path).value(), "secret");
  // The sandbox without namespaces says the same by Landlock alone.
  if (has(features, "landlock")) {
    Policy thin;
    thin.namespaces = false;
    EXPECT_EQ(shell("cd / ; cat " + path, thin).process.out, "");
    EXPECT_EQ(shell("cd /; echo x > /var/tmp/escaped; echo $?", thin).process.out, "1\n");
  }
}

TEST_F(SandboxTest, DevicesAreShownWhenNamed) {
  need("mount_ns");
  if (::access("/dev/kmsg", F_OK) != 0) GTEST_SKIP() << "no /dev/kmsg here to name";
  EXPECT_EQ(shell("test -c /dev/kmsg && echo yes").process.out, "");
  Policy policy;
  policy.devices = {"/dev/kmsg", "/dev/not-there"};
  EXPECT_EQ(shell("test -c /dev/kmsg && echo yes; ls /dev | grep -c not-there; echo x > /proc/self/task/$$/comm && echo named", policy).process.out,
            "yes\n0\nnamed\n");
  EXPECT_EQ(shell("echo 1 > /proc/self/oom_score_adj || echo refused", policy).process.out, has(features, "landlock") ? "refused\n" : "");
  policy.devices = {"/etc/passwd"};
  base::SubprocessOptions o;
  o.argv = {"/bin/true"};
  auto refused = run_sandboxed(kLauncher, policy, o);
  EXPECT_TRUE(!refused || !refused->process.exit.ok());
}

TEST_F(SandboxTest, AddressesAreUnboundWhereMemoryIsCountedOtherwise) {
  Policy policy;
  policy.memory_bytes = 256u << 20;
  const char* reserve = "python3 -c 'import mmap; m = mmap.mmap(-1, 1 << 33, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ); print(len(m))'";
  EXPECT_EQ(shell(reserve, policy).process.out, "");
  policy.bound_addresses = false;
  EXPECT_EQ(shell(reserve, policy).process.out, "8589934592\n");
}

TEST_F(SandboxTest, SystemFoldersAreReadOnly) {
  EXPECT_EQ(shell("touch /usr/x /etc/x /x /bin/x /dev/x /proc/x /sys/x 2>/dev/null; ls /usr/x /etc/x /x 2>/dev/null").process.out, "");
}

TEST_F(SandboxTest, TmpIsPrivateAndBounded) {
  need("private_tmp");
  Policy policy;
  policy.tmp_bytes = 8u << 20;
  auto outcome = shell("ls -A /tmp /dev/shm; head -c 20000000 /dev/zero > /tmp/big; stat -c %s /tmp/big; echo a > /dev/shm/small || echo full", policy);
  EXPECT_NE(outcome.process.out.find("full"), std::string::npos) << outcome.process.out;
  EXPECT_NE(outcome.process.err.find("No space left"), std::string::npos) << outcome.process.err;
}

TEST_F(SandboxTest, WritableFolderIsBounded) {
  auto dir = base::TempDir::create("writable");
  ASSERT_TRUE(dir);
  Policy policy;
  policy.writable = {dir->path()};
  policy.writable_bytes = 20u << 20;
  EXPECT_EQ(shell("pwd > a; cat a", policy).process.out, dir->path() + "\n");
  EXPECT_EQ(shell("i=0; while :; do head -c 1000000 /dev/zero > f$i; i=$((i+1)); sleep 0.001; done", policy).limit, "writable");
  auto other = base::TempDir::create("writable");
  policy.writable = {other->path()};
  policy.file_bytes = 1u << 20;
  EXPECT_EQ(shell("exec head -c 5000000 /dev/zero > f", policy).limit, "file");
}

TEST_F(SandboxTest, NoPrivilegesInside) {
  EXPECT_EQ(shell("grep -c '^Cap\\(Inh\\|Prm\\|Eff\\|Bnd\\|Amb\\):\t0000000000000000' /proc/self/status").process.out, "5\n");
  EXPECT_EQ(shell("grep NoNewPrivs /proc/self/status").process.out, "NoNewPrivs:\t1\n");
  Program p("#define _GNU_SOURCE\n#include <sched.h>\n#include <sys/mount.h>\n#include <sys/ptrace.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n"
            "int main() { int ok = 0; ok += unshare(CLONE_NEWUSER) == 0; ok += mount(\"none\", \"/tmp\", \"tmpfs\", 0, 0) == 0;"
            " ok += ptrace(PTRACE_TRACEME, 0, 0, 0) == 0; ok += syscall(SYS_bpf, 0, 0, 0) >= 0; ok += syscall(SYS_perf_event_open, 0, 0, 0, 0, 0) >= 0;"
            " ok += syscall(425, 4, 0) >= 0; ok += syscall(SYS_keyctl, 0, 0) >= 0; ok += setuid(0) == 0; ok += syscall(SYS_userfaultfd, 0) >= 0;"
            " ok += syscall(435, 0, 0) >= 0; ok += chmod(\"/tmp\", 04777) == 0; return ok; }");
  EXPECT_EQ(p.run().process.exit.code, 0);
  Program fatal("#include <sys/syscall.h>\n#include <unistd.h>\nint main() { syscall(SYS_reboot, 0, 0, 0, 0); return 0; }");
  EXPECT_EQ(fatal.run().process.exit.signal, SIGSYS);
}

TEST_F(SandboxTest, OthersAreOutOfReach) {
  need("pid_ns");
  EXPECT_EQ(shell("ls /proc | grep -c '^[0-9]*$'").process.out.size(), 2u);
  EXPECT_EQ(shell("kill -9 " + std::to_string(::getpid()) + " 2>/dev/null; echo $?").process.out, "1\n");
  // The namespace's init does not die by the hand of those inside.
  EXPECT_EQ(shell("kill -9 1; sleep 0.1; echo alive").process.out, "alive\n");
}

TEST_F(SandboxTest, KillingTheLauncherKillsEverything) {
  need("pid_ns");
  auto dir = base::TempDir::create("kill");
  ASSERT_TRUE(dir);
  Policy policy;
  policy.writable = {dir->path()};
  base::SubprocessOptions o;
  o.argv = {kLauncher, "--policy", to_json(policy), "--", "/bin/bash", "-c", "(setsid bash -c 'while :; do date +%N > beat; sleep 0.02; done' &); sleep 100"};
  auto child = base::Child::start(o);
  ASSERT_TRUE(child);
  for (int i = 0; i < 200 && !base::exists(dir->file("beat")); ++i) ::usleep(20000);
  ASSERT_TRUE(base::exists(dir->file("beat")));
  ::kill(child->pid(), SIGKILL);
  (void)child->wait(base::Deadline::in(5));
  ::usleep(200000);
  std::string before = base::read_file(dir->file("beat")).value_or("");
  ::usleep(200000);
  EXPECT_EQ(base::read_file(dir->file("beat")).value_or(""), before);
}

// A supervisor whose parent is gone does not wait for the wall limit. The launcher's parent is a shell that ends when work has begun.
TEST_F(SandboxTest, EndsWithItsParentWhereThatIsAskedFor) {
  auto dir = base::TempDir::create("parent");
  ASSERT_TRUE(dir);
  for (const bool with_parent : {true, false}) {
    Policy policy;
    policy.writable = {dir->path()};
    policy.with_parent = with_parent;
    policy.wall_s = 20;
    const std::string beat = dir->file(with_parent ? "with" : "without");
    base::SubprocessOptions o;
    o.argv = {"/bin/bash", "-c", "setsid \"$0\" --policy \"$1\" -- /bin/bash -c \"while :; do date +%N > $2; sleep 0.02; done\" > /dev/null 2>&1 & for i in {1..80}; do [ -s \"$2\" ] && exit; sleep 0.1; done",
              kLauncher, to_json(policy), beat};
    o.timeout_s = 10;
    ASSERT_TRUE(base::run(o));
    ASSERT_TRUE(base::exists(beat));
    ::usleep(1000000);
    const std::string before = base::read_file(beat).value_or("");
    ::usleep(500000);
    EXPECT_EQ(base::read_file(beat).value_or("") == before, with_parent);
  }
}

TEST_F(SandboxTest, AnUnprivilegedUserGetsTheSame) {
  if (::geteuid() != 0) GTEST_SKIP() << "this run is unprivileged already";
  std::string setpriv = base::find_program("setpriv");
  if (setpriv.empty()) GTEST_SKIP() << "no setpriv on this machine";
  if (std::string(MC_BINARY_DIR).starts_with("/root")) GTEST_SKIP() << "the build folder is not readable for others";
  base::SubprocessOptions o;
  o.argv = {setpriv, "--reuid", "65534", "--regid", "65534", "--clear-groups", kLauncher, "--policy", R"({"memory_bytes":300000000,"wall_s":10})", "--",
            "/bin/bash", "-c", "id -u; grep -c 'CapEff:\t0000000000000000' /proc/self/status; cat " MC_SOURCE_DIR "/CMakeLists.txt"};
  auto result = base::run(o);
  ASSERT_TRUE(result);
  if (result->exit.code == 125) GTEST_SKIP() << result->err;
  EXPECT_TRUE(result->out.ends_with("\n1\n")) << result->out << result->err;
}

TEST_F(SandboxTest, CInterfaceMirrorsTheChild) {
  void* lib = ::dlopen(MC_BINARY_DIR "/runtime/lib/libmusacoder_sandbox.so", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(lib, nullptr) << ::dlerror();
  auto enter = reinterpret_cast<decltype(&musacoder_sandbox_enter)>(::dlsym(lib, "musacoder_sandbox_enter"));
  ASSERT_NE(enter, nullptr);
  auto in_child = [&](auto&& body) {
    pid_t pid = ::fork();
    if (pid == 0) {
      char report[4096];
      if (enter(R"({"memory_bytes":1000000000,"processes":20})", report, sizeof report) != 0) {
        std::fprintf(stderr, "%s\n", report);
        ::_exit(100);
      }
      auto value = nlohmann::json::parse(report, nullptr, false);
      if (!value.is_object() || !value["features"].is_array()) ::_exit(101);
      body();
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    return status;
  };
  int status = in_child([] { ::_exit(42); });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42) << status;
  status = in_child([] { ::raise(SIGABRT); });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << status;
  status = in_child([] { ::_exit(::access(MC_SOURCE_DIR "/CMakeLists.txt", R_OK) == 0 && !::getenv("never") ? 1 : 2); });
  EXPECT_EQ(WEXITSTATUS(status), 2);
  char report[256];
  EXPECT_EQ(enter("{\"unknown\":1}", report, sizeof report), -1);
  EXPECT_NE(std::strstr(report, "unknown"), nullptr);
}

TEST_F(SandboxTest, LimitsHoldForAProcessThatLockedItselfIn) {
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  pid_t pid = ::fork();
  if (pid == 0) {
    ::close(fds[0]);
    Policy policy;
    policy.wall_s = 0.5;
    policy.result_fd = fds[1];
    Report report;
    if (!enter(policy, report)) ::_exit(100);
    for (;;) ::pause();
  }
  ::close(fds[1]);
  base::Stopwatch watch;
  std::string text;
  char chunk[4096];
  for (ssize_t n; (n = ::read(fds[0], chunk, sizeof chunk)) > 0;) text.append(chunk, static_cast<std::size_t>(n));
  ::close(fds[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_LT(watch.seconds(), 10);
  auto result = nlohmann::json::parse(text, nullptr, false);
  ASSERT_TRUE(result.is_object()) << text;
  EXPECT_EQ(result["limit"], "wall");
  EXPECT_FALSE(result["features"].empty());
}

TEST_F(SandboxTest, NoGroupsAreLeftBehind) {
  shell("true");
  base::SubprocessOptions o;
  o.argv = {"/bin/sh", "-c", "find /sys/fs/cgroup -maxdepth 6 -name 'musacoder-" + std::to_string(::getpid()) + "*' 2>/dev/null | wc -l"};
  auto result = base::run(o);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->out, "0\n");
}

}  // namespace
}  // namespace musacoder::sandbox
