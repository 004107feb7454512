#include "worker/lead/monitor/goodput_watch.h"

#include <cmath>

#include "resiliency/goodput/goodput_events.h"

namespace longhaul {

void GoodputWatch::take(const std::vector<Event>& news, std::int64_t now_ms) {
  if (news.empty()) return;
  std::vector<Event> heard = news;
  for (Event& event : heard) event.wall_ms = now_ms;
  for (const GoodputFact& fact : facts_of({}, heard)) ledger_.add(fact);
  trained_ |= ledger_.trained();
  window_.note(now_ms, before_ms_ + ledger_.ms(TimeClass::training));
}

RecentGoodput GoodputWatch::at_fault(std::int64_t now_ms, double detect_s, std::int64_t step) const {
  if (!trained_) return {};
  GoodputFact fault;
  fault.at_ms = now_ms;
  fault.kind = GoodputFact::Kind::fault;
  fault.step = step;
  fault.part_ms = std::llround(1e3 * detect_s);
  GoodputLedger ledger = ledger_;
  ledger.add(fault);
  GoodputWindow window = window_;
  window.note(now_ms, before_ms_ + ledger.ms(TimeClass::training));
  return window.recent();
}

Value GoodputWatch::snapshot(std::int64_t now_ms) const {
  Value value = Value::make_table();
  Value notes = Value::make_array();
  for (const auto& [at_ms, training_ms] : window_.notes()) {
    Value note = Value::make_array();
    note.push_back(now_ms - at_ms);
    note.push_back(training_ms);
    notes.push_back(std::move(note));
  }
  value.set("trained", trained_);
  value.set("notes", std::move(notes));
  return value;
}

GoodputWatch GoodputWatch::of(const Value& saved, std::int64_t now_ms) {
  GoodputWatch watch(now_ms);
  const Value* notes = saved.is_table() ? saved.find("notes") : nullptr;
  if (!notes || !notes->is_array() || notes->as_array().empty()) return watch;
  watch.window_ = GoodputWindow();
  for (const Value& note : notes->as_array()) {
    if (!note.is_array() || note.as_array().size() != 2) return GoodputWatch(now_ms);
    const Value &ago = note.as_array()[0], &training = note.as_array()[1];
    if (!ago.is_integer() || !training.is_integer()) return GoodputWatch(now_ms);
    watch.window_.note(now_ms - ago.as_integer(), training.as_integer());
    watch.before_ms_ = training.as_integer();
  }
  watch.trained_ = saved.get_bool("trained", false);
  return watch;
}

}  // namespace longhaul
