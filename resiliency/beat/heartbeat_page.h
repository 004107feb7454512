// Room resiliency/beat
// The heartbeat page: 4 KiB of shared memory for each rank, read by the worker and written by any program.
// heartbeat_page.h has the layout and both halves; longhaul_beat.h is the same as a C interface.
// beat_line.h is the heartbeat as lines of text over a socket; beat_folder.h the folder of the pages.
// It is a library of its own that knows base alone, so that foreign programs can link it.
//
// The heartbeat page: one 4 KiB mapped file per rank. One half is written by the rank (epoch, step, section, time of
// the last change, collectives enqueued and completed per communicator, where it waits now), the other by the worker
// (orders back). Every
// word is an atomic of its own; there is no lock and no sequence number, because each field makes sense alone and a
// reader that sees a step before its section errs by one observation of 100 ms. Names are written once, before their
// count grows.
//
// The alternative, a seqlock over the whole half, would give one consistent snapshot but let a rank that is stopped in
// the middle of a write hide its state: exactly the rank one wants to see.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

constexpr std::size_t beat_page_bytes = 4096;
constexpr int beat_sections_max = 32;
constexpr int beat_communicators_max = 16;
constexpr std::size_t beat_name_bytes = 32;

// The section of a page that its rank has not touched, and those in which a program of ours ends: well, or with an exit
// code ("failed 3").
inline constexpr const char* beat_start = "start";
inline constexpr const char* beat_finished = "finished";
inline constexpr const char* beat_failed = "failed ";

// The sections of a save: what the training stands still for, and the wait for a file system, in which `written_bytes`
// of the page is what moves.
inline constexpr const char* beat_checkpoint = "checkpoint";
inline constexpr const char* beat_checkpoint_write = "checkpoint_write";

// The section of a rank with a fault that is alive and waits for an order to restart in-process.
inline constexpr const char* beat_faulted = "faulted";

// Values of `waits_in` besides the index of a communicator.
constexpr int beat_waits_nowhere = -1;  // the rank computes, or does something else of its own
constexpr int beat_waits_unknown = -2;  // its program does not say; so until it first does

// On disk and in memory; do not reorder. Readers refuse another magic or version.
struct BeatPageLayout {
  static constexpr std::uint64_t magic_value = 0x313054414542484CULL;  // "LHBEAT01", little endian
  static constexpr std::uint32_t version_value = 2;                    // 2: waits_in, waits_for, polls, computed_ns

  // Collectives only, which all members start in the same order: counts of messages between two would not compare.
  struct Communicator {
    std::atomic<std::uint64_t> enqueued;
    std::atomic<std::uint64_t> completed;
    char name[beat_name_bytes];
  };

  // Written by the rank.
  std::atomic<std::uint64_t> magic;
  std::atomic<std::uint32_t> version;
  std::atomic<std::int32_t> rank;
  std::atomic<std::int64_t> pid;
  std::atomic<std::int64_t> epoch;
  std::atomic<std::int64_t> step;        // -1: none yet
  std::atomic<std::int64_t> changed_ns;  // CLOCK_MONOTONIC of this host at the last change of step, section or epoch
  std::atomic<std::int32_t> section;
  std::atomic<std::int32_t> sections;       // names in use
  std::atomic<std::int32_t> communicators;  // names in use
  std::atomic<std::int32_t> waits_in;       // index of a communicator, or one of the values above
  std::atomic<std::int64_t> orders_obeyed;  // the newest value of `orders` that the rank has acted upon
  std::atomic<std::int32_t> waits_for;      // the launch's rank whose message it waits for; -1: a collective
  std::atomic<std::uint32_t> polls;         // grows while the rank itself looks whether its wait is over
  std::atomic<std::int64_t> computed_ns;    // in steps that are done, without waiting for other ranks; grows
  std::atomic<std::int64_t> written_bytes;  // of saves, as far as the rank that waits for them has reported; grows
  std::int32_t reserved3[2];
  char section_names[beat_sections_max][beat_name_bytes];
  Communicator communicator[beat_communicators_max];
  char reserved1[2048 - 104 - beat_sections_max * beat_name_bytes - beat_communicators_max * 48];

  // Written by the worker, from byte 2048 on.
  std::atomic<std::int64_t> checkpoint_orders;    // grows by one per order
  std::atomic<std::int64_t> stop_after_step;      // -1: none
  std::atomic<std::int64_t> checkpoint_interval;  // steps; 0: as configured
  std::atomic<std::int64_t> orders;               // grows by one with each order of any kind, after its value is there
  std::atomic<std::uint64_t> learning_rate;       // bits of a double, the peak of the schedule; 0: as configured
  // In-process restart (docs/resiliency.md): leave everything, roll back, meet again in communicators of this epoch. 0,
  // or the rank's own: nothing to do.
  std::atomic<std::int64_t> restart_epoch;
  std::atomic<std::int64_t> restart_wait_ms;  // how long a rank with a fault waits for that order; 0: nobody gives any
  std::atomic<std::int64_t> end_by_ns;        // when the ranks are ended by force, CLOCK_MONOTONIC of this host; 0: not
                                              // known
  char reserved2[2048 - 64];
};
static_assert(sizeof(BeatPageLayout) == beat_page_bytes);
// The same on every processor: programs of another compiler or language read and write the page by these offsets.
static_assert(offsetof(BeatPageLayout, version) == 8 && offsetof(BeatPageLayout, pid) == 16 &&
              offsetof(BeatPageLayout, step) == 32 && offsetof(BeatPageLayout, section) == 48 &&
              offsetof(BeatPageLayout, orders_obeyed) == 64 && offsetof(BeatPageLayout, computed_ns) == 80 &&
              offsetof(BeatPageLayout, written_bytes) == 88);
static_assert(offsetof(BeatPageLayout, section_names) == 104 && offsetof(BeatPageLayout, communicator) == 1128 &&
              offsetof(BeatPageLayout, checkpoint_orders) == 2048 && offsetof(BeatPageLayout, end_by_ns) == 2104);
static_assert(sizeof(BeatPageLayout::Communicator) == 48 && offsetof(BeatPageLayout::Communicator, name) == 16);
static_assert(std::endian::native == std::endian::little);
static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<std::int32_t>::is_always_lock_free);

// Where the page of a rank lies: the lead makes the folder, the rank (or the lead before it) the page.
std::string beat_page_path(const std::string& launch_dir, int rank);

// Ranks that give a communicator the same name are its members. Where an axis has several groups the name is
// "dp@3": axis, and the lowest rank of the launch in the group.
struct BeatCommunicator {
  std::string name;
  std::uint64_t enqueued = 0, completed = 0;
};
// What a reader sees at one moment.
struct BeatSnapshot {
  int rank = 0;
  std::int64_t pid = 0, epoch = 0, step = -1, changed_ns = 0;
  std::string section;
  std::vector<BeatCommunicator> communicators;
  int waits_in = beat_waits_unknown;  // index into communicators, or one of the values above
  int waits_for = -1;
  std::uint32_t polls = 0;
  std::int64_t computed_ns = 0;
  std::int64_t written_bytes = 0;
};

// One mapping; writer and reader use the same class. Movable; unmapped at the end, the file stays.
class HeartbeatPage {
 public:
  // Creates the file (mode 0600) if it is not there and writes the header if it has none. `pid`: the rank, 0: this
  // process. invalid_input: what is there is a link, no regular file, another user's, or one that others could write.
  static Result<HeartbeatPage> create(const std::string& path, int rank, std::int64_t pid = 0);
  // Only what exists, is ours as create() makes it, and has the right magic and version: not_found, invalid_input,
  // corrupt.
  static Result<HeartbeatPage> open(const std::string& path);
  ~HeartbeatPage();
  HeartbeatPage(HeartbeatPage&& other) noexcept;
  HeartbeatPage& operator=(HeartbeatPage&& other) noexcept;
  HeartbeatPage(const HeartbeatPage&) = delete;
  HeartbeatPage& operator=(const HeartbeatPage&) = delete;

  // The rank's half.
  int section(const std::string& name);  // the id of a name, new or known; 0 when there is no room
  void enter(int section);
  void step(std::int64_t step);
  void epoch(std::int64_t epoch);
  // A step is done: so long it computed, without waiting for other ranks. Stragglers are found by it.
  void computed(std::int64_t nanoseconds);
  // So many bytes of saves are written by now, as the rank sees them that waits for their end.
  void wrote(std::int64_t bytes) { page_->written_bytes.store(bytes, std::memory_order_relaxed); }
  int communicator(const std::string& name);  // -1 when there is no room
  // It is made anew: its members count from 0 again.
  void restart_counters(int communicator);
  void enqueued(int communicator);
  void completed(int communicator);
  // The word that completed() adds to, for a device that writes it itself (engine/comm/nccl), and the page it lies in,
  // as the memory of this process; null where there was no room for the communicator.
  std::atomic<std::uint64_t>* completed_word(int communicator) const {
    return communicator < 0 ? nullptr : &page_->communicator[communicator].completed;
  }
  void* memory() const { return page_; }
  void progress() { touch(); }  // nothing of the above changed, and yet the rank is at work
  // Another process than this one, whose lines are passed on (beat_line.h). Signals and stacks are for this one.
  void process(std::int64_t pid) { page_->pid.store(pid, std::memory_order_relaxed); }
  // From now on the rank waits in this communicator (beat_waits_nowhere: no longer), for all members or, where
  // `peer` >= 0, for that rank of the launch.
  void waits(int communicator, int peer = -1);
  void polled();  // it is waiting and looked again
  // Orders, as the rank reads them.
  std::int64_t checkpoint_orders() const { return page_->checkpoint_orders.load(std::memory_order_relaxed); }
  std::int64_t stop_after_step() const { return page_->stop_after_step.load(std::memory_order_relaxed); }
  std::int64_t checkpoint_interval() const { return page_->checkpoint_interval.load(std::memory_order_relaxed); }
  double learning_rate() const;  // 0: none
  std::int64_t restart_epoch() const { return page_->restart_epoch.load(std::memory_order_acquire); }
  std::int64_t restart_wait_ms() const { return page_->restart_wait_ms.load(std::memory_order_acquire); }
  std::int64_t end_by_ns() const { return page_->end_by_ns.load(std::memory_order_relaxed); }
  // The word itself, for those who look at it again and again (CommOptions::newest_epoch). Lives as long as the page.
  const std::atomic<std::int64_t>& restart_word() const { return page_->restart_epoch; }
  // Read before the values; obeyed(that) afterwards shows the worker that they were acted upon.
  std::int64_t orders() const { return page_->orders.load(std::memory_order_acquire); }
  void obeyed(std::int64_t orders) { page_->orders_obeyed.store(orders, std::memory_order_release); }

  // The worker's half.
  BeatSnapshot snapshot() const;
  // Each returns the order's number: it is carried out once orders_obeyed() has reached it.
  std::int64_t order_checkpoint();
  std::int64_t order_stop_after(std::int64_t step);
  std::int64_t order_checkpoint_interval(std::int64_t steps);
  std::int64_t order_learning_rate(double peak);
  // The end of the job's wall time, or of the grace after a signal: the ranks save in time and stop, or do not begin a
  // save that would not fit. May be moved. By the monotonic clock of the host that the page is on: a wall clock may be
  // off by hours, and be set while a training runs.
  void must_end_by(std::int64_t end_ns) { page_->end_by_ns.store(end_ns, std::memory_order_relaxed); }
  // Ranks with a fault wait from now on for an order to restart in-process instead of ending. To be given to every rank
  // of the launch as its page appears.
  void offer_restart(std::int64_t wait_ms) { page_->restart_wait_ms.store(wait_ms, std::memory_order_release); }
  // To every rank of the launch, with one epoch that none of them has had. It is carried out when the rank's own epoch
  // (BeatSnapshot::epoch) has reached it.
  void order_restart(std::int64_t epoch) { page_->restart_epoch.store(epoch, std::memory_order_release); }
  std::int64_t orders_obeyed() const { return page_->orders_obeyed.load(std::memory_order_acquire); }

 private:
  explicit HeartbeatPage(BeatPageLayout* page) : page_(page) {}
  void touch();
  BeatPageLayout* page_ = nullptr;
};

}  // namespace longhaul
