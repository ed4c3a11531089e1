// What the project needs of NATS JetStream (libnats), behind a narrow header: streams, messages that are
// stored under a condition, reading by sequence and by subject, a signal that something new was stored.
//
//   MC_ASSIGN_OR_RETURN(NatsAddress address, parse_nats_url("nats://queue:4222/musacoder"));
//   MC_ASSIGN_OR_RETURN(auto link, NatsLink::open(address));
//   MC_RETURN_IF_ERROR(link->ensure({.name = address.prefix + "_jobs", .subject = address.prefix +
//   ".jobs.>"}, deadline)); MC_ASSIGN_OR_RETURN(auto put, link->put("musacoder.jobs.job.j-1", text,
//   {.subject_last = 0}, deadline)); if (put.conflict) ...                       // somebody else wrote there
//   first: nothing was stored
//
// Every call is repeated until its deadline while the server is away (restart, network), then kUnavailable. A
// put whose answer got lost is sent again and may then meet itself as a conflict: the caller looks at what is
// stored. Errors besides: kInvalidArgument (URL, credentials), kResourceExhausted (the server's store is
// full: nothing was stored). Thread safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace musacoder::service {

struct NatsAddress {
  std::string server;                // nats://[USER:PASSWORD@]HOST:PORT
  std::string shown;                 // the same without the password, for messages
  std::string prefix = "musacoder";  // of streams and subjects
};
// nats://[USER:PASSWORD@]HOST[:PORT][/PREFIX]; PREFIX: letters, digits, '-' and '_', at most 64.
Result<NatsAddress> parse_nats_url(const std::string& url);

class NatsLink {
 public:
  struct Stream {
    std::string name, subject;
    std::int64_t per_subject = 1;  // messages kept a subject, the newest; -1: all
    bool work_queue = false;       // a message goes when it was acknowledged
    double max_age_s = 0;          // 0: for ever
    std::int64_t max_messages = -1;
    std::int64_t max_bytes = -1;  // then the oldest go
  };
  // Of the stream and of the subject: the sequence that must be the last one there (0: none).
  struct Expect {
    std::optional<std::uint64_t> stream_last, subject_last;
  };
  struct Put {
    bool conflict = false;
    std::uint64_t sequence = 0;
  };
  struct Message {
    std::uint64_t sequence = 0;
    std::string subject, data;
  };
  struct State {
    std::uint64_t last_sequence = 0;
    std::int64_t created = 0;
    std::uint64_t messages = 0, bytes = 0;
  };

  // Waits up to `wait_s` for the server to be there.
  static Result<std::unique_ptr<NatsLink>> open(const NatsAddress& address, double wait_s = 10);
  ~NatsLink();

  // Creates the stream where it is missing. An existing one is taken as it is, when it serves the subject.
  Status ensure(const Stream& stream, const base::Deadline& deadline);
  Result<State> state(const std::string& stream, const base::Deadline& deadline);
  Result<Put> put(const std::string& subject, const std::string& data, const Expect& expect,
                  const base::Deadline& deadline);
  // The first message at `sequence` or later; null when there is none.
  Result<std::optional<Message>> next(const std::string& stream, std::uint64_t sequence,
                                      const base::Deadline& deadline);
  // The newest message of a subject; null when there is none.
  Result<std::optional<Message>> last(const std::string& stream, const std::string& subject,
                                      const base::Deadline& deadline);
  // Removes all messages of a subject, which may end in ">".
  Status purge(const std::string& stream, const std::string& subject, const base::Deadline& deadline);
  Status erase(const std::string& stream, std::uint64_t sequence, const base::Deadline& deadline);

  // Counts messages that were published below `subject` since follow(); never fewer than were stored unless
  // the connection broke meanwhile, and then `reconnects` moves.
  Status follow(const std::string& subject);
  std::uint64_t news() const { return news_.load(); }
  std::uint64_t reconnects() const { return reconnects_.load(); }

  // A work-queue stream as a bell: ring() lets one of those that wait anywhere go on.
  Status make_bell(const Stream& stream, const base::Deadline& deadline);
  void ring(const std::string& subject, std::size_t times);
  // True when it rang; the message is acknowledged. False when the time is over or the server is away.
  bool wait_for_bell(const Stream& stream, double seconds);

  // Bytes that one message may hold.
  std::size_t max_payload() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::atomic<std::uint64_t> news_{0}, reconnects_{0};
  NatsLink();
};

}  // namespace musacoder::service
