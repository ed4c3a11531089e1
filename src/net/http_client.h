// HTTP/1.1 as a client (Boost.Beast), optionally over TLS: the queue of a service, model endpoints, job APIs.
//
//   MC_ASSIGN_OR_RETURN(auto client, HttpClient::make({.url = "http://127.0.0.1:8811", .token = token}));
//   MC_ASSIGN_OR_RETURN(ClientReply reply, client->send({.path = "/v1/jobs", .body = text}));
//   if (reply.status == 429) wait(reply.header("retry-after"));
//   auto end = client->stream({.path = "/v1/jobs/j-1/events", .method = "GET"},
//                             [&](std::string_view data) { show(data); return true; });
//
// Connections are kept and reused; one that broke while it was idle is opened anew, once. A reply with any
// status is a reply; errors are kInvalidArgument (address, token, certificates), kUnavailable (cannot
// connect, connection lost: try again), kDeadlineExceeded, kResourceExhausted (the reply is larger than
// allowed). Tokens are sent in the Authorization header only and stand in no message. Thread safe: each
// request takes a connection of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace musacoder::net {

struct Url {
  bool tls = false;
  std::string host, port;
  std::string path;  // "" or "/v1": what every request's path is put behind; no slash at its end
};
// "http://HOST[:PORT][/PATH]", "https://[::1]:8443". Errors: kInvalidArgument; also for user names, queries
// and fragments.
Result<Url> parse_url(const std::string& text);

struct ClientConfig {
  std::string url;
  std::string token;      // bearer; "": none
  std::string ca_file;    // PEM; "": the system's
  double timeout_s = 30;  // one exchange
  double connect_s = 10;
  std::size_t max_reply_bytes = 64u << 20;
  std::string user_agent = "musacoder";
};

struct ClientRequest {
  std::string path;  // behind the URL's own path, with its query
  std::string body{};
  std::string method = "POST";
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers{};
  double timeout_s = 0;               // 0: the client's; of a stream: for each next piece
  std::function<bool()> cancelled{};  // asked ten times a second; true ends it with kDeadlineExceeded
};

struct ClientReply {
  int status = 0;
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  // The first value of a name in lower case, or "".
  std::string header(std::string_view name) const;
};

// Server-sent events from the pieces of a body: the texts of their data fields. Comments, ids and event names
// are dropped.
class EventParser {
 public:
  // Calls `event` for each one that is complete; false when `event` said false (the rest is not read).
  bool feed(std::string_view piece, const std::function<bool(std::string_view)>& event);

 private:
  std::string line_, data_;
  bool has_data_ = false, after_cr_ = false;
};

class HttpClient {
 public:
  static Result<std::unique_ptr<HttpClient>> make(const ClientConfig& config);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  Result<ClientReply> send(const ClientRequest& request);
  // For replies of 200 with text/event-stream, `event` gets each event's data as it comes, on this thread,
  // until the server ends or `event` returns false; the reply's body is then empty. Other replies are given
  // back whole, as by send().
  Result<ClientReply> stream(const ClientRequest& request,
                             const std::function<bool(std::string_view data)>& event);

 private:
  HttpClient();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The message of an error in a body of this project's services or of OpenAI's form, {"error": {"message":
// …}}, else the body's beginning; "" of an empty one.
std::string reply_message(const ClientReply& reply);

}  // namespace musacoder::net
