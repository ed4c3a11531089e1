// musacoder-vgpud as a process: the judge's requests, hostile clients, and candidates compiled by nvcc as in production.
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "base/files.h"
#include "base/subprocess.h"
#include "vgpu/server/control.h"
#include "vgpu/server/protocol.h"

namespace musacoder::vgpu {
namespace {

using protocol::FrameHeader;
using protocol::Op;
using protocol::Reader;
using protocol::Writer;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kRuntime = std::string(MC_BINARY_DIR) + "/runtime";

std::unique_ptr<ControlClient> start(ServerOptions options = {.memory_bytes = 256 << 20, .max_seconds = 5}) {
  auto client = ControlClient::start(kRuntime + "/bin/musacoder-vgpud", options);
  if (!client) ADD_FAILURE() << client.error().message;
  return client ? std::move(*client) : nullptr;
}

std::span<const std::byte> bytes_of(const std::string& s) { return std::as_bytes(std::span(s.data(), s.size())); }

int open_descriptors() {
  int n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

struct Answer {
  bool alive = false;
  std::uint32_t status = 0;
  std::string head, payload;
};

Answer ask(int fd, Op op, const Writer& fields, const std::string& payload = {}) {
  Answer answer;
  FrameHeader header;
  if (!protocol::send_frame(fd, static_cast<std::uint16_t>(op), 0, fields.bytes(), payload.data(), payload.size()) ||
      !protocol::receive_header(fd, &header) || !protocol::receive_head(fd, header, &answer.head))
    return answer;
  answer.payload.resize(header.payload_bytes);
  answer.alive = protocol::receive_all(fd, answer.payload.data(), answer.payload.size());
  answer.status = header.status;
  return answer;
}

template <typename... Args>
Writer fields(Args... args) {
  Writer out;
  (out.u64(args), ...);
  return out;
}

TEST(Vgpud, ServesTheJudge) {
  const int before = open_descriptors();
  {
    auto gpu = start();
    ASSERT_TRUE(gpu);
    auto x = gpu->allocate(64, "input 0 float32[16]");
    ASSERT_TRUE(x) << x.error().message;
    const std::string text(64, 'q');
    ASSERT_TRUE(gpu->write(*x, bytes_of(text)));
    std::string back(64, '\0');
    ASSERT_TRUE(gpu->read(*x, std::as_writable_bytes(std::span(back.data(), back.size()))));
    EXPECT_EQ(back, text);
    auto info = gpu->find(*x + 63);
    ASSERT_TRUE(info);
    EXPECT_EQ(info->label, "input 0 float32[16]");
    EXPECT_EQ(info->address, *x);
    EXPECT_EQ(gpu->find(*x + 64).error().code, Code::kNotFound);
    EXPECT_FALSE(gpu->write(*x + 1, bytes_of(text)));
    EXPECT_FALSE(gpu->free(*x + 1));
    EXPECT_TRUE(gpu->free(*x));
    EXPECT_FALSE(gpu->find(*x));
    EXPECT_EQ(gpu->allocate(1ull << 50, "huge").error().code, Code::kResourceExhausted);
    ASSERT_TRUE(gpu->begin_window({.poison = 0x5c}));
    auto y = gpu->allocate(5, "poisoned");
    ASSERT_TRUE(gpu->read(*y, std::as_writable_bytes(std::span(back.data(), 5))));
    EXPECT_EQ(back.substr(0, 5), "\x5c\x5c\x5c\x5c\x5c");
    auto report = gpu->end_window();
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->launches.empty());
    auto fault = gpu->last_fault();
    ASSERT_TRUE(fault);
    EXPECT_FALSE(*fault);
    const pid_t pid = gpu->pid();
    gpu->kill();
    EXPECT_EQ(gpu->end_window().error().code, Code::kUnavailable);
    gpu.reset();
    EXPECT_NE(::kill(pid, 0), 0);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Vgpud, EndsWithItsJudge) {
  int pair[2][2];
  for (auto& p : pair) ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
  base::SubprocessOptions process;
  process.argv = {kRuntime + "/bin/musacoder-vgpud", "--control-fd", "3", "--client-fd", "4"};
  process.fds = {{pair[0][1], 3}, {pair[1][1], 4}};
  auto child = base::Child::start(process);
  ASSERT_TRUE(child) << child.error().message;
  ::close(pair[0][1]);
  ::close(pair[1][1]);
  EXPECT_TRUE(ask(pair[1][0], Op::kHello, {}).alive);
  ::close(pair[0][0]);
  auto exit = child->wait(base::Deadline::in(5));
  ASSERT_TRUE(exit) << exit.error().message;
  EXPECT_EQ(exit->code, 0);
  ::close(pair[1][0]);
}

TEST(Vgpud, LocksItselfDown) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need system calls that the filter refuses";
#endif
  auto gpu = start();
  ASSERT_TRUE(gpu);
  ASSERT_TRUE(gpu->last_fault());  // it serves, so it has started
  std::ifstream status("/proc/" + std::to_string(gpu->pid()) + "/status");
  const std::string text((std::istreambuf_iterator<char>(status)), {});
  EXPECT_THAT(text, HasSubstr("Seccomp:\t2"));
  EXPECT_THAT(text, HasSubstr("NoNewPrivs:\t1"));
}

TEST(Vgpud, RefusesBadArguments) {
  for (std::vector<std::string> extra : {std::vector<std::string>{"--gpu", "h9000"}, {"--threads", "x"}, {"--nonsense", "1"}, {}}) {
    base::SubprocessOptions process;
    process.argv = {kRuntime + "/bin/musacoder-vgpud"};
    if (!extra.empty() && extra[0] == "--gpu") process.argv.insert(process.argv.end(), {"--control-fd", "0", "--client-fd", "0"});
    process.argv.insert(process.argv.end(), extra.begin(), extra.end());
    auto result = base::run(process);
    ASSERT_TRUE(result);
    EXPECT_NE(result->exit.code, 0);
    EXPECT_THAT(result->err, HasSubstr("musacoder-vgpud"));
  }
}

TEST(Client, OwnsOnlyWhatItAllocated) {
  auto gpu = start();
  ASSERT_TRUE(gpu);
  base::Fd fd(gpu->take_client_fd());
  auto input = gpu->allocate(64, "input 0");
  Writer label = fields(*input);
  label.text("mine");
  EXPECT_NE(ask(fd.get(), Op::kLabel, label).status, 0u);
  EXPECT_NE(ask(fd.get(), Op::kFree, fields(*input)).status, 0u);
  EXPECT_EQ(gpu->find(*input)->label, "input 0");
  Answer made = ask(fd.get(), Op::kMalloc, fields(64ull));
  ASSERT_EQ(made.status, 0u);
  const std::uint64_t address = Reader(made.head).u64();
  EXPECT_GE(address, protocol::kDeviceBegin);
  EXPECT_LT(address, protocol::kDeviceEnd);
  Writer own = fields(address);
  own.text("relu result");
  EXPECT_EQ(ask(fd.get(), Op::kLabel, own).status, 0u);
  EXPECT_EQ(gpu->find(address)->label, "relu result");
  EXPECT_EQ(ask(fd.get(), Op::kFree, fields(address)).status, 0u);
  EXPECT_NE(ask(fd.get(), Op::kFree, fields(address)).status, 0u);
}

TEST(Client, LongCopiesCrossWhole) {
  auto gpu = start();
  base::Fd fd(gpu->take_client_fd());
  std::string data(5'000'001, '\0');
  std::mt19937 random(3);
  for (char& c : data) c = static_cast<char>(random());
  auto x = gpu->allocate(data.size(), "big");
  Writer to = fields(*x);
  to.u8(0);
  ASSERT_EQ(ask(fd.get(), Op::kWrite, to, data).status, 0u);
  Answer back = ask(fd.get(), Op::kRead, fields(*x, data.size()));
  EXPECT_EQ(back.payload, data);
  // One byte too far in either direction; the connection goes on.
  Writer past = fields(*x + 1);
  past.u8(0);
  EXPECT_NE(ask(fd.get(), Op::kWrite, past, data).status, 0u);
  EXPECT_NE(ask(fd.get(), Op::kRead, fields(*x, data.size() + 1)).status, 0u);
  EXPECT_NE(ask(fd.get(), Op::kRead, fields(*x, ~0ull)).status, 0u);
  EXPECT_NE(ask(fd.get(), Op::kCopy, fields(*x, *x + 8, data.size())).status, 0u);
  EXPECT_EQ(ask(fd.get(), Op::kSynchronize, {}).status, 0u);
}

TEST(Client, HostileValuesInGoodFramesAreErrors) {
  auto gpu = start();
  base::Fd fd(gpu->take_client_fd());
  std::mt19937_64 random(5);
  auto x = gpu->allocate(4096, "x");
  for (int round = 0; round < 3000; ++round) {
    auto word = [&]() -> std::uint64_t {
      switch (random() % 6) {
        case 0: return 0;
        case 1: return random() % 64;
        case 2: return *x + random() % 5000;
        case 3: return ~0ull - random() % 64;
        case 4: return 1ull << (random() % 64);
        default: return random();
      }
    };
    Writer f;
    const Op ops[] = {Op::kFree, Op::kRead, Op::kCopy, Op::kSet, Op::kCopyStrided, Op::kFillStrided, Op::kUnloadModule,
                      Op::kKernel, Op::kKernelShared, Op::kLaunch, Op::kSymbol, Op::kFind};
    const Op op = ops[random() % std::size(ops)];
    auto put_tensor = [&] {
      const int dims = static_cast<int>(random() % 17);
      f.u64(word());
      f.i32(static_cast<int>(random() % 31));
      f.i32(dims);
      for (int d = 0; d < 2 * dims; ++d) f.i64(static_cast<std::int64_t>(random() % 3 ? random() % 8 : word()));
    };
    switch (op) {
      case Op::kFree:
      case Op::kFind: f.u64(word()); break;
      case Op::kRead: f.u64(word()); f.u64(word() % 8192 ? word() % 8192 : word()); break;
      case Op::kCopy: f.u64(word()); f.u64(word()); f.u64(word()); break;
      case Op::kSet: f.u64(word()); f.u32(static_cast<std::uint32_t>(random())); f.u8(static_cast<std::uint8_t>(random() % 6)); f.u64(word()); break;
      case Op::kCopyStrided: put_tensor(); put_tensor(); break;
      case Op::kFillStrided: put_tensor(); f.i32(static_cast<int>(random() % 6) - 1); f.i64(0); f.f64(1); f.f64(0); break;
      case Op::kUnloadModule: f.u32(static_cast<std::uint32_t>(random())); break;
      case Op::kKernelShared: f.u32(static_cast<std::uint32_t>(random() % 4)); f.u64(word()); break;
      case Op::kKernel:
      case Op::kSymbol: f.u32(static_cast<std::uint32_t>(random() % 4)); f.text("x"); break;
      default:
        f.u32(static_cast<std::uint32_t>(random() % 4));
        for (int k = 0; k < 6; ++k) f.u32(static_cast<std::uint32_t>(word()));
        f.u64(word());
        f.u8(0);
        f.text("params");
    }
    Answer answer = ask(fd.get(), op, f);
    ASSERT_TRUE(answer.alive) << "op " << static_cast<int>(op);
  }
  EXPECT_TRUE(gpu->end_window());
}

TEST(Client, MalformedFramesEndTheClientAndNothingElse) {
  std::mt19937 random(7);
  struct Case {
    const char* what;
    std::string bytes;
  };
  auto frame = [](std::uint16_t op, std::uint32_t head_bytes, std::uint64_t payload_bytes, std::string rest, std::uint32_t magic = protocol::kMagic) {
    FrameHeader h;
    h.magic = magic;
    h.op = op;
    h.head_bytes = head_bytes;
    h.payload_bytes = payload_bytes;
    return std::string(reinterpret_cast<const char*>(&h), sizeof h) + rest;
  };
  std::string noise(4096, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  const Case cases[] = {
      {"noise", noise},
      {"wrong magic", frame(1, 0, 0, "", 0x12345678)},
      {"unknown operation", frame(77, 0, 0, "")},
      {"a control operation", frame(static_cast<std::uint16_t>(Op::kCtlEndWindow), 0, 0, "")},
      {"head over the limit", frame(2, 0xffffffff, 0, "")},
      {"impossible payload", frame(static_cast<std::uint16_t>(Op::kWrite), 9, ~0ull, std::string(9, '\0'))},
      {"payload where none belongs", frame(static_cast<std::uint16_t>(Op::kHello), 0, 8, "12345678")},
      {"fields missing", frame(static_cast<std::uint16_t>(Op::kMalloc), 4, 0, "1234")},
      {"fields left over", frame(static_cast<std::uint16_t>(Op::kMalloc), 9, 0, "123456789")},
      {"a text longer than the head", frame(static_cast<std::uint16_t>(Op::kReport), 4, 0, "\xff\xff\xff\x7f")},
      {"too many dimensions", frame(static_cast<std::uint16_t>(Op::kFillStrided), 16, 0, std::string(8, '\0') + std::string(8, '\x7f'))},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    auto gpu = start();
    ASSERT_TRUE(gpu);
    base::Fd fd(gpu->take_client_fd());
    ASSERT_TRUE(gpu->begin_window({}));
    ASSERT_TRUE(protocol::send_all(fd.get(), c.bytes.data(), c.bytes.size()));
    char byte;
    EXPECT_LE(::recv(fd.get(), &byte, 1, 0), 0);  // hung up
    auto report = gpu->end_window();
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_NE(report->protocol_error, "");
  }
}

TEST(Client, TruncatedFramesAreAnEndOfTheClient) {
  for (std::size_t cut : {std::size_t{1}, sizeof(FrameHeader) - 1, sizeof(FrameHeader) + 3}) {
    auto gpu = start();
    FrameHeader h;
    h.op = static_cast<std::uint16_t>(Op::kMalloc);
    h.head_bytes = 8;
    const std::string bytes = std::string(reinterpret_cast<const char*>(&h), sizeof h) + "12345678";
    {
      base::Fd fd(gpu->take_client_fd());
      ASSERT_TRUE(protocol::send_all(fd.get(), bytes.data(), cut));
    }
    EXPECT_TRUE(gpu->allocate(64, "still there"));
  }
}

TEST(Client, StallingInAPayloadDoesNotStallTheJudge) {
  auto gpu = start();
  base::Fd fd(gpu->take_client_fd());
  auto x = gpu->allocate(1 << 20, "x");
  Writer to = fields(*x);
  to.u8(0);
  FrameHeader h;
  h.op = static_cast<std::uint16_t>(Op::kWrite);
  h.head_bytes = static_cast<std::uint32_t>(to.bytes().size());
  h.payload_bytes = 1 << 20;
  ASSERT_TRUE(protocol::send_all(fd.get(), &h, sizeof h));
  ASSERT_TRUE(protocol::send_all(fd.get(), to.bytes().data(), to.bytes().size()));
  EXPECT_TRUE(gpu->begin_window({}));
  EXPECT_TRUE(gpu->end_window());
  EXPECT_TRUE(gpu->free(*x));                      // while the client is writing to it
  const std::string rest(1 << 20, 'z');
  ASSERT_TRUE(protocol::send_all(fd.get(), rest.data(), rest.size()));
  FrameHeader reply;
  ASSERT_TRUE(protocol::receive_header(fd.get(), &reply));
  EXPECT_NE(reply.status, 0u);
}

// ---- candidates

class Candidate : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    nvcc_ = base::find_program("nvcc", "/usr/local/cuda/bin:" + std::string(std::getenv("PATH") ? std::getenv("PATH") : ""));
    if (nvcc_.empty()) return;
    auto dir = base::TempDir::create("vgpud-test");
    ASSERT_TRUE(dir) << dir.error().message;
    dir_ = std::make_unique<base::TempDir>(std::move(*dir));
    for (const char* name : {"basic", "vendor"}) {
      base::SubprocessOptions build;
      build.argv = {nvcc_, "-arch=compute_90", "-code=compute_90", "--compress-mode=none", "-lineinfo", "-O3", "-std=c++17", "--shared",
                    "-cudart", "none", "-Xcompiler", "-fPIC", "-I" + std::string(MC_SOURCE_DIR) + "/runtime/include/vendor",
                    std::string(MC_SOURCE_DIR) + "/tests/server/kernels/" + name + ".cu", "-o", dir_->file(std::string(name) + ".so"),
                    "-L" + kRuntime + "/lib", "-lmusacoder_cudart", "-lcublas", "-Xlinker", "-rpath=" + kRuntime + "/lib"};
      auto built = base::run(build);
      ASSERT_TRUE(built) << built.error().message;
      ASSERT_TRUE(built->exit.ok()) << built->err;
    }
  }
  static void TearDownTestSuite() { dir_.reset(); }
  void SetUp() override {
    if (nvcc_.empty()) GTEST_SKIP() << "nvcc is not installed";
  }

  // Runs `entry` of a shared object in a forked child connected to fd (-1: not). Its result, or 1000 + signal.
  static pid_t spawn(const char* library, const char* entry, int fd, int out = -1) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    if (out >= 0) ::dup2(out, 1);
    void* so = ::dlopen(dir_->file(std::string(library) + ".so").c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!so) {
      std::fprintf(stderr, "%s\n", ::dlerror());
      ::_exit(250);
    }
    auto connect = reinterpret_cast<int (*)(int)>(::dlsym(so, "mcv_connect"));
    if (fd >= 0 && (!connect || connect(fd) != 0)) ::_exit(251);
    auto run = reinterpret_cast<int (*)()>(::dlsym(so, entry));
    const int line = run ? run() : 252;
    if (line > 255) std::fprintf(stderr, "%s failed at line %d\n", entry, line);
    ::_exit(line > 255 ? 249 : line);
  }
  static int result_of(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  static int run(ControlClient& gpu, const char* library, const char* entry) {
    base::Fd fd(gpu.take_client_fd());
    return result_of(spawn(library, entry, fd.get()));
  }

  static inline std::string nvcc_;
  static inline std::unique_ptr<base::TempDir> dir_;
};

TEST_F(Candidate, ComputesAndIsBooked) {
  auto gpu = start();
  ASSERT_TRUE(gpu->begin_window({}));
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  base::Fd fd(gpu->take_client_fd());
  ASSERT_EQ(result_of(spawn("basic", "run_basic", fd.get(), pipe[1])), 0);
  ::close(pipe[1]);
  char out[256] = {};
  EXPECT_GT(::read(pipe[0], out, sizeof out - 1), 0);
  ::close(pipe[0]);
  auto report = gpu->end_window();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(out, HasSubstr("block 0 says hello\n"));
  EXPECT_THAT(report->printf_output, HasSubstr("block 1 says hello\n"));
  ASSERT_EQ(report->launches.size(), 4u);
  EXPECT_THAT(report->launches[0].kernel, HasSubstr("saxpy<float>"));
  EXPECT_EQ(report->launches[0].module, "basic.so");
  EXPECT_EQ(report->launches[0].grid.x, 4u);
  EXPECT_EQ(report->launches[0].block.x, 256u);
  EXPECT_GT(report->launches[0].counters.flops, 0u);
  EXPECT_EQ(report->h2d_bytes, 4000u + 4000 + 16 + 2000 + 256);
  EXPECT_EQ(report->d2h_bytes, 4000u + 2000 + 4 + 256);
  EXPECT_EQ(report->memset_bytes, 2000u);
  EXPECT_FALSE(report->fault);
  EXPECT_EQ(report->unread_launch_error, "");
  EXPECT_EQ(report->protocol_error, "");
}

TEST_F(Candidate, SeesAnH200) {
  auto gpu = start();
  ASSERT_TRUE(gpu->begin_window({}));
  EXPECT_EQ(run(*gpu, "basic", "run_properties"), 0);
  auto report = gpu->end_window();
  ASSERT_TRUE(report);
  EXPECT_THAT(report->unsupported, ElementsAre("cuda:cudaGraphLaunch"));
}

TEST_F(Candidate, LaunchErrorsAreReturnedAndUnreadOnesTold) {
  auto gpu = start();
  ASSERT_TRUE(gpu->begin_window({}));
  EXPECT_EQ(run(*gpu, "basic", "run_launch_errors"), 0);
  auto report = gpu->end_window();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->unread_launch_error, "");
  EXPECT_FALSE(report->fault);
  gpu = start();
  ASSERT_TRUE(gpu->begin_window({}));
  EXPECT_EQ(run(*gpu, "basic", "run_unread_error"), 0);
  report = gpu->end_window();
  ASSERT_TRUE(report);
  EXPECT_THAT(report->unread_launch_error, HasSubstr("reverse"));
  EXPECT_THAT(report->unread_launch_error, HasSubstr("1024 threads"));
}

TEST_F(Candidate, FaultsStick) {
  auto gpu = start();
  ASSERT_TRUE(gpu->begin_window({}));
  EXPECT_EQ(run(*gpu, "basic", "run_out_of_bounds"), 0);
  auto report = gpu->end_window();
  ASSERT_TRUE(report);
  ASSERT_TRUE(report->fault);
  EXPECT_EQ(report->fault->kind, FaultKind::kOutOfBounds);
  EXPECT_THAT(report->fault->kernel, HasSubstr("past_the_end"));
  EXPECT_EQ(report->fault->thread[0], 100u);
  EXPECT_TRUE(report->fault->is_write);
  EXPECT_THAT(report->fault->file, HasSubstr("basic.cu"));
  EXPECT_GT(report->fault->line, 0u);
  auto fault = gpu->last_fault();
  ASSERT_TRUE(fault && *fault);
  EXPECT_EQ((*fault)->message, report->fault->message);
}

TEST_F(Candidate, EndlessKernelsEnd) {
  auto gpu = start({.memory_bytes = 64 << 20, .max_seconds = 0.5});
  EXPECT_EQ(run(*gpu, "basic", "run_forever"), 0);
  auto fault = gpu->last_fault();
  ASSERT_TRUE(fault && *fault);
  EXPECT_EQ((*fault)->kind, FaultKind::kTimeout);
  gpu = start({.memory_bytes = 64 << 20, .max_warp_instructions = 100000, .max_seconds = 60});
  EXPECT_EQ(run(*gpu, "basic", "run_forever"), 0);
}

TEST_F(Candidate, KilledInTheMiddleOfALaunchHarmsNobody) {
  auto gpu = start({.memory_bytes = 64 << 20, .max_seconds = 1});
  ASSERT_TRUE(gpu->begin_window({}));
  base::Fd fd(gpu->take_client_fd());
  const pid_t pid = spawn("basic", "run_forever", fd.get());
  fd.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ::kill(pid, SIGKILL);
  EXPECT_EQ(result_of(pid), 1000 + SIGKILL);
  auto report = gpu->end_window();  // waits for the launch's own limit
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_TRUE(report->fault);
  EXPECT_EQ(report->fault->kind, FaultKind::kTimeout);
  EXPECT_TRUE(gpu->allocate(16, "alive"));
}

TEST_F(Candidate, ServerDiesInTheMiddleOfALaunch) {
  auto gpu = start({.memory_bytes = 64 << 20, .max_seconds = 30});
  base::Fd fd(gpu->take_client_fd());
  const pid_t pid = spawn("basic", "run_forever", fd.get());
  fd.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  gpu->kill();
  EXPECT_NE(result_of(pid), 0);   // an error, no hang
}

TEST_F(Candidate, HostWorkIsVisible) {
  auto gpu = start();
  ASSERT_TRUE(gpu->begin_window({}));
  EXPECT_EQ(run(*gpu, "basic", "run_reads_back"), 0);
  auto report = gpu->end_window();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->h2d_bytes, 1024u + 128);
  EXPECT_EQ(report->d2h_bytes, 1024u);
  EXPECT_EQ(report->h2d_after_d2h_bytes, 128u);
}

TEST_F(Candidate, ThreadsShareTheConnection) {
  auto gpu = start();
  EXPECT_EQ(run(*gpu, "basic", "run_threads"), 0);
}

TEST_F(Candidate, ForkedChildrenHaveNoDevice) {
  auto gpu = start();
  ASSERT_TRUE(gpu->begin_window({}));
  EXPECT_EQ(run(*gpu, "basic", "run_fork"), 0);
  auto report = gpu->end_window();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->protocol_error, "");
}

TEST_F(Candidate, WithoutADeviceIsToldSo) { EXPECT_EQ(result_of(spawn("basic", "run_without_device", -1)), 0); }

TEST_F(Candidate, VendorCallsAreBookedMentionsAreNot) {
  auto gpu = start();
  ASSERT_TRUE(gpu->begin_window({}));
  EXPECT_EQ(run(*gpu, "vendor", "run_mentions"), 0);
  auto report = gpu->end_window();
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->vendor_calls.empty());
  gpu = start();
  ASSERT_TRUE(gpu->begin_window({}));
  EXPECT_EQ(run(*gpu, "vendor", "run_calls"), 0);
  report = gpu->end_window();
  ASSERT_TRUE(report);
  ASSERT_EQ(report->vendor_calls.size(), 2u);
  EXPECT_EQ(report->vendor_calls[0].function, "cublasSgemm_v2");
  EXPECT_EQ(report->vendor_calls[0].count, 2u);
  EXPECT_EQ(report->vendor_calls[1].library, "cudnn");
}

}  // namespace
}  // namespace musacoder::vgpu
