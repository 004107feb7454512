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
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

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

// Values of `waits_in` besides the index of a communicator.
constexpr int beat_waits_nowhere = -1;  // the rank computes, or does something else of its own
constexpr int beat_waits_unknown = -2;  // its program does not say; so until it first does

// On disk and in memory; do not reorder. Readers refuse another magic or version.
struct BeatPageLayout {
  static constexpr std::uint64_t magic_value = 0x313054414542484CULL;  // "LHBEAT01", little endian
  static constexpr std::uint32_t version_value = 2;                    // 2: waits_in, waits_for, polls

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
  std::int32_t reserved3[6];
  char section_names[beat_sections_max][beat_name_bytes];
  Communicator communicator[beat_communicators_max];
  char reserved1[2048 - 104 - beat_sections_max * beat_name_bytes - beat_communicators_max * 48];

  // Written by the worker, from byte 2048 on.
  std::atomic<std::int64_t> checkpoint_orders;    // grows by one per order
  std::atomic<std::int64_t> stop_after_step;      // -1: none
  std::atomic<std::int64_t> checkpoint_interval;  // steps; 0: as configured
  std::atomic<std::int64_t> orders;               // grows by one with each order of any kind, after its value is there
  std::atomic<std::uint64_t> learning_rate;       // bits of a double, the peak of the schedule; 0: as configured
  char reserved2[2048 - 40];
};
static_assert(sizeof(BeatPageLayout) == beat_page_bytes);
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
};

// One mapping; writer and reader use the same class. Movable; unmapped at the end, the file stays.
class HeartbeatPage {
 public:
  // Creates the file if it is not there and writes the header if it has none.
  static Result<HeartbeatPage> create(const std::string& path, int rank);
  // Only what exists and has the right magic and version: not_found, corrupt.
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
  int communicator(const std::string& name);  // -1 when there is no room
  void enqueued(int communicator);
  void completed(int communicator);
  // From now on the rank waits in this communicator (beat_waits_nowhere: no longer), for all members or, where
  // `peer` >= 0, for that rank of the launch.
  void waits(int communicator, int peer = -1);
  void polled();  // it is waiting and looked again
  // Orders, as the rank reads them.
  std::int64_t checkpoint_orders() const { return page_->checkpoint_orders.load(std::memory_order_relaxed); }
  std::int64_t stop_after_step() const { return page_->stop_after_step.load(std::memory_order_relaxed); }
  std::int64_t checkpoint_interval() const { return page_->checkpoint_interval.load(std::memory_order_relaxed); }
  double learning_rate() const;  // 0: none
  // Read before the values; obeyed(that) afterwards tells the worker that they were acted upon.
  std::int64_t orders() const { return page_->orders.load(std::memory_order_acquire); }
  void obeyed(std::int64_t orders) { page_->orders_obeyed.store(orders, std::memory_order_release); }

  // The worker's half.
  BeatSnapshot snapshot() const;
  // Each returns the order's number: it is carried out once orders_obeyed() has reached it.
  std::int64_t order_checkpoint();
  std::int64_t order_stop_after(std::int64_t step);
  std::int64_t order_checkpoint_interval(std::int64_t steps);
  std::int64_t order_learning_rate(double peak);
  std::int64_t orders_obeyed() const { return page_->orders_obeyed.load(std::memory_order_acquire); }

 private:
  explicit HeartbeatPage(BeatPageLayout* page) : page_(page) {}
  void touch();
  BeatPageLayout* page_ = nullptr;
};

}  // namespace longhaul
