#include "candidate/ast_worker.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "base/files.h"
#include "sandbox/enter.h"
#include "support.h"

namespace musacoder::candidate {
namespace {

// In the parser's place: says what a source that had taken it over could reach. The source is a port of this machine.
constexpr const char* kIntruder = R"py(
import json, os, socket, sys
folder = os.path.dirname(os.path.abspath(__file__))
sock = socket.socket(fileno=int(sys.argv[2]))
def tried(what):
    try:
        what()
        return "yes"
    except OSError:
        return "no"
def leave_a_file():
    with open(folder + "/made", "w") as file:
        file.write("here")
for line in sock.makefile("r"):
    port = int(json.loads(line)["code"])
    found = {"secret": tried(lambda: open(folder + "/secret").read()),
             "parent": tried(lambda: os.kill(os.getppid(), 0)) if os.getppid() else "no",
             "network": tried(lambda: socket.create_connection(("127.0.0.1", port), 5))}
    tried(leave_a_file)
    sock.sendall(json.dumps({"ok": False, "error": {"line": 0, "message": json.dumps(found)}}).encode() + b"\n")
)py";

TEST(AstWorker, SeesNothingButPythonAndItsScript) {
  auto offered = sandbox::probe();
  if (!offered || std::find(offered->features.begin(), offered->features.end(), "mount_ns") == offered->features.end())
    GTEST_SKIP() << "no mount namespaces on this machine";
  auto folder = base::TempDir::create("ast-worker");
  ASSERT_TRUE(folder);
  ASSERT_TRUE(base::write_file(folder->file("intruder.py"), kIntruder));
  ASSERT_TRUE(base::write_file(folder->file("secret"), "expected outputs"));
  base::Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 4), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);

  const ExtractOptions options = test_options();
  AstWorker worker({.python = options.python, .script = folder->file("intruder.py"), .launcher = options.launcher});
  auto facts = worker.read(std::to_string(ntohs(address.sin_port)));
  ASSERT_TRUE(facts) << facts.error().message;
  for (const char* what : {"secret", "parent", "network"})
    EXPECT_NE(facts->syntax_message.find(std::string("\"") + what + "\": \"no\""), std::string::npos) << facts->syntax_message;
  EXPECT_FALSE(base::exists(folder->file("made")));
}

TEST(AstWorker, SaysWhenThereIsNoSandbox) {
  const ExtractOptions options = test_options();
  AstWorker worker({.python = options.python, .script = options.runtime_dir + "/python/ast_facts.py", .launcher = "/nonexistent/launcher"});
  EXPECT_FALSE(worker.read("pass"));
}

}  // namespace
}  // namespace musacoder::candidate
