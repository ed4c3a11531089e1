#include "llm/serve/engine_loop.h"

#include <algorithm>
#include <utility>

namespace musacoder::llm {

Ticket::News Ticket::take() {
  std::lock_guard lock(mutex_);
  News out{news_.accepted, news_.ended, news_.error, std::exchange(news_.events, {})};
  return out;
}

Ticket::News Ticket::look() {
  std::lock_guard lock(mutex_);
  return {news_.accepted, news_.ended, news_.error, {}};
}

void Ticket::watch(std::function<void()> wake, bool rarely) {
  std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
  rarely_ = rarely;
  if (wake_) wake_();
}

void Ticket::tell(const std::function<void(News&)>& change) {
  std::lock_guard lock(mutex_);
  change(news_);
  if (wake_ && (!rarely_ || !begun_ || news_.ended)) wake_();
  begun_ = begun_ || !news_.events.empty();
}

EngineLoop::EngineLoop(std::unique_ptr<Engine> engine)
    : engine_(std::move(engine)), limits_(engine_->limits()), thread_([this] { run(); }) {}

EngineLoop::~EngineLoop() { stop(); }

void EngineLoop::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<Ticket> EngineLoop::enqueue(Command command) {
  auto ticket = std::make_shared<Ticket>();
  command.ticket = ticket;
  std::lock_guard lock(mutex_);
  if (dead_ || stopping_) {
    ticket->news_.ended = true;
    ticket->news_.error = dead_.value_or(Error{Code::kUnavailable, "the server is stopping"});
    return ticket;
  }
  ++stats_.open;
  commands_.push_back(std::move(command));
  changed_.notify_all();
  return ticket;
}

std::shared_ptr<Ticket> EngineLoop::submit(std::vector<GenerateRequest> requests) {
  return enqueue({{}, std::move(requests), {}});
}

std::shared_ptr<Ticket> EngineLoop::between_steps(std::function<Status(Engine&)> work) {
  return enqueue({{}, {}, std::move(work)});
}

EngineLoop::Stats EngineLoop::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

bool EngineLoop::alive() const {
  std::lock_guard lock(mutex_);
  return !dead_;
}

void EngineLoop::execute(Command command) {
  const auto ticket = command.ticket.lock();
  if (!ticket) return;  // given up while it waited
  if (command.work) {
    const Status done = command.work(*engine_);
    ticket->tell([&](Ticket::News& news) {
      news.accepted = news.ended = true;
      if (!done) news.error = done.error();
    });
    return;
  }
  Open open{command.ticket, {}, {}};
  for (GenerateRequest& request : command.requests) {
    open.running.push_back(request.samples);
    const auto id = engine_->add(std::move(request));
    if (!id) {
      for (const std::uint64_t added : open.ids) engine_->cancel(added);
      ticket->tell([&](Ticket::News& news) {
        news.ended = true;
        news.error = id.error();
      });
      return;
    }
    open.ids.push_back(*id);
  }
  open_.push_back(std::move(open));
  ticket->tell([](Ticket::News& news) { news.accepted = true; });
}

void EngineLoop::drop_unwanted() {
  std::erase_if(open_, [&](const Open& one) {
    if (!one.ticket.expired()) return false;
    for (const std::uint64_t id : one.ids)
      if (id) engine_->cancel(id);
    return true;
  });
}

void EngineLoop::deliver(std::vector<TokenEvent> events) {
  for (Open& one : open_) {
    std::vector<TicketEvent> mine;
    for (std::size_t i = 0; i < one.ids.size(); ++i)
      for (TokenEvent& event : events)
        if (one.ids[i] && event.request == one.ids[i]) {
          if (event.finish != Finish::kNone && --one.running[i] == 0) one.ids[i] = 0;
          mine.push_back({i, std::move(event)});
        }
    if (mine.empty()) continue;
    const bool ended = std::all_of(one.ids.begin(), one.ids.end(), [](std::uint64_t id) { return id == 0; });
    if (const auto ticket = one.ticket.lock())
      ticket->tell([&](Ticket::News& news) {
        for (TicketEvent& event : mine) news.events.push_back(std::move(event));
        news.ended = ended;
      });
  }
  std::erase_if(open_, [](const Open& one) {
    return std::all_of(one.ids.begin(), one.ids.end(), [](std::uint64_t id) { return id == 0; });
  });
}

void EngineLoop::fail_all(const Error& error) {
  std::vector<Command> commands;
  {
    std::lock_guard lock(mutex_);
    dead_ = error;
    commands = std::exchange(commands_, {});
    stats_.open = 0;
  }
  const auto end = [&](const std::weak_ptr<Ticket>& weak) {
    if (const auto ticket = weak.lock())
      ticket->tell([&](Ticket::News& news) {
        news.ended = true;
        news.error = error;
      });
  };
  for (const Command& one : commands) end(one.ticket);
  for (const Open& one : open_) end(one.ticket);
  open_.clear();
}

void EngineLoop::run() {
  for (;;) {
    std::vector<Command> commands;
    {
      std::unique_lock lock(mutex_);
      stats_.counts = engine_->counts();
      stats_.version = engine_->version();
      stats_.open = open_.size() + commands_.size();
      changed_.wait(lock, [&] { return stopping_ || !commands_.empty() || !open_.empty(); });
      if (stopping_) break;
      commands = std::exchange(commands_, {});
    }
    for (Command& one : commands) execute(std::move(one));
    drop_unwanted();
    if (engine_->idle()) continue;
    auto events = engine_->step();
    if (!events) return fail_all(events.error());
    deliver(std::move(*events));
  }
  fail_all({Code::kUnavailable, "the server is stopping"});
}

}  // namespace musacoder::llm
