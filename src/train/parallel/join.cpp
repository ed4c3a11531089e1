#include "train/parallel/join.h"

#include <dlfcn.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "train/parallel/backends.h"

namespace musacoder::train {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Result<int> number(const char* name, std::optional<int> otherwise, int least, int most) {
  const std::string text = variable(name);
  if (text.empty() && otherwise) return *otherwise;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < least ||
      value > most)
    return fail(Code::kInvalidArgument, "{}='{}' must be a whole number from {} to {}; torchrun sets it",
                name, text, least, most);
  return value;
}

class Joined : public Communicator {
 public:
  // `exact`: the backend reduces into parts itself (nccl); gloo sums everywhere.
  Joined(c10::intrusive_ptr<c10d::Store> store, c10::intrusive_ptr<c10d::Backend> backend, bool exact)
      : store_(std::move(store)), backend_(std::move(backend)), exact_(exact) {}
  int rank() const override { return backend_->getRank(); }
  int world() const override { return backend_->getSize(); }

  Pending reduce_scatter(const at::Tensor& part, const at::Tensor& whole) override {
    at::Tensor to = part, from = whole;
    if (exact_) return pending(backend_->_reduce_scatter_base(to, from));
    std::vector<at::Tensor> all = {whole};
    return Pending([part, whole, at = rank() * part.numel(), work = backend_->allreduce(all)] {
      finish(work);
      if (whole.narrow(0, at, part.numel()).const_data_ptr() != part.const_data_ptr())
        part.copy_(whole.narrow(0, at, part.numel()));
    });
  }
  Pending all_gather(const at::Tensor& whole, const at::Tensor& part) override {
    at::Tensor to = whole.view(at::kByte), from = part.view(at::kByte);
    if (!exact_ && from.is_alias_of(to)) from = from.clone();
    return pending(backend_->_allgather_base(to, from));
  }
  void sum(const at::Tensor& values) override {
    std::vector<at::Tensor> all = {values};
    finish(backend_->allreduce(all));
  }
  void broadcast(const at::Tensor& values, int from) override {
    std::vector<at::Tensor> all = {values};
    c10d::BroadcastOptions options;
    options.rootRank = from;
    finish(backend_->broadcast(all, options));
  }

 private:
  static void finish(const c10::intrusive_ptr<c10d::Work>& work) {
    try {
      work->wait();
    } catch (const std::exception& error) {
      throw std::runtime_error(std::string("another process of the run is gone or late: ") + error.what());
    }
  }
  static Pending pending(c10::intrusive_ptr<c10d::Work> work) {
    return Pending([work = std::move(work)] { finish(work); });
  }
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  bool exact_;
};

}  // namespace

Result<RunPlace> run_place() {
  RunPlace out;
  constexpr int kMost = 1 << 20;
  MC_ASSIGN_OR_RETURN(out.world, number("WORLD_SIZE", 1, 1, kMost));
  if (out.world == 1) return out;
  MC_ASSIGN_OR_RETURN(out.rank, number("RANK", std::nullopt, 0, out.world - 1));
  MC_ASSIGN_OR_RETURN(out.local_rank, number("LOCAL_RANK", 0, 0, kMost));
  MC_ASSIGN_OR_RETURN(out.local_world, number("LOCAL_WORLD_SIZE", 1, 1, kMost));
  out.address = variable("MASTER_ADDR");
  if (out.address.empty())
    return fail(Code::kInvalidArgument, "WORLD_SIZE is {} and MASTER_ADDR is missing: the host of rank 0",
                out.world);
  MC_ASSIGN_OR_RETURN(out.port, number("MASTER_PORT", std::nullopt, 1, 65535));
  out.agent_store = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  MC_ASSIGN_OR_RETURN(const int attempt, number("TORCHELASTIC_RESTART_COUNT", 0, 0, kMost));
  out.prefix = fmt::format("musacoder/{}", attempt);
  return out;
}

Result<c10::intrusive_ptr<c10d::Backend>> nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                       const BackendPlace& place) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path = (program.parent_path() / "runtime" / "lib" / "libmusacoder_nccl.so").string();
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library)
    return fail(Code::kUnsupported,
                "runs on several GPUs need nccl's backend, which this build lacks: {}", ::dlerror());
  const auto create = reinterpret_cast<NcclBackendFunction>(::dlsym(library, kNcclFunction));
  if (!create) return fail(Code::kInternal, "{} has no {}", path, kNcclFunction);
  return c10::intrusive_ptr<c10d::Backend>::reclaim(
      create(store.get(), place.rank, place.world, place.timeout.count()));
}

Result<std::unique_ptr<Communicator>> join_run(const RunPlace& place, const std::string& backend,
                                               at::Device device, double timeout_s) {
  if (place.world == 1) return alone();
  const bool nccl = backend == "nccl" || (backend == "auto" && device.is_cuda());
  if (nccl && !device.is_cuda())
    return fail(Code::kInvalidArgument, "parallel.backend = \"nccl\" needs run.device = \"cuda\"");
  const BackendPlace at{place.rank, place.world, place.address,
                        std::chrono::milliseconds(static_cast<std::int64_t>(timeout_s * 1000))};
  try {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(place.port);
    options.isServer = place.rank == 0 && !place.agent_store;
    options.numWorkers = static_cast<std::size_t>(place.world);
    options.waitWorkers = !place.agent_store;
    options.timeout = std::chrono::minutes(5);
    const auto store = c10::make_intrusive<c10d::PrefixStore>(
        place.prefix, c10::make_intrusive<c10d::TCPStore>(place.address, options));
    c10::intrusive_ptr<c10d::Backend> group;
    if (nccl) {
      MC_ASSIGN_OR_RETURN(group, nccl_backend(store, at));
    } else {
      group = gloo_backend(store, at);
    }
    return std::make_unique<Joined>(store, std::move(group), nccl);
  } catch (const std::exception& error) {
    return fail(Code::kUnavailable, "rank {} of {} found no others at {}:{}: {}", place.rank, place.world,
                place.address, place.port, error.what());
  }
}

}  // namespace musacoder::train
