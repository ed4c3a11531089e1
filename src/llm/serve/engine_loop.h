// An engine with a thread of its own, which others hand requests to.
//
//   EngineLoop loop(std::move(engine));
//   auto ticket = loop.submit({request});            // any thread; returns at once
//   ticket->watch([] { wake_me(); });
//   for (const TicketEvent& e : ticket->take().events) …
//   ticket.reset();                                  // nobody wants it any more: it is cancelled before the
//   next step
//
// The thread waits while there is nothing to do. When the engine fails, every ticket ends with its error, and
// later ones too: alive() is false. Thread safety: all of it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "llm/generate/engine.h"

namespace musacoder::llm {

struct TicketEvent {
  std::size_t prompt = 0;  // of those submitted together
  TokenEvent event;
};

class Ticket {
 public:
  struct News {
    bool accepted = false;  // the engine has taken it
    bool ended = false;     // no more events come
    std::optional<Error> error;
    std::vector<TicketEvent> events;  // since the last take()
  };
  News take();
  News look();  // the same, without its events, which stay
  // `wake` is called, on the engine's thread, after something was added; once at once. `rarely`: between the first event and the end
  // it is not, for who wants the whole answer: with a hundred answers under way, waking somebody for each token costs more than the token.
  void watch(std::function<void()> wake, bool rarely = false);

 private:
  friend class EngineLoop;
  void tell(const std::function<void(News&)>& change);
  std::mutex mutex_;
  News news_;
  std::function<void()> wake_;
  bool rarely_ = false, begun_ = false;
};

class EngineLoop {
 public:
  explicit EngineLoop(std::unique_ptr<Engine> engine);
  ~EngineLoop();
  // Ends the thread; open tickets end with kUnavailable.
  void stop();

  // All of them or none. The ticket's error is one of Engine::add().
  std::shared_ptr<Ticket> submit(std::vector<GenerateRequest> requests);
  // Runs `work` between two steps; the ticket ends when it is done, with its error if it failed.
  std::shared_ptr<Ticket> between_steps(std::function<Status(Engine&)> work);

  struct Stats {
    Engine::Counts counts;
    std::size_t open = 0;      // tickets that have not ended, those waiting for room included
    std::int64_t version = 0;  // of the weights
  };
  Stats stats() const;
  bool alive() const;
  // Constant while the loop lives; they may be read from any thread.
  const Tokenizer* tokenizer() const { return engine_->tokenizer(); }
  const EngineLimits& limits() const { return limits_; }

 private:
  struct Command {
    std::weak_ptr<Ticket> ticket;
    std::vector<GenerateRequest> requests;
    std::function<Status(Engine&)> work;
  };
  struct Open {
    std::weak_ptr<Ticket> ticket;
    std::vector<std::uint64_t> ids;  // the engine's; 0: ended
    std::vector<int> running;        // samples of each that have not ended
  };
  void run();
  void execute(Command command);
  void drop_unwanted();
  void deliver(std::vector<TokenEvent> events);
  void fail_all(const Error& error);
  std::shared_ptr<Ticket> enqueue(Command command);

  std::unique_ptr<Engine> engine_;
  const EngineLimits limits_;
  std::vector<Open> open_;  // the thread's own
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Command> commands_;
  Stats stats_;
  std::optional<Error> dead_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace musacoder::llm
