#include "worker/agent/leads/lead_link.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "contracts/control/control_times.h"

namespace longhaul {
namespace {

constexpr std::int64_t welcome_within_ms = 5'000;
constexpr std::int64_t retry_after_ms = 250, standby_welcome_ms = 600, hurried_retry_ms = 100;
constexpr std::int64_t other_lead_after_ms = 200;  // of having lost one: the standby is asked, too

}  // namespace

LeadLink::LeadLink(std::string host, const std::string& address_path, const std::string& secret_path,
                   const Clock& clock, Logger& log)
    : host_(std::move(host)),
      clock_(clock),
      log_(log),
      strangers_("no_lead_there", clock, log),
      files_(LeadFiles::ways_of(address_path, secret_path), clock,
             std::hash<std::string>{}(host_) + static_cast<std::uint64_t>(::getpid())),
      memory_(clock.monotonic_ns()) {}

Result<bool> LeadLink::try_to_connect(bool hurried) {
  const std::int64_t now = clock_.monotonic_ns();
  if (now < next_try_ns_) return false;
  next_try_ns_ = now + (hurried ? hurried_retry_ms : retry_after_ms) * 1'000'000;
  files_.look();
  LeadFilesSeen seen = files_.seen();
  const bool lost = now - memory_.without_since_ns() > other_lead_after_ms * 1'000'000;
  auto address =
      choice_.next(seen, epoch_, [this](const std::string& host) { return !files_.address_of(host).empty(); }, lost);
  if (!address.ok()) return false;
  // Read anew each time, for another job of the attempt has another; what was read serves when the file is gone.
  if (!seen.secret.ok() && seen.secret.error().code != ErrorCode::not_found) return seen.secret.error();
  if (seen.secret.ok()) secret_ = std::move(*seen.secret);
  const std::string said = choice_.said_address_of(address->host);
  const std::string at = said.empty() ? files_.address_of(address->host) : said;
  if (secret_.empty() || at.empty()) return false;
  auto socket = connect_to(at, address->port);
  if (!socket.ok()) return files_.not_reached(address->host), false;
  LH_TRY(const std::string nonce, random_hex(32));
  Value hello = Value::make_table();
  hello.set("host", host_);
  hello.set("pid", static_cast<std::int64_t>(::getpid()));
  // The file of a lead's address says in which epoch it leads; that of a standby names the host of no lead.
  epoch_ = std::max(epoch_, address->attempt_key.empty() ? LeadEpoch(address->epoch) : address->lead_epoch());
  only_waits_ = false;
  lead_.emplace(std::move(*socket), WireSession::agent(secret_, nonce, epoch_, std::move(hello)));
  connected_ns_ = said_ns_ = now;
  return true;
}

void LeadLink::welcomed() {
  memory_.welcomed(peer_of(lead_->descriptor()));
}

Status LeadLink::promise(const LeadEpoch& asked) {
  only_waits_ = true;
  const bool given = promise_.give(asked, epoch_);
  lead_->session().send(WireKind::promise, lead_epoch_to_value(promise_.newest()));
  log_.info(format("event=asked_to_follow epoch='{}' promised='{}'", asked.text(), promise_.newest().text()));
  if (given) return {};
  (void)lead_->flush().ok();
  return make_error(ErrorCode::aborted, format("epoch {} is promised to {}, and {} asks for it",
                                               promise_.newest().number, promise_.newest().host, asked.host));
}

// Whoever sits on a dead node answers nothing at all, and there is another to turn to. The standby's port is open
// while the lead there is being started.
std::int64_t LeadLink::welcome_ms() const {
  if (choice_.asks_a_standby()) return standby_welcome_ms;
  return choice_.knows_a_standby() ? retry_after_ms : welcome_within_ms;
}

std::optional<LeadLink::Overdue> LeadLink::overdue() const {
  if (!lead_) return std::nullopt;
  const std::int64_t now = clock_.monotonic_ns();
  if (!open() && now - connected_ns_ > welcome_ms() * 1'000'000)
    return Overdue{make_error(ErrorCode::unavailable, "it does not answer"), false};
  if (open() && now - said_ns_ > lead_silent_ms * 1'000'000)
    return Overdue{make_error(ErrorCode::unavailable, "it is silent"), true};
  return std::nullopt;
}

Result<bool> LeadLink::lose(const Error& why, bool silent, bool leads_itself) {
  const std::int64_t now = clock_.monotonic_ns();
  const bool was_open = open();
  if (!was_open) files_.not_reached(choice_.asked().host);
  if (lead_->session().stranger())
    strangers_.note(format("{}:{}", choice_.asked().host, choice_.asked().port), why.message());
  if (was_open) {
    memory_.lost(now, silent, only_waits_);
    epoch_ = std::max(epoch_, lead_->session().epoch());
    choice_.lost_connection(), next_try_ns_ = 0;
    // Of those that only wait one is lost after the other: what the files say is not put off for each of them.
    if (!only_waits_) files_.lead_lost(choice_.knows_a_standby());
  }
  lead_.reset();
  if (why.code == ErrorCode::unsupported) return why;
  if (why.code == ErrorCode::conflict && !leads_itself) return why;  // another agent works here: its pages stay
  if (why.code == ErrorCode::aborted) {
    // A lead of an earlier epoch is not ours; the file may name the right one soon.
    log_.warn("event=lead_not_taken reason='" + why.message() + "'");
    next_try_ns_ = now + 4 * retry_after_ms * 1'000'000;
    return was_open;
  }
  if (was_open) log_.warn("event=lead_lost reason='" + why.message() + "' next=look_for_it");
  return was_open;
}

}  // namespace longhaul
