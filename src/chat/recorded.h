// A model whose answers were given before: rows that `musacoder sample` or `evaluate` wrote. So answers can be
// sampled on one machine and judged on another.
//
//   MC_ASSIGN_OR_RETURN(std::unique_ptr<ChatModel> model, open_recorded("answers.jsonl"));
//   MC_ASSIGN_OR_RETURN(Reply reply, model->ask({.messages = asked, .sampling = {.seed = 7}}));
//
// An answer is found by the messages that it answers and its seed; other sampling parameters are not looked at.
#pragma once

#include <memory>
#include <string>

#include "chat/chat_model.h"

namespace musacoder::chat {

// JSONL with `messages`, `seed`, `candidate` and, where known, `model`, `finish`, `prompt_tokens`, `tokens`; of
// equal ones the first counts. Errors: kNotFound; kInvalidArgument where a line is no such row, or none is
// there. ask(): kInvalidArgument for what nobody answered.
Result<std::unique_ptr<ChatModel>> open_recorded(const std::string& path);

}  // namespace musacoder::chat
