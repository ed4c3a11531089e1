// The queue in NATS JetStream: workers and services of several machines on one nats-server.
//
//   MC_ASSIGN_OR_RETURN(auto queue, open_nats_queue("nats://queue:4222/musacoder", {}));
//
// Start the server with `nats-server -js -sd FOLDER` (Debian: apt install nats-server); its defaults are
// enough: what is larger than its max_payload travels in pieces.
//
// **Records.** Stream PREFIX_jobs keeps, of every job, the newest record (subject PREFIX.jobs.job.ID, one
// message a subject). Every process follows the stream and holds all records, without bodies, in memory:
// places, priorities, loads and filters are answered from there, and a process that starts reads the stream
// once. A change of a job is the rules of job.h applied to its record, stored on the condition that the
// subject's last message is still the one the rule saw; who loses that race looks again. So a job is leased
// once and ends once, whoever else is at work. Jobs submitted together are one message
// (PREFIX.jobs.batch.ID), and a submission is stored on the condition that nothing at all was stored since
// the last look: all or nothing, and an idempotency key stands for one job.
//
// **Bodies.** Stream PREFIX_bodies holds references, candidates and outcomes in pieces, below
// PREFIX.bodies.JOB, each written before the record that names it. An outcome has a name of its own each
// time: the one whose record was stored is the result, written once; the loser's is removed.
//
// **Dispatch.** Which job comes next is a matter of priority and of the lane's last task, so lanes choose
// from the records. The work-queue stream PREFIX_wake only rings a bell: one message for each job that begins
// to wait, given to one waiting lane (acknowledged explicitly, 5 s, at most three times), which then looks.
// It holds no truth: a ring that is lost costs a waiting lane a second. Acknowledgement, visibility,
// redelivery and dead letters are the leases of job.h, as in every queue: one set of rules, and a job cannot
// be in two states at two places.
//
// **Restarts.** Operations are repeated for 15 s while the server is away, then kUnavailable. One whose
// answer got lost is recognised by what it stored. nats-server writes at once but syncs to disk every two
// minutes (2.9 cannot be told otherwise): a killed server loses nothing, a power cut may lose the last
// writes. A queue that went back in time is read anew.
//
// **Versions.** Records of a newer program are skipped and never written; streams of a newer schema are
// refused (kUnsupported).
//
// Clocks of all machines must agree within a few seconds: leases end by the clock of whoever sweeps.
#pragma once

#include <memory>
#include <string>

#include "service/queue.h"

namespace musacoder::service {

Result<std::unique_ptr<JobQueue>> open_nats_queue(const std::string& url, const QueueConfig& config);

}  // namespace musacoder::service
