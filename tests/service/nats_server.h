// A nats-server with JetStream of its own: a free port, a temporary store, killed at the end.
//
//   NatsServer server;
//   if (!server.start()) GTEST_SKIP() << server.why();
//   open_queue(server.url("prefix"), {});
//   server.kill(); server.start();           // the same port and store
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "base/files.h"
#include "base/subprocess.h"

namespace musacoder::service {

class NatsServer {
 public:
  ~NatsServer() { kill(); }

  // False with a reason where nats-server is not installed or did not come up. `jetstream`: keys of that
  // section.
  bool start(const std::string& jetstream = "") {
    const std::string program = base::find_program("nats-server", "/usr/sbin:/usr/bin:/usr/local/bin");
    if (program.empty()) {
      why_ = "nats-server is not installed (apt install nats-server)";
      return false;
    }
    if (port_ == 0) {
      auto store = base::TempDir::create("nats");
      if (!store) {
        why_ = store.error().message;
        return false;
      }
      store_ = std::move(*store);
      port_ = free_port();
    }
    (void)base::write_file(store_.file("nats.conf"),
                           fmt::format("listen: 127.0.0.1:{}\njetstream {{ store_dir: \"{}\"\n{}\n}}\n",
                                       port_, store_.file("js"), jetstream));
    auto child =
        base::Child::start({.argv = {program, "-c", store_.file("nats.conf"), "-l", store_.file("log")}});
    if (!child) {
      why_ = child.error().message;
      return false;
    }
    child_ = std::move(*child);
    for (int i = 0; i < 200; ++i) {
      if (listening()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    why_ = "nats-server did not come up: " + base::read_file(store_.file("log"), 1 << 20).value_or("no log");
    return false;
  }
  void kill() { child_ = {}; }  // SIGKILL

  std::string url(const std::string& prefix = "") const {
    return fmt::format("nats://127.0.0.1:{}{}{}", port_, prefix.empty() ? "" : "/", prefix);
  }
  const std::string& why() const { return why_; }

 private:
  static sockaddr_in address(int port) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(static_cast<std::uint16_t>(port));
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
  }
  static int free_port() {
    const base::Fd fd(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in a = address(0);
    socklen_t size = sizeof a;
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&a), size) != 0 ||
        getsockname(fd.get(), reinterpret_cast<sockaddr*>(&a), &size) != 0)
      return 0;
    return ntohs(a.sin_port);
  }
  bool listening() const {
    const base::Fd fd(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in a = address(port_);
    return connect(fd.get(), reinterpret_cast<sockaddr*>(&a), sizeof a) == 0;
  }

  base::TempDir store_;
  base::Child child_;
  int port_ = 0;
  std::string why_;
};

}  // namespace musacoder::service
