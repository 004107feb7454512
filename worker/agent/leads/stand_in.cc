#include "worker/agent/leads/stand_in.h"

#include <algorithm>
#include <utility>

#include "base/files/files.h"
#include "base/files/owned_folder.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "worker/protocol/node/node_report.h"
#include "worker/protocol/node/standby_state.h"
#include "worker/protocol/wire/host_address.h"
#include "worker/protocol/wire/lead_address.h"

namespace longhaul {

StandIn::~StandIn() {
  if (!state_folder_.empty()) (void)remove_tree(state_folder_).ok();
}

void StandIn::keep(const Value& update, std::int64_t epoch) {
  const bool kept = keep_lead_state(update, clock_.monotonic_ns(), clock_.wall_ms(), state_);
  if (kept) followed_by_.clear();
  if (!kept || waiting_) return;
  auto opened = Listener::open_in(ports_, true);
  if (!opened.ok()) {
    log_.warn("event=no_standby error='" + opened.error().message() + "'");
    return;
  }
  waiting_.emplace(std::move(*opened));
  const Status written = write_lead_address(standby_address_path(options_.address_path),
                                            {"", epoch, options_.host, waiting_->port(), own_addresses()});
  if (!written.ok()) log_.warn("event=standby_address_not_written error='" + written.error().message() + "'");
}

bool StandIn::gives_way_to(const std::string& host) {
  if (!waiting_ || host == options_.host) return false;
  if (running()) {
    followed_by_ = host;
    return false;
  }
  give_up(host);
  return true;
}

void StandIn::give_up(const std::string& to) {
  log_.info("event=no_standby_any_more standby=" + to);
  waiting_.reset();
  state_ = Value::make_table();
  followed_by_.clear();
}

bool StandIn::is_named_last() const {
  const auto named = read_lead_address(standby_address_path(options_.address_path));
  return !named.ok() || (named->host == options_.host && named->port == port());
}

void StandIn::start(const LostLead& lost, const LeadEpoch& led, const LeadEpoch& promised) {
  add_lost_lead(lost, state_);
  // A lead that died before it sent anybody its state was of a later epoch, and its agents refuse an earlier one.
  const std::int64_t newest = std::max(led.number, state_.get_integer("epoch", 1));
  state_.set("epoch", newest);
  state_.set("asks", std::max(newest, promised.number) + 1);  // a number that was promised is another's
  const auto state_path = write_state();
  if (!state_path.ok()) {
    log_.warn("event=no_stand_in error='" + state_path.error().message() + "'");
    return;
  }
  SpawnSpec spec;
  spec.argv = {options_.worker_program, "lead", "--attempt", options_.attempt_dir, "--take-over", *state_path};
  spec.stdin_fd = waiting_->descriptor();
  spec.own_group = true;
  const auto pid = spawn(spec);
  if (!pid.ok()) {
    log_.warn("event=no_stand_in error='" + pid.error().message() + "'");
    return;
  }
  pid_ = *pid;
  log_.warn(format("event=lead_lost_for_good next=stand_in pid={}", pid_));
}

std::optional<Result<ExitStatus>> StandIn::poll() {
  if (pid_ <= 0) return std::nullopt;
  const auto exit = poll_exit(pid_);
  if (exit.ok() && !exit->has_value()) return std::nullopt;
  log_.info("event=stand_in_ended status='" + (exit.ok() ? (*exit)->text() : exit.error().message()) + "'");
  pid_ = -1;
  if (!followed_by_.empty()) give_up(std::string(followed_by_));
  if (!exit.ok()) return Result<ExitStatus>(exit.error());
  return Result<ExitStatus>(**exit);
}

// For the lead that we start: in a folder that nobody else may enter, of a name that nobody could know.
Result<std::string> StandIn::write_state() {
  if (state_folder_.empty()) {
    LH_TRY(state_folder_,
           make_unique_private_folder(parent_path(node_beat_prefix), file_name(node_beat_prefix) + "standby-"));
    LH_TRY(state_folder_held_, HeldFolder::make(state_folder_));
  }
  const std::string path = join_path(state_folder_, "state");
  LH_CHECK(write_file_atomic(path, to_json(state_), 0600));
  return path;
}

}  // namespace longhaul
