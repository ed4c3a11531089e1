#include "vgpu/server/control.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/files.h"
#include "base/subprocess.h"
#include "vgpu/server/protocol.h"
#include "vgpu/server/records.h"

namespace musacoder::vgpu {

using protocol::FrameHeader;
using protocol::Op;
using protocol::Reader;
using protocol::Writer;

struct ControlClient::Impl {
  base::Fd control, client;
  base::Child child;

  // Sends a request; on success `head` holds the reply's fields and its payload has been put into `into` (exactly
  // `into.size()` bytes) or `text` (any length).
  Status call(Op op, const Writer& fields, std::span<const std::byte> payload, std::string* head,
              std::span<std::byte> into = {}, std::string* text = nullptr);
  Status gone(const char* when) {
    std::string how = "it no longer answers";
    if (auto exit = child.wait(base::Deadline::in(0.2))) how = exit->describe();
    return fail(Code::kUnavailable, "the virtual GPU's server ended while {}: {}", when, how);
  }
};

Status ControlClient::Impl::call(Op op, const Writer& fields, std::span<const std::byte> payload, std::string* head,
                                 std::span<std::byte> into, std::string* text) {
  if (!control) return fail(Code::kUnavailable, "the virtual GPU's server was killed");
  if (!protocol::send_frame(control.get(), static_cast<std::uint16_t>(op), 0, fields.bytes(), payload.data(), payload.size()))
    return gone("a request was sent");
  FrameHeader reply;
  if (!protocol::receive_header(control.get(), &reply) || !protocol::receive_head(control.get(), reply, head))
    return gone("its answer was awaited");
  if (reply.status != 0) {
    Reader in(*head);
    return tl::unexpected(Error{static_cast<Code>(reply.status - 1), in.text()});
  }
  if (text) {
    text->resize(reply.payload_bytes);
    if (!protocol::receive_all(control.get(), text->data(), text->size())) return gone("its answer was read");
    return ok();
  }
  if (reply.payload_bytes != into.size()) {
    control.reset();  // the stream can no longer be followed
    return fail(Code::kInternal, "the server sent {} bytes where {} were asked", reply.payload_bytes, into.size());
  }
  if (!protocol::receive_all(control.get(), into.data(), into.size())) return gone("its answer was read");
  return ok();
}

ControlClient::ControlClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlClient::~ControlClient() {
  impl_->control.reset();
  impl_->child.stop();
}

Result<std::unique_ptr<ControlClient>> ControlClient::start(const std::string& server_path, const ServerOptions& options) {
  auto impl = std::make_unique<Impl>();
  base::Fd remote[2];
  base::Fd* local[2] = {&impl->control, &impl->client};
  for (int i = 0; i < 2; ++i) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
      return fail(Code::kResourceExhausted, "no socket pair for the virtual GPU: {}", std::strerror(errno));
    local[i]->reset(pair[0]);
    remote[i].reset(pair[1]);
    const int bytes = 1 << 20;  // fewer switches on long copies; the kernel may give less
    for (int fd : pair) ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  }
  base::SubprocessOptions process;
  process.argv = {server_path,
                  "--control-fd", "3",
                  "--client-fd", "4",
                  "--gpu", options.gpu,
                  "--threads", std::to_string(options.threads),
                  "--memory", std::to_string(options.memory_bytes),
                  "--max-warp-instructions", std::to_string(options.max_warp_instructions),
                  "--max-seconds", fmt::format("{}", options.max_seconds)};
  process.fds = {{remote[0].get(), 3}, {remote[1].get(), 4}};
  process.inherit_stderr = true;
  process.discard_output = true;
  MC_ASSIGN_OR_RETURN(impl->child, base::Child::start(process));
  return std::unique_ptr<ControlClient>(new ControlClient(std::move(impl)));
}

int ControlClient::take_client_fd() { return impl_->client.release(); }
pid_t ControlClient::pid() const { return impl_->child.pid(); }
void ControlClient::kill() { impl_->child.kill_group(); }

Result<DevicePtr> ControlClient::allocate(std::uint64_t bytes, std::string label) {
  Writer fields;
  fields.u64(bytes);
  fields.text(std::string_view(label).substr(0, protocol::kMaxTextBytes));
  std::string head;
  MC_RETURN_IF_ERROR(impl_->call(Op::kCtlAllocate, fields, {}, &head));
  Reader in(head);
  return in.u64();
}

Status ControlClient::free(DevicePtr address) {
  Writer fields;
  fields.u64(address);
  std::string head;
  return impl_->call(Op::kCtlFree, fields, {}, &head);
}

Status ControlClient::write(DevicePtr to, std::span<const std::byte> bytes) {
  Writer fields;
  fields.u64(to);
  std::string head;
  return impl_->call(Op::kCtlWrite, fields, bytes, &head);
}

Status ControlClient::read(DevicePtr from, std::span<std::byte> bytes) {
  Writer fields;
  fields.u64(from);
  fields.u64(bytes.size());
  std::string head;
  return impl_->call(Op::kCtlRead, fields, {}, &head, bytes);
}

Result<AllocationInfo> ControlClient::find(DevicePtr address) {
  Writer fields;
  fields.u64(address);
  std::string head;
  MC_RETURN_IF_ERROR(impl_->call(Op::kCtlFind, fields, {}, &head));
  Reader in(head);
  AllocationInfo info;
  info.address = in.u64();
  info.bytes = in.u64();
  info.label = in.text();
  info.kernel_written_bytes = in.u64();
  return info;
}

Result<WindowReport> ControlClient::begin_window(const WindowOptions& options) {
  Writer fields;
  fields.i32(options.trial);
  fields.u8(options.reverse_blocks);
  fields.u8(options.poison);
  std::string head, text;
  MC_RETURN_IF_ERROR(impl_->call(Op::kCtlBeginWindow, fields, {}, &head, {}, &text));
  return decode_report(text);
}

Result<WindowReport> ControlClient::end_window() {
  std::string head, text;
  MC_RETURN_IF_ERROR(impl_->call(Op::kCtlEndWindow, Writer(), {}, &head, {}, &text));
  return decode_report(text);
}

Result<WindowReport> ControlClient::outside() {
  std::string head, text;
  MC_RETURN_IF_ERROR(impl_->call(Op::kCtlOutside, Writer(), {}, &head, {}, &text));
  return decode_report(text);
}

Result<std::optional<Fault>> ControlClient::last_fault() {
  std::string head;
  MC_RETURN_IF_ERROR(impl_->call(Op::kCtlLastFault, Writer(), {}, &head));
  Reader in(head);
  if (!in.u8()) return std::optional<Fault>();
  return std::optional<Fault>(decode_fault(in));
}

}  // namespace musacoder::vgpu
