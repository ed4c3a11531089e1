// Names of gloo that torch/csrc/distributed/c10d/ProcessGroupGloo.hpp mentions. The wheel has gloo inside
// libtorch_cpu and none of its headers; ours only pass pointers to these along, so declarations do. No function
// here has a body: nothing of gloo may come to stand in our program beside libtorch's own.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

namespace rendezvous {
class Store {
 public:
  virtual ~Store();
  virtual void set(const std::string& key, const std::vector<char>& value) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) = 0;
};
}  // namespace rendezvous

namespace transport {
class Device;
class UnboundBuffer {
 public:
  virtual ~UnboundBuffer();
};
}  // namespace transport

}  // namespace gloo
