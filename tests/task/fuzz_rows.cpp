// Task rows come from whoever made the data set: any bytes are a task set or an error, and what is a set can be asked.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "task/task.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using musacoder::task::Task;
  using musacoder::task::TaskSet;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto set = TaskSet::from_jsonl(text, "rows.jsonl");
  if (!set) {
    if (set.error().message.find("rows.jsonl") == std::string::npos) std::abort();   // no message without its place
    (void)TaskSet{}.find(text);
    return 0;
  }
  if (set->tasks().empty()) std::abort();
  for (const Task& task : set->tasks()) {
    if (task.id.empty() || task.name.empty() || task.code.empty() || task.level < 0) std::abort();
    if (set->find(task.id) == nullptr || set->find(task.source) == nullptr) std::abort();
    (void)set->find(task.name);
  }
  (void)set->find(text);
  return 0;
}
