#include "worker/agent/leads/lead_files.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "worker/protocol/wire/host_address.h"

namespace longhaul {
namespace {

constexpr std::int64_t pause_least_ms = 250, pause_most_ms = 5'000;
constexpr std::int64_t after_loss_ms = 500;  // most agents have turned to the standby by then
constexpr std::int64_t answers_within_ms = 20;
constexpr std::int64_t name_service_ms = 1'000;

}  // namespace

std::int64_t LookPace::jittered(std::int64_t ms) {
  state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;  // xorshift64
  return ms / 2 + static_cast<std::int64_t>(state_ % static_cast<std::uint64_t>(std::max<std::int64_t>(1, ms)));
}

void LookPace::begin(std::int64_t now_ms, std::int64_t first_ms) {
  pause_ms_ = pause_least_ms;
  next_ms_ = first_ms > 0 ? now_ms + first_ms + jittered(first_ms) / 2 : now_ms;
}

void LookPace::looked(std::int64_t now_ms) {
  next_ms_ = now_ms + jittered(pause_ms_);
  pause_ms_ = std::min(2 * pause_ms_, pause_most_ms);
}

LeadFiles::Ways LeadFiles::ways_of(std::string address_path, std::string secret_path) {
  Ways ways;
  ways.read = [address_path = std::move(address_path), secret_path = std::move(secret_path)] {
    LeadFilesSeen seen;
    seen.lead = read_lead_address(address_path);
    seen.standby = read_lead_address(standby_address_path(address_path));
    seen.secret = read_lead_secret(secret_path);
    return seen;
  };
  ways.resolve = resolve_host;
  return ways;
}

LeadFiles::LeadFiles(Ways ways, const Clock& clock, std::uint64_t seed)
    : ways_(std::move(ways)), clock_(clock), pace_(seed), thread_([this] { work(); }) {}

LeadFiles::~LeadFiles() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void LeadFiles::work() {
  sigset_t all;  // signals are the agent's own thread's, which they are to wake
  ::sigfillset(&all);
  (void)::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ended_ || read_ || !names_.empty(); });
    if (ended_) return;
    working_ = true;
    if (std::exchange(read_, false)) {
      lock.unlock();
      LeadFilesSeen seen = ways_.read();
      lock.lock();
      ++reads_;
      for (const Result<LeadAddress>* named : {&seen.lead, &seen.standby}) {
        if (!named->ok()) continue;
        want((*named)->host).written = (*named)->addresses;
      }
      seen_ = std::move(seen);
    }
    while (!names_.empty() && !ended_) {
      const std::string host = *names_.begin();
      lock.unlock();
      const auto resolved = ways_.resolve(host);
      lock.lock();
      HostAddresses& known = addresses_[host];
      // One that nobody knows in any way is asked for again with the next try.
      known.asked = resolved.ok() || !known.written.empty();
      if (resolved.ok()) known.resolved = *resolved;
      names_.erase(host);
    }
    working_ = false;
    changed_.notify_all();
  }
}

void LeadFiles::lead_lost(bool standby_is_known) {
  const std::lock_guard lock(mutex_);
  seen_.lead = seen_.standby = LeadFilesSeen::unread();
  pace_.begin(clock_.monotonic_ns() / 1'000'000, standby_is_known ? after_loss_ms : 0);
}

void LeadFiles::look() {
  std::unique_lock lock(mutex_);
  const std::int64_t now_ms = clock_.monotonic_ns() / 1'000'000;
  if (!idle() || !pace_.due(now_ms)) return;
  pace_.looked(now_ms);
  read_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, std::chrono::milliseconds(answers_within_ms), [this] { return idle(); });
}

LeadFilesSeen LeadFiles::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

LeadFiles::HostAddresses& LeadFiles::want(const std::string& host) {
  HostAddresses& known = addresses_[host];
  if (known.wanted_ns == 0) known.wanted_ns = clock_.monotonic_ns();
  if (!known.asked && names_.insert(host).second) changed_.notify_all();
  return known;
}

std::string LeadFiles::address_of(const std::string& host) {
  const std::lock_guard lock(mutex_);
  const HostAddresses& known = want(host);
  const bool late = clock_.monotonic_ns() - known.wanted_ns > name_service_ms * 1'000'000;
  if (!known.asked && !late) return {};
  std::vector<std::string> all = known.resolved;
  for (const std::string& one : known.written)
    if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
  return all.empty() ? std::string() : all[known.turn % all.size()];
}

void LeadFiles::not_reached(const std::string& host) {
  const std::lock_guard lock(mutex_);
  if (const auto known = addresses_.find(host); known != addresses_.end()) ++known->second.turn;
}

int LeadFiles::reads() const {
  const std::lock_guard lock(mutex_);
  return reads_;
}

}  // namespace longhaul
