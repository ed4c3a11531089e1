// Finished work that a killed process does not lose: lines of JSON under a key, appended as they come.
//
//   MC_ASSIGN_OR_RETURN(Journal journal, Journal::open("out/graphs.jsonl"));
//   if (const std::string* text = journal.find(key)) …       // the value's JSON text
//   MC_RETURN_IF_ERROR(journal.put(key, value_json));
//
// A last line that was cut short is dropped. One process at a time (the file is locked); threads may share it.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"

namespace musacoder::synth {

class Journal {
 public:
  static Result<Journal> open(const std::string& path);
  Journal(Journal&&) noexcept;
  Journal& operator=(Journal&&) noexcept;
  ~Journal();
  // Null when there is none; valid until the journal goes.
  const std::string* find(const std::string& key) const;
  Status put(const std::string& key, const std::string& json_text);
  std::size_t size() const;

 private:
  struct Impl;
  explicit Journal(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace musacoder::synth
