// The heartbeat as text, without sockets: which lines mean what, what is refused, how bytes become lines, what is said
// of orders.
#include "resiliency/beat/beat_line.h"

#include <doctest/doctest.h>

#include <random>

#include "base/text/text.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {
HeartbeatPage page_for_lines(const longhaul::testing::Scratch& folder) {
  auto page = HeartbeatPage::create(folder.file("page"), 0);
  REQUIRE(page.ok());
  return std::move(page).value();
}
Status say(HeartbeatPage& page, const std::string& line) {
  LH_TRY(const BeatLine parsed, parse_beat_line(line));
  return apply_beat_line(parsed, page);
}
std::vector<std::string> cut(const std::vector<std::string>& pieces, int* too_long = nullptr) {
  std::vector<std::string> lines;
  BeatLineCutter cutter;
  const auto take = [&](std::string_view line, bool long_one) {
    lines.emplace_back(line);
    if (too_long) *too_long += long_one;
  };
  for (const std::string& piece : pieces) cutter.take(piece, take);
  cutter.end(take);
  return lines;
}
}  // namespace

TEST_CASE("beat lines: what is said stands on the page") {
  const longhaul::testing::Scratch folder;
  HeartbeatPage page = page_for_lines(folder);
  for (const char* line : {"epoch 3", "section  forward pass\r", "step 12", "enqueued dp", "enqueued dp",
                           "completed dp", "enqueued tp", "progress"}) {
    CAPTURE(line);
    CHECK(say(page, line).ok());
  }
  const BeatSnapshot seen = page.snapshot();
  CHECK(seen.epoch == 3);
  CHECK(seen.section == "forward pass");
  CHECK(seen.step == 12);
  REQUIRE(seen.communicators.size() == 2);
  CHECK(seen.communicators[0].name == "dp");
  CHECK(seen.communicators[0].enqueued == 2);
  CHECK(seen.communicators[0].completed == 1);
  CHECK(seen.communicators[1].enqueued == 1);
  CHECK(seen.waits_in == beat_waits_unknown);
  REQUIRE(say(page, "waits tp").ok());
  CHECK(page.snapshot().waits_in == 1);
  REQUIRE(say(page, "waits").ok());
  CHECK(page.snapshot().waits_in == beat_waits_nowhere);
}

TEST_CASE("beat lines: progress is a change although nothing else changes") {
  const longhaul::testing::Scratch folder;
  HeartbeatPage page = page_for_lines(folder);
  const BeatSnapshot before = page.snapshot();
  while (page.snapshot().changed_ns == before.changed_ns) REQUIRE(say(page, "progress").ok());
  CHECK(page.snapshot().step == before.step);
  CHECK(page.snapshot().changed_ns > before.changed_ns);
}

TEST_CASE("beat lines: malformed ones are refused with a reason and leave the page as it is") {
  const longhaul::testing::Scratch folder;
  HeartbeatPage page = page_for_lines(folder);
  REQUIRE(say(page, "step 5").ok());
  const char* malformed[] = {"",
                             " ",
                             "stpe 6",
                             "STEP 6",
                             "step",
                             "step -1",
                             "step 6.5",
                             "step six",
                             "step 6 7",
                             "step 99999999999999999999",
                             "epoch",
                             "section",
                             "enqueued ",
                             "progress now",
                             "section \x01",
                             "section \xff\xfe",
                             "section a name that is longer than the room for it",
                             "done",
                             "done 1",
                             "done 0"};
  for (const char* line : malformed) {
    CAPTURE(line);
    const Status said = say(page, line);
    REQUIRE(!said.ok());
    CHECK(said.error().code == ErrorCode::invalid_input);
    CHECK(!said.error().what.empty());
  }
  CHECK(say(page, "stpe 6").error().hint.find("step") != std::string::npos);
  CHECK(page.snapshot().step == 5);
  CHECK(page.snapshot().section == "start");
  CHECK(page.snapshot().communicators.empty());
}

TEST_CASE("beat lines: names beyond the room on a page are refused, known ones go on") {
  const longhaul::testing::Scratch folder;
  HeartbeatPage page = page_for_lines(folder);
  for (int i = 1; i < beat_sections_max; ++i) CHECK(say(page, format("section s{}", i)).ok());
  CHECK(!say(page, "section one-more").ok());
  CHECK(page.snapshot().section == "s31");
  CHECK(say(page, "section start").ok());
  CHECK(page.snapshot().section == "start");
  for (int i = 0; i < beat_communicators_max; ++i) CHECK(say(page, format("enqueued c{}", i)).ok());
  CHECK(!say(page, "enqueued one-more").ok());
  CHECK(say(page, "completed c15").ok());
}

TEST_CASE("beat lines: bytes in any pieces become the same lines") {
  const std::string text = "step 1\nsection forward\n\nprogress\nstep 2";
  const std::vector<std::string> whole = cut({text});
  CHECK(whole == std::vector<std::string>{"step 1", "section forward", "", "progress", "step 2"});
  for (unsigned seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t size = 1 + random() % 9;
      pieces.push_back(text.substr(at, size));
      at += size;
    }
    REQUIRE(cut(pieces) == whole);
  }
}

TEST_CASE("beat lines: a line without end holds bounded memory, is reported once, and the next line counts again") {
  for (const std::size_t length : {beat_line_max, beat_line_max + 1, std::size_t{100'000}}) {
    for (const std::size_t piece : {std::size_t{1}, std::size_t{100}, std::size_t{200'000}}) {
      CAPTURE(length);
      CAPTURE(piece);
      const std::string text = std::string(length, 'x') + "\nstep 7\n";
      std::vector<std::string> pieces;
      for (std::size_t at = 0; at < text.size(); at += piece) pieces.push_back(text.substr(at, piece));
      int too_long = 0;
      const std::vector<std::string> lines = cut(pieces, &too_long);
      REQUIRE(lines.size() == 2);
      CHECK(lines[0].size() <= beat_line_max + 1);
      CHECK(lines[1] == "step 7");
      CHECK(too_long == (length > beat_line_max ? 1 : 0));
    }
  }
}

TEST_CASE("beat lines: each order is sent once, with a number that acknowledges it and none after it") {
  const longhaul::testing::Scratch folder;
  HeartbeatPage page = page_for_lines(folder);
  BeatOrders reported;
  CHECK(order_lines(reported, beat_orders(page)).empty());
  page.order_checkpoint();
  CHECK(order_lines(reported, beat_orders(page)) == std::vector<std::string>{"order 1 checkpoint\n"});
  reported = beat_orders(page);
  CHECK(order_lines(reported, beat_orders(page)).empty());
  page.order_stop_after(500);
  page.order_checkpoint();
  CHECK(order_lines(reported, beat_orders(page)) ==
        std::vector<std::string>{"order 2 stop_after 500\n", "order 3 checkpoint\n"});
  reported = beat_orders(page);
  page.order_stop_after(500);  // the same again: whoever gave it waits for its answer
  CHECK(order_lines(reported, beat_orders(page)) == std::vector<std::string>{"order 4 stop_after 500\n"});
  page.order_learning_rate(2.5e-4);
  page.order_checkpoint_interval(50);
  // Somebody new is sent what holds, but not of a checkpoint that was made.
  BeatOrders fresh;
  fresh.checkpoints = 2;
  CHECK(order_lines(fresh, beat_orders(page)) == std::vector<std::string>{"order 4 checkpoint_interval 50\n",
                                                                          "order 5 lr 0.00025\n",
                                                                          "order 6 stop_after 500\n"});
  CHECK(say(page, "done 4").ok());
  CHECK(page.orders_obeyed() == 4);
  CHECK(say(page, "done 2").ok());  // known already
  CHECK(page.orders_obeyed() == 4);
  CHECK(!say(page, "done 7").ok());
}

TEST_CASE("beat lines: the path of a socket always fits") {
  CHECK(beat_socket_path("/dev/shm/longhaul-0123456789abcdef", 12) ==
        "/dev/shm/longhaul-0123456789abcdef/beat-12.sock");
  const std::string deep = "/lustre/" + std::string(150, 'd');
  const std::string path = beat_socket_path(deep, 100'000);
  CHECK(path.size() <= beat_socket_path_max);
  CHECK(path == beat_socket_path(deep, 100'000));
  CHECK(path != beat_socket_path(deep + "e", 100'000));
  const std::string edge = "/" + std::string(beat_socket_path_max - 13, 'd');  // "/beat-3.sock" behind it: just fits
  CHECK(beat_socket_path(edge, 3).size() == beat_socket_path_max);
  CHECK(beat_socket_path(edge, 3).rfind(edge, 0) == 0);
  CHECK(beat_socket_path(edge, 33).rfind("/dev/shm/", 0) == 0);
}
