#include "engine/train/loop/training_restart.h"

#include "base/text/text.h"

namespace longhaul {

std::array<double, RestartNotice::fields> RestartNotice::packed() const {
  const auto version = [](std::optional<std::int64_t> held) { return static_cast<double>(held.value_or(-1)); };
  return {version(held.copy), version(held.own), static_cast<double>(epoch), static_cast<double>(save_key),
          static_cast<double>(copy_key)};
}

RestartNotice RestartNotice::from_packed(std::span<const double> packed) {
  const auto whole = [&](std::size_t field) { return static_cast<std::int64_t>(packed[field]); };
  const auto version = [&](std::size_t field) {
    return packed[field] < 0 ? std::nullopt : std::optional(whole(field));
  };
  return {{version(0), version(1)}, whole(2), whole(3), whole(4)};
}

Result<RestartAgreement> agreement_of(std::span<const RestartNotice> ranks, std::size_t mine) {
  RestartAgreement agreement;
  std::vector<HeldStates> held;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].epoch != ranks[mine].epoch)
      return make_error(ErrorCode::aborted, format("rank {} was ordered to epoch {}, this one to {}", rank,
                                                   ranks[rank].epoch, ranks[mine].epoch));
    held.push_back(ranks[rank].held);
    agreement.save_goes_on &= ranks[rank].save_key == ranks[mine].save_key;
    agreement.copy_goes_on &= ranks[rank].copy_key == ranks[mine].copy_key;
  }
  const std::optional<std::int64_t> common = newest_held_by_all(held);
  if (!common)
    return make_error(ErrorCode::unavailable, "there is no state in memory that every rank holds",
                      "checkpoint.snapshot_every = 1 keeps a copy of every step");
  agreement.version = *common;
  return agreement;
}

Status TrainingRestart::restart(const Error& fault) {
  if (!context_.options.restart || !context_.beat) return fault;
  InProcessRestart& place = *context_.options.restart;
  LH_TRY(const std::int64_t epoch, await_order(fault));
  const std::int64_t begun = context_.clock.monotonic_ns();
  context_.enter("restart");
  const std::string where = "in-process restart after: " + fault.message();
  context_.trainer.leave();
  place.leave();
  auto stages = place.join(epoch);
  if (!stages.ok()) return stages.error().with_context(where);
  place.epoch = epoch;
  context_.trainer.join(std::move(stages).value());
  LH_CHECK(go_back(epoch).with_context(where));
  context_.beat->epoch(epoch);
  context_.outcome.restarts += 1;
  Value fields = Value::make_table();
  fields.set("step", context_.step());
  fields.set("load_s", context_.seconds_since(begun));
  fields.set("from", "memory");
  fields.set("epoch", epoch);
  context_.events.write("ready", std::move(fields));
  return {};
}

Result<std::int64_t> TrainingRestart::await_order(const Error& fault) {
  InProcessRestart& place = *context_.options.restart;
  // What was found on its way into an update has not spoilt the weights, and may not come again.
  const std::optional<SilentCorruption>& corruption = context_.trainer.corruption();
  FaultHere here{fault, may_pass(fault)};
  if (corruption)
    here.passes = corruption->decided && corruption->weights_are_sound(),
    here.is_own = corruption->rank == context_.group().rank();
  return await_restart_order(*context_.beat, place.epoch, here, context_.clock, context_.stop, [&](const Error& error) {
    if (place.report) place.report(error, corruption);
  });
}

Status TrainingRestart::go_back(std::int64_t epoch) {
  CollectiveGroup& group = context_.group();
  Trainer& trainer = context_.trainer;
  RestartNotice mine{{copies_.held(), std::nullopt}, epoch, saves_.save_key(), saves_.copy_key()};
  if (trainer.whole()) mine.held.own = state_.version();
  const auto packed = mine.packed();
  std::vector<double> all(static_cast<std::size_t>(group.size()) * RestartNotice::fields);
  LH_CHECK(group.all_gather(std::span<const double>(packed), all));
  std::vector<RestartNotice> ranks;
  for (std::size_t at = 0; at < all.size(); at += RestartNotice::fields)
    ranks.push_back(RestartNotice::from_packed(std::span<const double>(all).subspan(at, RestartNotice::fields)));
  LH_TRY(const RestartAgreement agreed, agreement_of(ranks, static_cast<std::size_t>(group.rank())));
  const bool restores = !trainer.whole() || state_.version() != agreed.version;
  saves_.finish_copy();
  if (restores)
    LH_CHECK(restore());
  else
    LH_CHECK(roll_back_.check_time_line(state_.view()));
  state_.set_version(agreed.version);
  copies_.begin_again();
  reporter_.forget_phase();
  trainer.store().refresh_compute_copy(trainer.context());
  control_.see_again();
  LH_CHECK(reporter_.resumed_after(context_.step()));
  return saves_.settle(agreed.save_goes_on, agreed.copy_goes_on);
}

Status TrainingRestart::restore() {
  TrainingState state = state_.view();
  copies_.restore(state);
  LH_CHECK(roll_back_.check_time_line(state));
  state_.set_learning_rate(state.extra.get_number(ordered_lr_key));  // 0: as configured
  LH_CHECK(state_.take(state, false));
  context_.outcome.loss = state.extra.get_number(checkpoint_loss_key, context_.outcome.loss);
  context_.trainer.set_whole(true);
  return {};
}

}  // namespace longhaul
