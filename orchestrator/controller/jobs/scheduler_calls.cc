#include "orchestrator/controller/jobs/scheduler_calls.h"

#include <algorithm>
#include <future>

#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "contracts/records/attempt.h"
#include "orchestrator/controller/jobs/attempt_files.h"
#include "orchestrator/decide/held_up.h"

namespace longhaul {
namespace {

// Between two tries of a submission that is refused for now.
constexpr std::int64_t next_try_ms_min = 5'000, next_try_ms_max = 120'000;
constexpr std::size_t window_max = 256;  // submissions whose outcomes are written together

Value fields_with(const char* name, const std::string& text) {
  Value fields = Value::make_table();
  fields.set(name, text);
  return fields;
}

}  // namespace

void SchedulerCalls::take_decided(const std::vector<Fact>& decided) {
  for (const Fact& fact : decided)
    if (fact.kind == FactKind::submit || fact.kind == FactKind::submit_next) fresh_.insert(fact.text("key"));
}

// While one window is with the scheduler, the files of the next are written: the two touch different stages.
Status SchedulerCalls::submit(std::vector<PendingAct> acts) {
  std::erase_if(acts, [&](const PendingAct& act) {
    const auto refused = refused_.find(submission_of(act));
    return refused != refused_.end() && !act.attempt->cancel_wanted &&
           run_.clock.monotonic_ns() < refused->second.at_ns;
  });
  std::span<const PendingAct> left = acts;
  const auto take_window = [&left] {
    std::size_t size = 0;
    for (std::size_t groups = 0; size < left.size() && groups < window_max; ++groups)
      size += group_size(left.subspan(size));
    const auto window = left.first(size);
    left = left.subspan(size);
    return window;
  };
  if (left.empty()) return {};
  LH_TRY(PreparedWindow window, prepare_window(take_window()));
  for (;;) {
    std::future<Result<PreparedWindow>> ahead;
    if (!left.empty())
      ahead = std::async(std::launch::async, [this, next = take_window()] { return prepare_window(next); });
    const std::int64_t facts = run_.ledger.facts;
    LH_CHECK(submit_window(window));
    if (!ahead.valid()) return {};
    auto prepared = ahead.get();
    if (run_.ledger.facts == facts) return {};  // the scheduler does not answer: no more for now
    if (!prepared.ok()) return prepared.error();
    window = std::move(prepared).value();
  }
}

Result<SchedulerCalls::PreparedWindow> SchedulerCalls::prepare_window(std::span<const PendingAct> acts) const {
  PreparedWindow window;
  while (!acts.empty()) {
    window.groups.push_back(acts.first(group_size(acts)));
    const bool maybe_known = !fresh_.contains(window.groups.back().front().attempt->key);
    LH_TRY(JobSpec spec, prepare_job(run_, window.groups.back(), maybe_known));
    window.specs.push_back(std::move(spec));
    acts = acts.subspan(window.groups.back().size());
  }
  return window;
}

Status SchedulerCalls::submit_window(const PreparedWindow& window) {
  if (auto fault = fault_here(FaultPoint::controller_before_submit)) return *fault;
  const auto answers = scheduler_->submit(window.specs);
  if (auto fault = fault_here(FaultPoint::controller_after_submit)) return *fault;
  LH_CHECK(journal_.check_newest());  // one that was overtaken meanwhile has no say in what the answers mean
  std::vector<Fact> outcomes;
  for (std::size_t i = 0; i < window.groups.size(); ++i) {
    const auto& answer = answers[i];
    if (!answer.ok() && answer.error().code == ErrorCode::unavailable) {
      if (logged_.insert(window.specs[i].key).second)
        run_.log.warn("event=scheduler_unavailable error='" + answer.error().message() + "' next=try_again");
      take_refusal(window.groups[i], answer.error(), outcomes);
      continue;  // the intents stay without outcome, but those that were tried for long enough
    }
    logged_.erase(window.specs[i].key);
    refused_.erase(window.specs[i].key);
    for (const PendingAct& act : window.groups[i]) {
      const LedgerAttempt& attempt = *act.attempt;
      if (!answer.ok())
        outcomes.push_back(
            {FactKind::refused, act.stage->id, attempt.number, fields_with("cause", answer.error().message()), 0});
      else
        outcomes.push_back({FactKind::submitted, act.stage->id, attempt.number,
                            fields_with("job", attempt.task < 0 ? *answer : format("{}_{}", *answer, attempt.task)),
                            0});
    }
  }
  return journal_.write(outcomes);
}

// Slurm has answered, and does not take the job for now.
void SchedulerCalls::take_refusal(std::span<const PendingAct> group, const Error& error, std::vector<Fact>& outcomes) {
  const Refusal refusal = refusal_in(error);
  const std::string key = submission_of(group.front());
  if (refusal == Refusal::silence) {
    refused_.erase(key);
    return;
  }
  NextTry& next = refused_[key];
  next.pause_ms = std::clamp(2 * next.pause_ms, next_try_ms_min, next_try_ms_max);
  next.at_ns = run_.clock.monotonic_ns() + next.pause_ms * 1'000'000;
  const std::int64_t now_ms = run_.clock.wall_ms();
  for (const PendingAct& act : group) {
    const HeldUp& so_far = act.attempt->held_up;
    const RefusalAct verdict = act_on_refusal(refusal, so_far, now_ms, run_.rules.submit_patience_ms);
    if (verdict == RefusalAct::nothing) continue;
    const bool fails = verdict == RefusalAct::fail;
    Value fields = fields_with("cause", fails ? cause_of_long_refusal(so_far, error.what, now_ms) : error.what);
    if (!fails) {
      fields.set("by", to_string(refusal));
      fields.set("advice", error.hint);
    }
    outcomes.push_back(
        {fails ? FactKind::refused : FactKind::held_up, act.stage->id, act.attempt->number, std::move(fields), 0});
  }
}

Status SchedulerCalls::cancel(const PendingAct& act, std::vector<Fact>& outcomes) {
  const LedgerAttempt& attempt = *act.attempt;
  if (attempt.job.empty()) return {};  // its submission has no outcome yet: that comes first
  Attempt asked;
  asked.attempt_dir = attempt_folder(run_.run_dir, act.stage->id, attempt.number);
  if (const Status noted = write_file_renamed(asked.cancelled_path(), ""); !noted.ok())
    run_.log.warn("event=cancellation_not_noted error='" + noted.error().message() +
                  "'");  // its lead takes it for Slurm's
  const Status sent = scheduler_->cancel(attempt.job);
  if (!sent.ok()) {
    if (logged_.insert("cancel " + attempt.key).second)
      run_.log.warn(
          format("event=cancel_failed stage={} error='{}' next=try_again", act.stage->id, sent.error().message()));
    return {};
  }
  outcomes.push_back({FactKind::cancel_sent, act.stage->id, attempt.number, {}, 0});
  return {};
}

Status SchedulerCalls::release(const PendingAct& act, std::vector<Fact>& outcomes) {
  const Status sent = scheduler_->release(act.attempt->job);
  if (!sent.ok()) {
    run_.log.warn(
        format("event=release_failed stage={} error='{}' next=try_again", act.stage->id, sent.error().message()));
    return {};
  }
  outcomes.push_back({FactKind::released, act.stage->id, act.attempt->number, {}, 0});
  return {};
}

// What the user does not want stays unwanted.
Status SchedulerCalls::lift_exclusions(const PendingAct& act, std::vector<Fact>& outcomes) {
  if (act.attempt->job.empty()) return {};
  std::vector<std::string> hosts = act.attempt->exclude;
  if (const std::string& asked = run_.planned_of(*act.stage).common.job.exclude; !asked.empty())
    hosts.insert(hosts.begin(), asked);
  const Status sent = scheduler_->exclude_only(act.attempt->job, hosts);
  if (!sent.ok()) {
    if (logged_.insert("lift " + act.attempt->key).second)
      run_.log.warn(format("event=exclusions_not_lifted stage={} error='{}' next=try_again", act.stage->id,
                           sent.error().message()));
    return {};
  }
  logged_.erase("lift " + act.attempt->key);
  outcomes.push_back({FactKind::exclusions_lifted, act.stage->id, act.attempt->number, {}, 0});
  return {};
}

}  // namespace longhaul
