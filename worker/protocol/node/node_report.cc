#include "worker/protocol/node/node_report.h"

#include "base/digest/hash.h"
#include "base/text/text.h"

namespace longhaul {

namespace {

ProcessState state_named(const std::string& text) {
  for (const ProcessState state :
       {ProcessState::running, ProcessState::stopped, ProcessState::traced, ProcessState::blocked, ProcessState::ended})
    if (text == to_string(state)) return state;
  return ProcessState::none;
}

Value health_to_value(const HealthReport& health) {
  Value notes = Value::make_array();
  for (const HealthNote& note : health.notes) {
    Value one = to_value(note.finding);
    one.set("serial", note.serial);
    notes.push_back(std::move(one));
  }
  Value value = Value::make_table();
  value.set("since", health.since);
  value.set("looks", health.looks);
  if (health.figures.measured()) value.set("figures", to_value(health.figures));
  value.set("notes", std::move(notes));
  if (!health.gpu_script.empty()) value.set("gpu_script", health.gpu_script);
  value.set("gpus_watched", health.gpus_watched);
  if (!health.gpus_hidden.empty()) value.set("gpus_hidden", health.gpus_hidden);
  return value;
}

HealthReport health_from_value(const Value& value) {
  HealthReport health;
  health.since = value.get_integer("since");
  health.looks = static_cast<int>(value.get_integer("looks"));
  if (const Value* figures = value.find("figures")) health.figures = host_figures_from_value(*figures);
  if (const Value* notes = value.find("notes"); notes && notes->is_array())
    for (const Value& one : notes->as_array())
      health.notes.push_back({one.get_integer("serial"), health_finding_from_value(one)});
  health.gpu_script = value.get_string("gpu_script");
  health.gpus_watched = static_cast<int>(value.get_integer("gpus_watched"));
  health.gpus_hidden = value.get_string("gpus_hidden");
  return health;
}

Value problems_to_value(const std::vector<FaultProblem>& problems) {
  Value all = Value::make_table();
  for (const FaultProblem& problem : problems) all.set(problem.id, problem.why);
  return all;
}

std::vector<FaultProblem> problems_from_value(const Value* value) {
  std::vector<FaultProblem> problems;
  if (value && value->is_table())
    for (const ValueMember& one : value->as_table())
      if (one.value.is_string()) problems.push_back({one.key, one.value.as_string()});
  return problems;
}

Value exchange_to_value(const NodeReport& report) {
  Value value = Value::make_table();
  value.set("port", report.exchange_port);
  value.set("done", report.exchange_done);
  Value& figures = value.set("figures", Value::make_array());
  for (const ExchangeFigure& one : report.exchanged) {
    Value figure = Value::make_table();
    figure.set("to", one.to);
    figure.set("mb_per_s", one.mb_per_s);
    figures.push_back(std::move(figure));
  }
  return value;
}

void take_exchange(const Value& value, NodeReport& report) {
  report.exchange_port = static_cast<int>(value.get_integer("port"));
  report.exchange_done = value.get_bool("done", false);
  if (const Value* figures = value.find("figures"); figures && figures->is_array())
    for (const Value& one : figures->as_array())
      report.exchanged.push_back({one.get_string("to"), one.get_number("mb_per_s")});
}

Error wrong(const std::string& what) {
  return make_error(ErrorCode::corrupt, "a message of an agent or a lead lacks " + what);
}

}  // namespace

Result<std::string> new_node_beat_folder() {
  LH_TRY(const std::string random, random_hex(16));
  return node_beat_prefix + random;
}

bool RankReport::operator==(const RankReport& other) const {
  const auto same = [](const BeatCommunicator& a, const BeatCommunicator& b) {
    return a.name == b.name && a.enqueued == b.enqueued && a.completed == b.completed;
  };
  const BeatSnapshot &a = beat, &b = other.beat;
  return state == other.state && a.rank == b.rank && a.pid == b.pid && a.epoch == b.epoch && a.step == b.step &&
         a.section == b.section && a.changed_ns == b.changed_ns && a.waits_in == b.waits_in &&
         a.waits_for == b.waits_for && a.written_bytes == b.written_bytes &&
         std::equal(a.communicators.begin(), a.communicators.end(), b.communicators.begin(), b.communicators.end(),
                    same);
}

Value node_report_to_value(const NodeReport& report) {
  Value ranks = Value::make_array();
  for (const RankReport& rank : report.ranks) {
    Value communicators = Value::make_array();
    for (const BeatCommunicator& c : rank.beat.communicators) {
      Value one = Value::make_array();
      one.push_back(c.name);
      one.push_back(c.enqueued);
      one.push_back(c.completed);
      communicators.push_back(std::move(one));
    }
    Value one = Value::make_table();
    one.set("rank", rank.beat.rank);
    one.set("pid", rank.beat.pid);
    one.set("epoch", rank.beat.epoch);
    one.set("step", rank.beat.step);
    one.set("section", rank.beat.section);
    one.set("idle_ms", rank.idle_ms);
    one.set("waits_in", rank.beat.waits_in);
    one.set("waits_for", rank.beat.waits_for);
    one.set("polls", rank.beat.polls);
    one.set("computed_ns", rank.beat.computed_ns);
    if (rank.beat.written_bytes > 0) one.set("written_bytes", rank.beat.written_bytes);
    one.set("state", to_string(rank.state));
    one.set("communicators", std::move(communicators));
    ranks.push_back(std::move(one));
  }
  Value value = Value::make_table();
  value.set("host", report.host);
  value.set("launch", report.launch);
  value.set("ranks", std::move(ranks));
  value.set("agent_cpu_s", report.agent_cpu_s);
  value.set("agent_rss_kib", report.agent_rss_kib);
  value.set("standby_port", report.standby_port);
  if (report.health.since > 0) value.set("health", health_to_value(report.health));
  if (report.exchange_port > 0) value.set("exchange", exchange_to_value(report));
  if (!report.fault_problems.empty()) value.set("fault_problems", problems_to_value(report.fault_problems));
  if (!report.orders_done.empty())
    value.set("orders_done", ValueArray(report.orders_done.begin(), report.orders_done.end()));
  return value;
}

Result<NodeReport> node_report_from_value(const Value& value) {
  NodeReport report;
  report.host = value.get_string("host");
  report.launch = static_cast<int>(value.get_integer("launch", -1));
  report.agent_cpu_s = value.get_number("agent_cpu_s");
  report.agent_rss_kib = value.get_integer("agent_rss_kib");
  report.standby_port = static_cast<int>(value.get_integer("standby_port"));
  if (const Value* health = value.find("health")) report.health = health_from_value(*health);
  if (const Value* exchange = value.find("exchange")) take_exchange(*exchange, report);
  report.fault_problems = problems_from_value(value.find("fault_problems"));
  if (const Value* done = value.find("orders_done"); done && done->is_array())
    for (const Value& id : done->as_array())
      if (id.is_string()) report.orders_done.push_back(id.as_string());
  const Value* ranks = value.find("ranks");
  if (report.host.empty() || report.launch < 0 || !ranks || !ranks->is_array()) return wrong("host, launch or ranks");
  for (const Value& one : ranks->as_array()) {
    RankReport rank;
    rank.beat.rank = static_cast<int>(one.get_integer("rank", -1));
    rank.beat.pid = one.get_integer("pid"), rank.beat.epoch = one.get_integer("epoch");
    rank.beat.step = one.get_integer("step", -1), rank.beat.section = one.get_string("section");
    rank.idle_ms = one.get_integer("idle_ms");
    rank.state = state_named(one.get_string("state"));
    rank.beat.waits_in = static_cast<int>(one.get_integer("waits_in", beat_waits_unknown));
    rank.beat.waits_for = static_cast<int>(one.get_integer("waits_for", -1));
    rank.beat.computed_ns = one.get_integer("computed_ns");
    rank.beat.written_bytes = one.get_integer("written_bytes");
    rank.beat.polls = static_cast<std::uint32_t>(one.get_integer("polls"));
    const Value* communicators = one.find("communicators");
    if (rank.beat.rank < 0 || !communicators || !communicators->is_array()) return wrong("a rank or its communicators");
    for (const Value& c : communicators->as_array()) {
      if (!c.is_array() || c.as_array().size() != 3 || !c.as_array()[0].is_string() || !c.as_array()[1].is_integer() ||
          !c.as_array()[2].is_integer())
        return wrong("the counts of a communicator");
      rank.beat.communicators.push_back({c.as_array()[0].as_string(),
                                         static_cast<std::uint64_t>(c.as_array()[1].as_integer()),
                                         static_cast<std::uint64_t>(c.as_array()[2].as_integer())});
    }
    if (rank.beat.waits_in >= static_cast<int>(rank.beat.communicators.size()) ||
        rank.beat.waits_in < beat_waits_unknown)
      return wrong("the communicator that a rank waits in");
    report.ranks.push_back(std::move(rank));
  }
  return report;
}

namespace {

const char* name_of(AgentOrder::Kind kind) {
  switch (kind) {
    case AgentOrder::Kind::watch: return "watch";
    case AgentOrder::Kind::signal: return "signal";
    case AgentOrder::Kind::end: return "end";
    case AgentOrder::Kind::restart: return "restart";
    case AgentOrder::Kind::ping: return "ping";
    case AgentOrder::Kind::standby: return "standby";
    case AgentOrder::Kind::state: return "state";
    case AgentOrder::Kind::stacks: return "stacks";
    case AgentOrder::Kind::fault: return "fault";
    case AgentOrder::Kind::end_by: return "end_by";
    case AgentOrder::Kind::page: return "page";
    case AgentOrder::Kind::exchange: return "exchange";
  }
  return "";
}

}  // namespace

Value agent_order_to_value(const AgentOrder& order) {
  Value ranks = Value::make_array();
  for (const int rank : order.ranks) ranks.push_back(rank);
  Value value = Value::make_table();
  value.set("order", name_of(order.kind));
  value.set("launch", order.launch);
  value.set("folder", order.folder);
  if (!order.store_dir.empty()) value.set("words", order.store_dir);
  value.set("ranks", std::move(ranks));
  value.set("signal", order.signal);
  if (order.restart_wait_ms > 0) value.set("restart_wait_ms", order.restart_wait_ms);
  if (order.epoch > 0) value.set("epoch", order.epoch);
  if (order.lasts_ms > 0) value.set("lasts_ms", order.lasts_ms);
  if (order.kind == AgentOrder::Kind::standby) value.set("host", order.host), value.set("port", order.port);
  if (order.kind == AgentOrder::Kind::standby && !order.what.empty()) value.set("what", order.what);
  if (order.kind == AgentOrder::Kind::state) value.set("state", order.state);
  if (order.left_ms > 0) value.set("left_ms", order.left_ms);
  if (order.kind == AgentOrder::Kind::fault) value.set("id", order.id), value.set("what", order.what);
  if (order.kind == AgentOrder::Kind::page)
    value.set("id", order.id), value.set("what", order.what), value.set("value", order.value);
  if (order.kind == AgentOrder::Kind::exchange) {
    value.set("id", order.id);
    Value& partners = value.set("partners", Value::make_array());
    for (const ExchangePartner& partner : order.partners) {
      Value one = Value::make_table();
      one.set("host", partner.host);
      one.set("address", partner.address);
      one.set("port", partner.port);
      partners.push_back(std::move(one));
    }
  }
  return value;
}

Result<AgentOrder> agent_order_from_value(const Value& value) {
  AgentOrder order;
  const std::string name = value.get_string("order");
  bool known = false;
  using Kind = AgentOrder::Kind;
  for (const auto kind : {Kind::watch, Kind::signal, Kind::end, Kind::ping, Kind::standby, Kind::state, Kind::stacks,
                          Kind::restart, Kind::end_by, Kind::page, Kind::fault, Kind::exchange})
    if (name == name_of(kind)) order.kind = kind, known = true;
  if (!known) return make_error(ErrorCode::unsupported, "the lead orders '" + name + "', which this agent cannot do");
  order.launch = static_cast<int>(value.get_integer("launch"));
  order.folder = value.get_string("folder");
  order.store_dir = value.get_string("words");
  order.signal = static_cast<int>(value.get_integer("signal"));
  order.host = value.get_string("host");
  order.restart_wait_ms = value.get_integer("restart_wait_ms");
  order.epoch = value.get_integer("epoch");
  order.port = static_cast<int>(value.get_integer("port"));
  order.lasts_ms = value.get_integer("lasts_ms");
  order.left_ms = value.get_integer("left_ms");
  order.id = value.get_string("id"), order.what = value.get_string("what");
  order.value = value.get_number("value");
  if (const Value* state = value.find("state")) order.state = *state;
  if (const Value* partners = value.find("partners"); partners && partners->is_array())
    for (const Value& one : partners->as_array())
      order.partners.push_back(
          {one.get_string("host"), one.get_string("address"), static_cast<int>(one.get_integer("port"))});
  const Value* ranks = value.find("ranks");
  if (!ranks || !ranks->is_array()) return wrong("the ranks of an order");
  for (const Value& rank : ranks->as_array()) {
    if (!rank.is_integer()) return wrong("the ranks of an order");
    order.ranks.push_back(static_cast<int>(rank.as_integer()));
  }
  return order;
}

}  // namespace longhaul
