// What all ranks do after a step follows from what each of them brings, and from nothing else.
#include "engine/train/loop/step_requests.h"

#include <doctest/doctest.h>

#include "engine/train/loop/training_restart.h"

using namespace longhaul;

namespace {

RankNotice notice_of(double left_s, double save_s, double step_s) {
  RankNotice notice;
  notice.left_s = left_s, notice.save_s = save_s, notice.step_s = step_s;
  return notice;
}

}  // namespace

TEST_CASE("a notice arrives as it was sent") {
  RankNotice sent;
  sent.stop = true, sent.signal = 12, sent.save = true, sent.copying = true;
  sent.interval = 7, sent.learning_rate = 0.25, sent.copy_every = 3;
  sent.left_s = 1.5, sent.save_s = 2.5, sent.step_s = 3.5;
  const RankNotice got = RankNotice::from_packed(sent.packed());
  CHECK(got.stop);
  CHECK(got.signal == 12);
  CHECK_FALSE(got.shorten);
  CHECK(got.save);
  CHECK_FALSE(got.writing);
  CHECK(got.copying);
  CHECK_FALSE(got.reading);
  CHECK(got.interval == 7);
  CHECK(got.learning_rate == 0.25);
  CHECK(got.copy_every == 3);
  CHECK(got.left_s == 1.5);
  CHECK(got.save_s == 2.5);
  CHECK(got.step_s == 3.5);
}

TEST_CASE("what is under way advances when every rank has done its part of it") {
  std::vector<RankNotice> ranks(3);
  SaveSituation now;
  CHECK_FALSE(requests_of(ranks, now).advance_save);  // nothing is under way
  now.saving = now.copying = now.reading = true;
  ranks[1].writing = true, ranks[2].reading = true;
  const StepRequests asked = requests_of(ranks, now);
  CHECK_FALSE(asked.advance_save);
  CHECK(asked.advance_copy);
  CHECK_FALSE(asked.advance_read);
}

TEST_CASE("one rank that is to stop stops all; signals that differ are none") {
  std::vector<RankNotice> ranks(3);
  CHECK_FALSE(requests_of(ranks, {}).stop);
  ranks[1].stop = ranks[2].stop = true, ranks[1].signal = ranks[2].signal = 15;
  CHECK(requests_of(ranks, {}).stop);
  CHECK(requests_of(ranks, {}).cause.signal == 15);
  CHECK(requests_of(ranks, {}).cause.ranks == 3);
  ranks[2].signal = 10;
  CHECK(requests_of(ranks, {}).cause.signal == 0);
}

TEST_CASE("a training stops by itself while one more step and a save still fit, by the rank with least time") {
  SaveSituation now;
  // 1.5 * (4 + 2) + 2 = 11 s are needed.
  CHECK_FALSE(requests_of(std::vector{notice_of(60, 4, 2), notice_of(12, 1, 9)}, now).stop);
  const StepRequests late = requests_of(std::vector{notice_of(60, 4, 2), notice_of(10.5, 1, 9)}, now);
  CHECK(late.stop);
  CHECK(late.cause.by_own_timer());
  CHECK(late.left_s == 10.5);
  CHECK(late.save_s == 4);
  CHECK(late.fits());
  CHECK_FALSE(requests_of(std::vector{notice_of(5.9, 4, 2)}, now).fits());
  now.saving = true;  // the save under way comes first
  CHECK(requests_of(std::vector{notice_of(60, 4, 2), notice_of(12, 1, 9)}, now).stop);
  CHECK_FALSE(requests_of(std::vector{notice_of(0, 4, 2)}, now).stop);  // no end is known
  CHECK(requests_of(std::vector{notice_of(0, 4, 2)}, now).fits());
}

TEST_CASE("saves are due by the ordered interval, else by the configured one; copies by the rank that bears fewest") {
  std::vector<RankNotice> ranks(2);
  SaveSituation now;
  now.place.step = 6;
  CHECK_FALSE(requests_of(ranks, now).save);
  now.checkpoint_every_steps = 3;
  CHECK(requests_of(ranks, now).save);
  ranks[0].interval = 4, ranks[1].interval = 6;
  CHECK_FALSE(requests_of(ranks, now).save);  // the first rank's counts
  ranks[1].save = true;
  CHECK(requests_of(ranks, now).save);
  CHECK(requests_of(ranks, now).ordered);
  ranks[0].copy_every = 2, ranks[1].copy_every = 9, ranks[0].learning_rate = 0.5, ranks[1].learning_rate = 0.25;
  CHECK(requests_of(ranks, now).copy_every == 9);
  CHECK(requests_of(ranks, now).learning_rate == 0.5);
}

TEST_CASE("steps that belong together end, and are saved, at the last of them") {
  const auto place = [](std::int64_t step) { return StepPlace{step, 11, 4}; };
  std::vector<std::int64_t> ends, due;
  for (std::int64_t step = 1; step <= 11; ++step) {
    if (place(step).may_end()) ends.push_back(step);
    if (place(step).is_due(5)) due.push_back(step);  // at 5 and at 10
  }
  CHECK(ends == std::vector<std::int64_t>{4, 8, 11});
  CHECK(due == std::vector<std::int64_t>{8, 11});
  CHECK_FALSE(place(8).is_due(0));
  std::vector<RankNotice> ranks(2);
  ranks[0].stop = ranks[1].shorten = true;
  SaveSituation now;
  now.checkpoint_every_steps = 1, now.place = place(7);
  const StepRequests early = requests_of(ranks, now);
  CHECK_FALSE(early.stop);
  CHECK_FALSE(early.shorten);
  CHECK_FALSE(early.save);
  now.place = place(8);
  const StepRequests asked = requests_of(ranks, now);
  CHECK(asked.stop);
  CHECK(asked.shorten);
  CHECK(asked.save);
}

TEST_CASE("after a restart all go back to the newest common state; what not all are as far with is given up") {
  const auto notice = [](std::optional<std::int64_t> copy, std::optional<std::int64_t> own, std::int64_t save_key) {
    return RestartNotice{{copy, own}, 2, save_key, -1};
  };
  std::vector<RestartNotice> ranks = {notice(4, 5, 9), notice(4, std::nullopt, 9)};
  CHECK(agreement_of(ranks, 0)->version == 4);
  CHECK(agreement_of(ranks, 0)->save_goes_on);
  CHECK(agreement_of(ranks, 0)->copy_goes_on);
  ranks[1] = RestartNotice::from_packed(notice(std::nullopt, 5, 10).packed());
  CHECK(agreement_of(ranks, 1)->version == 5);
  CHECK_FALSE(agreement_of(ranks, 1)->save_goes_on);
  ranks[1] = notice(3, std::nullopt, 9);
  CHECK(agreement_of(ranks, 0).error().code == ErrorCode::unavailable);
  ranks[1].epoch = 3;
  CHECK(agreement_of(ranks, 1).error().what == "rank 0 was ordered to epoch 2, this one to 3");
}
