#include "base/subprocess.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/json_lines.h"
#include <nlohmann/json.hpp>

namespace musacoder::base {
namespace {

SubprocessOptions shell(const std::string& script, double timeout_s = 10) {
  SubprocessOptions options;
  options.argv = {"/bin/sh", "-c", script};
  options.timeout_s = timeout_s;
  return options;
}

TEST(Subprocess, CapturesBothStreamsAndTheExitCode) {
  auto result = run(shell("echo out; echo err >&2; exit 3"));
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->out, "out\n");
  EXPECT_EQ(result->err, "err\n");
  EXPECT_EQ(result->exit.code, 3);
  EXPECT_FALSE(result->exit.ok());
}

TEST(Subprocess, NamesTheSignal) {
  auto result = run(shell("kill -SEGV $$"));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->exit.signal, SIGSEGV);
  EXPECT_EQ(result->exit.code, -1);
  EXPECT_NE(result->exit.describe().find("11"), std::string::npos);
}

TEST(Subprocess, KillsTheGroupAtTheDeadline) {
  Stopwatch watch;
  auto result = run(shell("sleep 30 & sleep 30", 0.3));
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->exit.timed_out);
  EXPECT_LT(watch.seconds(), 5);
}

TEST(Subprocess, BackgroundChildrenDoNotHoldItUp) {
  Stopwatch watch;
  auto result = run(shell("sleep 30 & echo done"));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->out, "done\n");
  EXPECT_LT(watch.seconds(), 5);
}

TEST(Subprocess, KeepsAtMostTheOutputLimit) {
  auto options = shell("head -c 5000000 /dev/zero; echo end >&2");
  options.output_limit = 1000;
  auto result = run(options);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->out.size(), 1000u);
  EXPECT_TRUE(result->truncated);
  EXPECT_EQ(result->err, "end\n");
}

TEST(Subprocess, FeedsStdinLargerThanAPipe) {
  auto options = shell("wc -c");
  options.stdin_text.assign(3 << 20, 'x');
  auto result = run(options);
  ASSERT_TRUE(result);
  EXPECT_EQ(std::stoul(result->out), options.stdin_text.size());
}

TEST(Subprocess, ChildThatIgnoresStdinIsNoError) {
  auto options = shell("exit 0");
  options.stdin_text.assign(3 << 20, 'x');
  auto result = run(options);
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->exit.ok());
}

TEST(Subprocess, EnvironmentIsExplicit) {
  ::setenv("MC_TEST_SECRET", "hidden", 1);
  auto options = shell("echo \"[$MC_TEST_SECRET][$GIVEN]\"");
  auto scrubbed = run(options);
  options.env = {"GIVEN=yes"};
  auto given = run(options);
  ASSERT_TRUE(scrubbed && given);
  EXPECT_EQ(scrubbed->out, "[][]\n");
  EXPECT_EQ(given->out, "[][yes]\n");
}

TEST(Subprocess, OnlyNamedDescriptorsReachTheChild) {
  int leaked = ::open("/dev/null", O_RDONLY);  // on purpose without O_CLOEXEC
  int given = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  auto options = shell("ls /proc/self/fd | sort -n | tr '\\n' ' '");
  options.fds = {{given, 7}};
  auto result = run(options);
  ::close(leaked);
  ::close(given);
  ASSERT_TRUE(result);
  // 3 is the folder that ls itself reads.
  EXPECT_EQ(result->out, "0 1 2 3 7 ");
}

TEST(Subprocess, SwappedDescriptorNumbersWork) {
  auto a = socket_pair();
  ASSERT_TRUE(a);
  auto options = shell("echo to-a >&4; echo to-b >&3");
  int x = ::open("/tmp", O_TMPFILE | O_RDWR, 0600), y = ::open("/tmp", O_TMPFILE | O_RDWR, 0600);
  ASSERT_GE(x, 0);
  options.fds = {{x, 4}, {y, 3}};
  ASSERT_TRUE(run(options));
  char text[16] = {};
  EXPECT_EQ(::pread(x, text, sizeof text, 0), 5);
  EXPECT_STREQ(text, "to-a\n");
  ::close(x);
  ::close(y);
}

TEST(Subprocess, MissingProgramIsAnErrorThatNamesIt) {
  SubprocessOptions options;
  options.argv = {"no-such-program-here"};
  auto result = run(options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kNotFound);
  EXPECT_NE(result.error().message.find("no-such-program-here"), std::string::npos);
}

TEST(Subprocess, MissingFolderIsAnError) {
  auto options = shell("true");
  options.cwd = "/no/such/folder";
  EXPECT_FALSE(run(options));
}

TEST(Subprocess, LongLivedChildAnswersOverItsSocket) {
  SubprocessOptions options;
  options.argv = {"/bin/sh", "-c", "read line <&5; echo \"$line\" >&5; sleep 30"};
  options.socket_at = 5;
  auto child = Child::start(options);
  ASSERT_TRUE(child) << child.error().message;
  JsonLines channel(child->take_socket());
  ASSERT_TRUE(channel.write({{"op", "hello"}}, Deadline::in(5)));
  auto reply = channel.read(Deadline::in(5));
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ((*reply)["op"], "hello");
  EXPECT_TRUE(child->running());
  auto waited = child->wait(Deadline::in(0.01));
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, Code::kDeadlineExceeded);
  EXPECT_EQ(child->stop().signal, SIGKILL);
  EXPECT_FALSE(child->running());
}

}  // namespace
}  // namespace musacoder::base
