#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/json_lines.h"
#include "base/paths.h"
#include "base/starvation.h"
#include "base/terminal.h"

namespace musacoder::base {
namespace {

// A child process, killed at the end of the scope.
struct Forked {
  pid_t pid;
  template <class F>
  explicit Forked(F work) : pid(::fork()) {
    if (pid == 0) {
      work();
      ::_exit(0);
    }
  }
  ~Forked() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
};

TEST(Starvation, IsWaitingForACoreAndNothingElse) {
  // Two that never sleep share one core; a third sleeps.
  auto spin = [] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    for (std::atomic<int> i = 0;;) i.fetch_add(1, std::memory_order_relaxed);
  };
  Forked first(spin), second(spin), idle([] { ::sleep(600); });
  real_clock().sleep(0.2);  // until the third sleeps
  Starvation starved({first.pid}), sleeping({idle.pid, -1});
  Stopwatch watch;
  real_clock().sleep(1.0);
  const double owed = starved.seconds(), span = watch.seconds();
  EXPECT_GT(owed, 0.25 * span);
  EXPECT_LT(owed, span);
  EXPECT_LT(sleeping.seconds(), 0.05 * span);
  EXPECT_EQ(Starvation({0x7ffffff0}).seconds(), 0) << "nobody has this id";
}

TEST(Starvation, TreeOfProcesses) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  Forked parent([&] {
    Forked child([] { ::sleep(600); });
    const pid_t pid = child.pid;
    if (::write(pipe[1], &pid, sizeof pid) < 0) ::_exit(1);
    ::sleep(600);
  });
  pid_t grandchild = 0;
  ASSERT_EQ(::read(pipe[0], &grandchild, sizeof grandchild), ssize_t(sizeof grandchild));
  const auto tree = process_tree(parent.pid);
  EXPECT_EQ(tree, (std::vector<pid_t>{parent.pid, grandchild}));
  ::kill(grandchild, SIGKILL);
  ::close(pipe[0]), ::close(pipe[1]);
}

TEST(Hash, Sha256KnownAnswers) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Hash, FieldsAreUnambiguous) {
  Sha256 a, b;
  a.field("ab"), a.field("c");
  b.field("a"), b.field("bc");
  EXPECT_NE(a.hex(), b.hex());
}

TEST(WriteFolder, IsWholeOrAbsentAndNeverOverWhatIsThereUnasked) {
  auto dir = TempDir::create("folder");
  ASSERT_TRUE(dir);
  const std::string out = dir->file("a/out");
  ASSERT_TRUE(make_dirs(dir->file("a")));
  ASSERT_TRUE(write_folder(out, {{"x", "1"}, {"deep/er/y", "2", 0755}}, false));
  EXPECT_EQ(read_file(out + "/x").value(), "1");
  EXPECT_EQ(read_file(out + "/deep/er/y").value(), "2");
  EXPECT_TRUE(is_executable(out + "/deep/er/y"));
  auto again = write_folder(out, {{"x", "3"}}, false);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kInvalidArgument);
  EXPECT_EQ(read_file(out + "/x").value(), "1");
  ASSERT_TRUE(write_folder(out, {{"x", "3"}}, true));
  EXPECT_EQ(read_file(out + "/x").value(), "3");
  EXPECT_TRUE(exists(out + "/deep/er/y"));
  // A name that is a file's and a folder's: nothing is left of a new folder.
  EXPECT_FALSE(write_folder(dir->file("a/broken"), {{"x", "1"}, {"x/y", "2"}}, false));
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(dir->file("a"))) left.push_back(entry.path().filename().string());
  EXPECT_EQ(left, std::vector<std::string>{"out"});
}

TEST(Hash, FileEqualsText) {
  auto dir = TempDir::create("hash");
  ASSERT_TRUE(dir);
  ASSERT_TRUE(write_file(dir->file("x"), "abc"));
  EXPECT_EQ(sha256_file(dir->file("x")).value(), sha256_hex("abc"));
  EXPECT_FALSE(sha256_file(dir->file("missing")));
}

TEST(Clock, DeadlineFollowsTheFakeClock) {
  FakeClock clock;
  Deadline deadline = Deadline::in(2, clock);
  EXPECT_FALSE(deadline.expired());
  EXPECT_EQ(deadline.poll_ms(), 2000);
  clock.advance(1.5);
  EXPECT_NEAR(deadline.remaining(), 0.5, 1e-9);
  clock.advance(1);
  EXPECT_TRUE(deadline.expired());
  EXPECT_EQ(deadline.poll_ms(), 0);
  EXPECT_EQ(Deadline::never().poll_ms(), -1);
  EXPECT_FALSE(Deadline::never().expired());
  EXPECT_NEAR(Deadline::in(10, clock).sooner(3).remaining(), 3, 1e-9);
  EXPECT_EQ(iso_time(0), "1970-01-01T00:00:00Z");
}

TEST(Files, ReadLimitsAndKinds) {
  auto dir = TempDir::create("files");
  ASSERT_TRUE(dir) << dir.error().message;
  ASSERT_TRUE(write_file_atomic(dir->file("a"), std::string(100, 'x')));
  EXPECT_EQ(read_file(dir->file("a")).value().size(), 100u);
  auto large = read_file(dir->file("a"), 99);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, Code::kInvalidArgument);
  EXPECT_EQ(read_file(dir->file("none")).error().code, Code::kNotFound);
  EXPECT_EQ(read_file(dir->path()).error().code, Code::kInvalidArgument);
  ASSERT_EQ(::mkfifo(dir->file("fifo").c_str(), 0600), 0);
  EXPECT_FALSE(read_file(dir->file("fifo")));  // and does not hang
}

TEST(Files, AtomicWriteLeavesNoTemporaryFile) {
  auto dir = TempDir::create("files");
  ASSERT_TRUE(dir);
  ASSERT_TRUE(write_file_atomic(dir->file("a"), "1"));
  ASSERT_TRUE(write_file_atomic(dir->file("a"), "2"));
  EXPECT_EQ(read_file(dir->file("a")).value(), "2");
  EXPECT_FALSE(write_file_atomic(dir->file("no/such/a"), "3"));
}

TEST(Files, TempDirRemovesReadOnlyContent) {
  std::string path;
  {
    auto dir = TempDir::create("files");
    ASSERT_TRUE(dir);
    path = dir->path();
    ASSERT_TRUE(make_dirs(path + "/deep/er"));
    ASSERT_TRUE(write_file(path + "/deep/er/file", "x", 0400));
    ::chmod((path + "/deep/er").c_str(), 0500);
  }
  EXPECT_FALSE(exists(path));
}

TEST(Files, TempDirSaysWhereItLooked) {
  auto dir = TempDir::create("huge", 1ull << 60);
  ASSERT_FALSE(dir);
  EXPECT_EQ(dir.error().code, Code::kResourceExhausted);
  EXPECT_NE(dir.error().message.find("/dev/shm"), std::string::npos);
}

struct Pair {
  JsonLines channel;
  Fd peer;
};

Pair make_pair(std::size_t limit = 4u << 20) {
  auto pair = socket_pair();
  return {JsonLines(std::move(pair->first), limit), std::move(pair->second)};
}

TEST(JsonLines, SplitsAndJoinsLines) {
  auto [channel, peer] = make_pair();
  ASSERT_TRUE(write_all(peer.get(), "{\"a\":1}\n{\"a\""));
  EXPECT_EQ((*channel.read(Deadline::in(1)))["a"], 1);
  EXPECT_FALSE(channel.has_line());
  auto late = channel.read(Deadline::in(0.02));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kDeadlineExceeded);
  ASSERT_TRUE(write_all(peer.get(), ":2}\n"));
  EXPECT_EQ((*channel.read(Deadline::in(1)))["a"], 2);
  peer.reset();
  EXPECT_EQ(channel.read(Deadline::in(1)).error().code, Code::kUnavailable);
}

TEST(JsonLines, HostileLinesAreErrors) {
  auto [channel, peer] = make_pair(1000);
  ASSERT_TRUE(write_all(peer.get(), "nonsense\n" + std::string(100, '[') + "\n\xff\xfe\n" + std::string(5000, 'x')));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(channel.read(Deadline::in(1)).error().code, Code::kInvalidArgument);
  EXPECT_EQ(channel.read(Deadline::in(1)).error().code, Code::kResourceExhausted);
}

TEST(JsonLines, WriteToAFullPeerMeetsTheDeadline) {
  auto [channel, peer] = make_pair(64u << 20);
  auto status = channel.write_line(std::string(32u << 20, 'x'), Deadline::in(0.05));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kDeadlineExceeded);
  peer.reset();
  EXPECT_EQ(channel.write_line("x", Deadline::in(1)).error().code, Code::kUnavailable);
}

TEST(JsonLines, DescriptorsTravel) {
  auto [channel, peer] = make_pair();
  int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_TRUE(channel.write({{"op", "spawn"}}, Deadline::in(1), {null, null}));
  ::close(null);
  char text[64];
  iovec part{text, sizeof text};
  alignas(cmsghdr) char control[256];
  msghdr message{};
  message.msg_iov = &part, message.msg_iovlen = 1;
  message.msg_control = control, message.msg_controllen = sizeof control;
  ASSERT_GT(::recvmsg(peer.get(), &message, MSG_CMSG_CLOEXEC), 0);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  ASSERT_NE(header, nullptr);
  EXPECT_EQ(header->cmsg_len, CMSG_LEN(2 * sizeof(int)));
  int fds[2];
  std::memcpy(fds, CMSG_DATA(header), sizeof fds);
  for (int fd : fds) EXPECT_EQ(::close(fd), 0);
}

TEST(Terminal, WidthAndCutting) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("\x1b[31mabc\x1b[0m"), 3);
  EXPECT_EQ(display_width("日本"), 4);
  EXPECT_EQ(ellipsize("abcdef", 4), "abc…");
  EXPECT_EQ(ellipsize("abc", 4), "abc");
}

TEST(Terminal, HostileTextIsMadeVisible) {
  EXPECT_EQ(printable("a\x1b[2Jb\n"), "a\\x1b[2Jb\n");
  EXPECT_EQ(printable("a\nb", false), "a\\x0ab");
  EXPECT_EQ(printable("\xff"), "\xEF\xBF\xBD");
  EXPECT_EQ(printable("é\xE2\x80\xAE"), "é\\x202e");
}

TEST(Terminal, TableAlignsAndEscapes) {
  Table table({"task", "s"}, {Align::kLeft, Align::kRight});
  table.add({"relu", "1.0"});
  table.add({"a|b"});
  EXPECT_EQ(table.text(), "task    s\n────  ───\nrelu  1.0\na|b\n");
  EXPECT_EQ(table.markdown(), "| task | s |\n|---|---:|\n| relu | 1.0 |\n| a\\|b |  |\n");
}

TEST(Terminal, ProgressInAPipeIsPlainAndRare) {
  std::FILE* file = std::tmpfile();
  FakeClock clock;
  ProgressLine progress(file, clock);
  progress.update("1/3");
  progress.update("2/3");
  clock.advance(11);
  progress.update("3/3");
  progress.finish("done");
  std::rewind(file);
  char text[100] = {};
  std::size_t n = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  EXPECT_EQ(std::string(text, n), "1/3\n3/3\ndone\n");
}

TEST(Terminal, HumanNumbers) {
  EXPECT_EQ(human_seconds(0.0204), "20 ms");
  EXPECT_EQ(human_seconds(3.25), "3.2 s");
  EXPECT_EQ(human_seconds(125), "2 min 05 s");
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(12u << 20), "12.0 MiB");
}

TEST(Paths, EnvironmentWins) {
  auto dir = TempDir::create("paths");
  ASSERT_TRUE(dir);
  ASSERT_TRUE(make_dirs(dir->file("rt/python")));
  ::setenv("MUSACODER_RUNTIME", dir->file("rt").c_str(), 1);
  EXPECT_EQ(find_runtime_dir().value(), dir->file("rt"));
  ::setenv("MUSACODER_RUNTIME", "/no/such/folder", 1);
  auto missing = find_runtime_dir();
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("/no/such/folder"), std::string::npos);
  ::unsetenv("MUSACODER_RUNTIME");
  ::setenv("MUSACODER_CACHE", "/x", 1);
  EXPECT_EQ(cache_dir(), "/x");
  ::unsetenv("MUSACODER_CACHE");
  ASSERT_TRUE(make_dirs(dir->file("env/lib/python3.11/site-packages")));
  EXPECT_EQ(site_packages(dir->file("env/bin/python")), dir->file("env/lib/python3.11/site-packages"));
}

}  // namespace
}  // namespace musacoder::base
