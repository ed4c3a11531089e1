// Replies on disk, by the request that they answer: a run that is repeated or taken up again asks nothing
// twice.
//
//   ReplyCache cache("/home/u/.cache/musacoder/chat");
//   const std::string key = ReplyCache::key(url, body);
//   if (auto reply = cache.find(key)) return *reply;
//   (void)cache.put(key, reply);
//
// One file a reply, replaced as a whole; folders may be shared by processes. A file that cannot be read is no
// entry. Thread safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "chat/chat_model.h"

namespace musacoder::chat {

class ReplyCache {
 public:
  explicit ReplyCache(std::string folder) : folder_(std::move(folder)) {}  // "": keeps nothing
  // Of everything that decides a reply: where it is asked, and the request's text (model, messages, sampling,
  // seed).
  static std::string key(std::string_view url, std::string_view body);
  std::optional<Reply> find(const std::string& key) const;
  Status put(const std::string& key, const Reply& reply) const;

 private:
  std::string path(const std::string& key) const;
  std::string folder_;
};

}  // namespace musacoder::chat
