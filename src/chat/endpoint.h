// Any server with OpenAI's /v1/chat/completions: vLLM, SGLang, llama.cpp, `musacoder serve-model`, hosted
// ones.
//
//   MC_ASSIGN_OR_RETURN(auto model, make_endpoint({.url = "https://models.example/v1", .model = "coder", .key
//   = key,
//                                                  .per_minute = 60, .cache_folder = folder}));
//
// A request that failed for a reason that may pass (429, 408, 5xx, a broken connection) is sent again, later
// each time, and as late as Retry-After says; 429's pause holds for all threads. Where fewer than n answers
// come, the rest is asked for with other seeds. An endpoint that wants `max_completion_tokens`, or refuses a
// sampling field, gets the request in its form from then on. The key is sent in a header and stands in no
// message, file or cache key.
#pragma once

#include <memory>
#include <string>

#include "chat/chat_model.h"

namespace musacoder::chat {

struct EndpointConfig {
  std::string url;    // http(s)://HOST[:PORT][/PATH]; PATH /v1 where there is none
  std::string model;  // "": the only one that the endpoint lists
  std::string key;    // bearer; "": none
  std::string ca_file;
  double timeout_s = 600;  // one exchange
  int tries = 6;
  double first_wait_s = 1, longest_wait_s = 60;  // between tries, doubled each time, with jitter
  double per_minute = 0;                         // requests; 0: no limit
  int at_a_time = 0;                             // 0: no limit
  std::string cache_folder;                      // "": none
  std::string title;                             // for describe(); "": model and URL
  base::Clock* clock = &base::real_clock();
};

// Errors: kInvalidArgument (URL, key, model), those of the first exchange where the model is to be found.
Result<std::unique_ptr<ChatModel>> make_endpoint(const EndpointConfig& config);

// A request's JSON body; the same text for the same request, whatever the process.
std::string request_body(const std::string& model, const Request& request);
// Errors: kInvalidArgument for what is no chat completion.
Result<Reply> reply_from_body(const std::string& body);
// Seconds of a Retry-After header (a number, or a date after `unix_now`), at most `most`; 0 for none.
double retry_after(const std::string& header, double unix_now, double most);

}  // namespace musacoder::chat
