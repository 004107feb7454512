#include <algorithm>

#include "base/text/text.h"
#include "orchestrator/decide/order_answer.h"
#include "orchestrator/decide/round.h"

namespace longhaul {
namespace {

void put_order(Value& fields, const std::string& request, const OrderAnswer& reply) {
  Order order = reply.order;
  order.id = ends_with(request, ".json") ? request.substr(0, request.size() - 5) : request;
  fields.set("stage", reply.stage);
  fields.set("order", order_to_value(order));
}

// Whether stages that have ended are to be tried again.
bool answer_one(Round& round, const RequestSeen& request) {
  if (round.now.answered(request.id)) return false;
  Value fields = Value::make_table();
  fields.set("id", request.id);
  fields.set("what", request.what);
  if (request.uid >= 0) fields.set("uid", static_cast<long long>(request.uid));
  std::string answer;
  bool accepted = true;
  // What is still to be cancelled: all jobs, or the next one of a chain that has ended.
  const bool cancelling = std::any_of(round.now.stages.begin(), round.now.stages.end(), [&](const LedgerStage& s) {
    return (round.now.cancel_requested && s.job_open()) || (is_final(s.state) && s.successor_open());
  });
  if (request.what == "cancel") {
    accepted = !round.now.ended;
    answer = accepted ? "cancelling" : "the run has ended already";
  } else if (request.what == "resume") {
    accepted = !cancelling;
    answer = accepted ? "failed, cancelled and skipped stages are tried again"
                      : "jobs are still being cancelled; ask again when they have ended";
  } else if (request.what == "tell") {
    const OrderAnswer reply = answer_order(round.plan, round.now, request.arguments);
    accepted = reply.accepted;
    answer = reply.answer;
    if (accepted) put_order(fields, request.id, reply);
  } else {
    accepted = false;
    answer = "not a request that this version knows";
  }
  fields.set("accepted", accepted);
  fields.set("answer", answer);
  round.emit(FactKind::request, {}, 0, std::move(fields));
  return accepted && request.what == "resume";
}

}  // namespace

bool answer_requests(Round& round) {
  bool resumed = false;
  for (const RequestSeen& request : round.seen.requests) resumed = answer_one(round, request) || resumed;
  return resumed;
}

void try_again(Round& round) {
  for (LedgerStage& stage : round.now.stages) {
    const bool ended_badly =
        stage.state == StageState::failed || stage.state == StageState::cancelled || stage.state == StageState::skipped;
    if (ended_badly && !stage.successor_open()) round.emit(FactKind::reset, stage.id, 0, {});
  }
}

void look_at_notices(Round& round) {
  for (const SchedulerNotice& notice : round.seen.notices) {
    if (round.now.noticed(notice.id)) continue;
    Value fields = Value::make_table();
    fields.set("id", notice.id);
    fields.set("text", notice.text);
    round.emit(FactKind::noticed, {}, 0, std::move(fields));
  }
}

void look_at_orders(Round& round) {
  for (std::size_t i = 0; i < round.now.orders.size(); ++i) {
    const LedgerOrder order = round.now.orders[i];
    if (!order.outcome.empty()) continue;
    const auto seen = round.seen.orders.find(order.order.id);
    const LedgerStage* stage = round.now.find(order.stage);
    if (seen == round.seen.orders.end() && stage && !is_final(stage->state)) continue;
    Value fields = Value::make_table();
    fields.set("id", order.order.id);
    fields.set("done", seen != round.seen.orders.end() && seen->second.done);
    fields.set("text", seen != round.seen.orders.end() ? seen->second.text : "the stage ended before it could be done");
    round.emit(FactKind::order_ended, order.stage, 0, std::move(fields));
  }
}

void look_at_milestones(Round& round) {
  for (const auto& [id, steps] : round.seen.milestones) {
    const LedgerStage* stage = round.now.find(id);
    for (const auto& [step, artifact] : steps) {
      if (!stage || stage->key.empty() || stage->milestones.contains(step)) continue;
      Value fields = Value::make_table();
      fields.set("step", static_cast<long long>(step));
      put_artifact(fields, artifact);
      round.emit(FactKind::milestone, id, 0, std::move(fields));
    }
  }
}

}  // namespace longhaul
