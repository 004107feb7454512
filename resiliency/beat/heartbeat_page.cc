#include "resiliency/beat/heartbeat_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/files/files.h"
#include "base/files/owned_files.h"

namespace longhaul {
namespace {

std::string name_of(const char* text) {
  return std::string(text, ::strnlen(text, beat_name_bytes));
}

void store_name(char* target, const std::string& name) {
  std::memset(target, 0, beat_name_bytes);
  std::memcpy(target, name.data(), std::min(name.size(), beat_name_bytes - 1));
}

// Ours alone, of one name and no link: what is written here must be a page, and what is read is believed.
Result<BeatPageLayout*> map_page(const std::string& path, bool create) {
  LH_TRY(const FileDescriptor fd,
         create ? open_or_create_owned_file(path, Ownership{}, 0600) : open_owned_file(path, Ownership{}, O_RDWR));
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return errno_error(ErrorCode::io, "cannot read " + path, errno);
  if (static_cast<std::size_t>(info.st_size) < beat_page_bytes) {
    if (!create) return make_error(ErrorCode::not_found, path + " is not a whole heartbeat page yet");
    // Blocks are reserved now: on a full file system a store into a hole would end the rank with SIGBUS.
    const int problem = ::posix_fallocate(fd.get(), 0, beat_page_bytes);
    if (problem != 0) return errno_error(ErrorCode::io, "cannot reserve " + path, problem);
  }
  void* data = ::mmap(nullptr, beat_page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return errno_error(ErrorCode::io, "cannot map " + path, errno);
  return static_cast<BeatPageLayout*>(data);
}

}  // namespace

std::string beat_page_path(const std::string& launch_dir, int rank) {
  return join_path(launch_dir, "beat-" + std::to_string(rank));
}

Result<HeartbeatPage> HeartbeatPage::create(const std::string& path, int rank, std::int64_t pid) {
  LH_TRY(BeatPageLayout* const layout, map_page(path, true));
  HeartbeatPage page(layout);
  if (layout->magic.load(std::memory_order_acquire) != BeatPageLayout::magic_value) {
    layout->version.store(BeatPageLayout::version_value, std::memory_order_relaxed);
    layout->step.store(-1, std::memory_order_relaxed);
    layout->stop_after_step.store(-1, std::memory_order_relaxed);
    layout->waits_in.store(beat_waits_unknown, std::memory_order_relaxed);
    layout->waits_for.store(-1, std::memory_order_relaxed);
    store_name(layout->section_names[0], beat_start);
    layout->sections.store(1, std::memory_order_relaxed);
    layout->magic.store(BeatPageLayout::magic_value, std::memory_order_release);
  }
  layout->rank.store(rank, std::memory_order_relaxed);
  layout->pid.store(pid > 0 ? pid : ::getpid(), std::memory_order_relaxed);
  page.touch();
  return page;
}

Result<HeartbeatPage> HeartbeatPage::open(const std::string& path) {
  LH_TRY(BeatPageLayout* const layout, map_page(path, false));
  HeartbeatPage page(layout);
  if (layout->magic.load(std::memory_order_acquire) != BeatPageLayout::magic_value ||
      layout->version.load(std::memory_order_relaxed) != BeatPageLayout::version_value)
    return make_error(ErrorCode::corrupt,
                      path + " is not a heartbeat page of version " + std::to_string(BeatPageLayout::version_value));
  return page;
}

HeartbeatPage::~HeartbeatPage() {
  if (page_) ::munmap(page_, beat_page_bytes);
}
HeartbeatPage::HeartbeatPage(HeartbeatPage&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}
HeartbeatPage& HeartbeatPage::operator=(HeartbeatPage&& other) noexcept {
  std::swap(page_, other.page_);
  return *this;
}

void HeartbeatPage::touch() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  page_->changed_ns.store(static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec,
                          std::memory_order_relaxed);
}

int HeartbeatPage::section(const std::string& name) {
  const std::string wanted = name.substr(0, beat_name_bytes - 1);
  const int known = std::min(page_->sections.load(std::memory_order_relaxed), beat_sections_max);
  for (int i = 0; i < known; ++i)
    if (name_of(page_->section_names[i]) == wanted) return i;
  if (known == beat_sections_max) return 0;
  store_name(page_->section_names[known], wanted);
  page_->sections.store(known + 1, std::memory_order_release);
  return known;
}

void HeartbeatPage::enter(int section) {
  page_->section.store(section, std::memory_order_relaxed);
  touch();
}
void HeartbeatPage::step(std::int64_t step) {
  page_->step.store(step, std::memory_order_relaxed);
  touch();
}
void HeartbeatPage::epoch(std::int64_t epoch) {
  page_->epoch.store(epoch, std::memory_order_relaxed);
  touch();
}

int HeartbeatPage::communicator(const std::string& name) {
  const std::string wanted = name.substr(0, beat_name_bytes - 1);
  const int known = std::min(page_->communicators.load(std::memory_order_relaxed), beat_communicators_max);
  for (int i = 0; i < known; ++i)
    if (name_of(page_->communicator[i].name) == wanted) return i;
  if (known == beat_communicators_max) return -1;
  store_name(page_->communicator[known].name, wanted);
  page_->communicators.store(known + 1, std::memory_order_release);
  return known;
}
void HeartbeatPage::restart_counters(int communicator) {
  if (communicator < 0) return;
  page_->communicator[communicator].enqueued.store(0, std::memory_order_relaxed);
  page_->communicator[communicator].completed.store(0, std::memory_order_relaxed);
}
void HeartbeatPage::enqueued(int communicator) {
  if (communicator >= 0) page_->communicator[communicator].enqueued.fetch_add(1, std::memory_order_relaxed);
}
void HeartbeatPage::completed(int communicator) {
  if (communicator >= 0) page_->communicator[communicator].completed.fetch_add(1, std::memory_order_relaxed);
}
void HeartbeatPage::computed(std::int64_t nanoseconds) {
  page_->computed_ns.store(page_->computed_ns.load(std::memory_order_relaxed) + nanoseconds, std::memory_order_relaxed);
}
void HeartbeatPage::waits(int communicator, int peer) {
  // The peer first: a reader between the two blames it a moment early, never a rank of another communicator.
  page_->waits_for.store(peer, std::memory_order_relaxed);
  page_->waits_in.store(communicator, std::memory_order_release);
}
void HeartbeatPage::polled() {
  // One writer: no read-modify-write is needed.
  page_->polls.store(page_->polls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

double HeartbeatPage::learning_rate() const {
  return std::bit_cast<double>(page_->learning_rate.load(std::memory_order_relaxed));
}
std::int64_t HeartbeatPage::order_checkpoint() {
  page_->checkpoint_orders.fetch_add(1, std::memory_order_relaxed);
  return page_->orders.fetch_add(1, std::memory_order_release) + 1;
}
std::int64_t HeartbeatPage::order_stop_after(std::int64_t step) {
  page_->stop_after_step.store(step, std::memory_order_relaxed);
  return page_->orders.fetch_add(1, std::memory_order_release) + 1;
}
std::int64_t HeartbeatPage::order_checkpoint_interval(std::int64_t steps) {
  page_->checkpoint_interval.store(steps, std::memory_order_relaxed);
  return page_->orders.fetch_add(1, std::memory_order_release) + 1;
}
std::int64_t HeartbeatPage::order_learning_rate(double peak) {
  page_->learning_rate.store(std::bit_cast<std::uint64_t>(peak), std::memory_order_relaxed);
  return page_->orders.fetch_add(1, std::memory_order_release) + 1;
}

BeatSnapshot HeartbeatPage::snapshot() const {
  // Another process writes this memory: counts and ids are clamped, names need not end with a zero.
  BeatSnapshot seen;
  seen.rank = page_->rank.load(std::memory_order_relaxed);
  seen.pid = page_->pid.load(std::memory_order_relaxed);
  seen.epoch = page_->epoch.load(std::memory_order_relaxed);
  seen.step = page_->step.load(std::memory_order_relaxed);
  seen.changed_ns = page_->changed_ns.load(std::memory_order_relaxed);
  const int section = page_->section.load(std::memory_order_relaxed);
  const int sections = std::clamp(page_->sections.load(std::memory_order_acquire), 0, beat_sections_max);
  seen.section = section >= 0 && section < sections ? name_of(page_->section_names[section]) : "unknown";
  const int communicators = std::clamp(page_->communicators.load(std::memory_order_acquire), 0, beat_communicators_max);
  for (int i = 0; i < communicators; ++i) {
    const auto& c = page_->communicator[i];
    seen.communicators.push_back(
        {name_of(c.name), c.enqueued.load(std::memory_order_relaxed), c.completed.load(std::memory_order_relaxed)});
  }
  seen.waits_in = page_->waits_in.load(std::memory_order_acquire);
  if (seen.waits_in >= communicators || seen.waits_in < beat_waits_unknown) seen.waits_in = beat_waits_unknown;
  seen.waits_for = page_->waits_for.load(std::memory_order_relaxed);
  seen.computed_ns = page_->computed_ns.load(std::memory_order_relaxed);
  seen.written_bytes = page_->written_bytes.load(std::memory_order_relaxed);
  seen.polls = page_->polls.load(std::memory_order_relaxed);
  return seen;
}

}  // namespace longhaul
