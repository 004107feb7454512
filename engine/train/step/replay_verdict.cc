#include "engine/train/step/replay_verdict.h"

#include "base/digest/hash.h"
#include "base/text/text.h"

namespace longhaul {

const char* to_string(ReplayState state) {
  switch (state) {
    case ReplayState::idle: return "idle";
    case ReplayState::in_place: return "in_place";
    case ReplayState::elsewhere: return "elsewhere";
    case ReplayState::correct: return "correct";
    case ReplayState::transient: return "transient";
    case ReplayState::persistent: return "persistent";
  }
  return "";
}

const char* to_string(ReplayEvent event) {
  switch (event) {
    case ReplayEvent::suspicious: return "suspicious";
    case ReplayEvent::same: return "same";
    case ReplayEvent::another: return "another";
  }
  return "";
}

ReplayJudgement judge_replay(std::int64_t step, const ReplayRound& round) {
  const auto name = [](int rank) { return format("rank {}", rank); };
  ReplayVerdict verdict;
  // Of the owner's result; a machine that refuses what it is given here is a broken invariant.
  const auto must = [](const Status& taken) { LH_ASSERT(taken.ok(), taken.ok() ? "" : taken.error().message()); };
  must(verdict.suspect(step, name(round.owner), round.first));
  must(verdict.replayed(name(round.owner), round.first_again));
  ReplayJudgement judged;
  const auto say = [&](int rank, const std::string& why) {
    judged.rank = rank, judged.state = verdict.state();
    judged.reason =
        format("rank {} and rank {} disagree about one of rank {}: {}", round.owner, round.replayer, round.owner, why);
    return judged;
  };
  const bool owner_wavers = verdict.state() == ReplayState::transient;
  const bool replayer_wavers = round.replay != round.replay_again;
  if (owner_wavers && replayer_wavers) return say(-1, "both computed something else the second time");
  if (owner_wavers) return say(round.owner, format("rank {} computed something else the second time", round.owner));
  if (replayer_wavers)
    return say(round.replayer, format("rank {} computed something else the second time", round.replayer));
  if (round.third < 0) return say(-1, "both stand by it, and there is no third rank");
  if (round.third_digest != round.first && round.third_digest != round.replay)
    return say(-1, format("both stand by it, and rank {} agrees with neither", round.third));
  must(verdict.replayed(name(round.third), round.third_digest));
  const int wrong = verdict.state() == ReplayState::persistent ? round.owner : round.replayer;
  return say(wrong, format("both stand by it, and rank {} computes what rank {} does", round.third,
                           wrong == round.owner ? round.replayer : round.owner));
}

Status ReplayVerdict::take(ReplayEvent event) {
  for (const ReplayTransition& transition : replay_transitions) {
    if (transition.from != state_ || transition.event != event) continue;
    state_ = transition.to;
    transients_ += state_ == ReplayState::transient;
    return {};
  }
  return make_error(ErrorCode::invalid_input,
                    format("a replay that is {} cannot take '{}'", to_string(state_), to_string(event)));
}

Status ReplayVerdict::suspect(std::int64_t step, const std::string& where, std::uint64_t digest) {
  LH_CHECK(take(ReplayEvent::suspicious));
  step_ = step, where_ = where, digest_ = digest;
  return {};
}

Status ReplayVerdict::replayed(const std::string& where, std::uint64_t digest) {
  if (state_ == ReplayState::in_place && where != where_)
    return make_error(ErrorCode::invalid_input, format("{} replayed in place what {} computed", where, where_));
  if (state_ == ReplayState::elsewhere && where == where_)
    return make_error(ErrorCode::invalid_input, format("{} is not elsewhere", where),
                      "another device has to replay it");
  return take(digest == digest_ ? ReplayEvent::same : ReplayEvent::another);
}

std::optional<int> ReplayVerdict::exit_code(bool can_replay_elsewhere) const {
  if (state_ == ReplayState::persistent) return exit_failed_validation;
  if (state_ == ReplayState::elsewhere && !can_replay_elsewhere) return exit_run_again_elsewhere;
  return std::nullopt;
}

Value ReplayVerdict::to_value() const {
  Value value = Value::make_table();
  value.set("state", to_string(state_));
  value.set("step", step_);
  value.set("where", where_);
  value.set("digest", hex64(digest_));
  value.set("transients", transients_);
  return value;
}

Result<ReplayVerdict> ReplayVerdict::from_value(const Value& value) {
  ReplayVerdict verdict;
  const std::string state = value.get_string("state"), digest = value.get_string("digest");
  bool known = false;
  for (const ReplayState one : {ReplayState::idle, ReplayState::in_place, ReplayState::elsewhere, ReplayState::correct,
                                ReplayState::transient, ReplayState::persistent})
    if (state == to_string(one)) verdict.state_ = one, known = true;
  verdict.step_ = value.get_integer("step", -1);
  verdict.where_ = value.get_string("where");
  verdict.transients_ = static_cast<int>(value.get_integer("transients", -1));
  const bool hex = digest.size() == 16 && digest.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!known || !hex || verdict.transients_ < 0 || (verdict.state_ != ReplayState::idle && verdict.where_.empty()))
    return make_error(ErrorCode::corrupt, "the state of a replay makes no sense",
                      "remove it: the result in question is then believed");
  verdict.digest_ = std::stoull(digest, nullptr, 16);
  return verdict;
}

}  // namespace longhaul
