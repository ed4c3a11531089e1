// The rule of JobFilter for queues that hold their jobs in memory (SQLite has it as a query).
#pragma once

#include "service/queue.h"

namespace musacoder::service {

// Everything but `limit` and `before`, which need the queue's order.
inline bool matches(const Job& job, const JobFilter& filter) {
  return (filter.owner.empty() || job.spec.owner == filter.owner) &&
         (filter.task.empty() || job.spec.task_id == filter.task) &&
         (!filter.state || job.state == *filter.state) &&
         (filter.status.empty() || job.outcome.status == filter.status);
}

}  // namespace musacoder::service
