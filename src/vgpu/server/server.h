// musacoder-vgpud as an object: one virtual GPU behind a control socket (the judge) and a client socket (the candidate).
//
//   MC_ASSIGN_OR_RETURN(auto server, Server::create(options));
//   server->run(control_fd, client_fd);   // until the control peer is gone
//
// Two threads serve the sockets; a lock makes the device one caller's at a time, so that a control request waits for a
// running launch but for nothing the client does between its requests (payloads cross in pieces, outside the lock).
// A malformed client frame ends the client's connection and is told in the next window report.
#pragma once

#include <memory>

#include "base/status.h"
#include "vgpu/server/control.h"

namespace musacoder::vgpu {

class Server {
 public:
  static Result<std::unique_ptr<Server>> create(const ServerOptions& options);
  ~Server();
  // Owns neither descriptor. Returns when the control peer has closed; a launch may still be running in the other thread,
  // so the process must end by _exit then.
  void run(int control_fd, int client_fd);
  // One side alone, in the calling thread, until its peer closes (for tests).
  void serve_control(int fd);
  void serve_client(int fd);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  explicit Server(std::unique_ptr<Impl> impl);
};

}  // namespace musacoder::vgpu
