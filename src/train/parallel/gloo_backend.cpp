#define USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstdlib>

#include "train/parallel/backends.h"

namespace musacoder::train {

c10::intrusive_ptr<c10d::Backend> gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                               const BackendPlace& place) {
  using Group = c10d::ProcessGroupGloo;
  const auto options = Group::Options::create(place.timeout);
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  const bool local =
      place.address == "localhost" || place.address == "::1" || place.address.starts_with("127.");
  options->devices.push_back(interface && *interface ? Group::createDeviceForInterface(interface, false)
                             : local                 ? Group::createDeviceForHostname("127.0.0.1", false)
                                                     : Group::createDefaultDevice(false));
  return c10::make_intrusive<Group>(store, place.rank, place.world, options);
}

}  // namespace musacoder::train
