// A language model that answers conversations, wherever it runs.
//
//   MC_ASSIGN_OR_RETURN(std::unique_ptr<ChatModel> model, make_endpoint({.url = "http://127.0.0.1:8812",
//   .model = "smollm2"})); MC_ASSIGN_OR_RETURN(Reply reply, model->ask({.messages = {{"user", prompt}},
//   .sampling = {.seed = 7}})); use(reply.answers[0].text);
//
// Implementations: any OpenAI-compatible endpoint (chat/endpoint.h) and a checkpoint on disk, served by a
// child process (chat/native.h). In tests, a ChatModel of one's own is the twin.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace musacoder::chat {

struct Message {
  std::string role, content;  // system, user or assistant
};

struct Sampling {
  int n = 1;  // answers
  double temperature = 0.8, top_p = 0.95;
  int max_tokens = 4096;   // of each answer
  std::uint64_t seed = 0;  // an endpoint may ignore it
  bool logprobs = false;
};

struct Request {
  std::vector<Message> messages;
  Sampling sampling{};
  base::Deadline deadline = base::Deadline::never();  // retries and waiting included
  std::function<bool()> cancelled{};                  // asked often; true ends it with kDeadlineExceeded
};

struct Answer {
  std::string text;
  std::string reasoning;         // where the endpoint gives it apart
  std::string finish;            // "stop", "length", …
  std::vector<double> logprobs;  // of each token, where asked for and given
};

struct Usage {
  std::int64_t prompt_tokens = 0, completion_tokens = 0;
};

struct Reply {
  std::vector<Answer> answers;  // n of them
  Usage usage;                  // of all; zeros where the endpoint says nothing
  std::string model;            // as the endpoint calls it
  bool cached = false;
  double seconds = 0;  // of the exchange, without waiting for its turn
};

// Any number of threads at a time.
class ChatModel {
 public:
  virtual ~ChatModel() = default;
  // Errors: kInvalidArgument (the endpoint refuses the request; the message says why), kUnavailable (gone, or
  // refused too often), kDeadlineExceeded, kResourceExhausted (the conversation is too long).
  virtual Result<Reply> ask(const Request& request) = 0;
  // What people are told: the model's name and where it runs. No secret is in it.
  virtual std::string describe() const = 0;
};

}  // namespace musacoder::chat
