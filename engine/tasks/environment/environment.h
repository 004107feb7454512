// Room engine/tasks/environment
// Who speaks between two turns of the model while answers are drawn (rollout.turns): a tool that the model has called,
// a simulated user, a game. environment.h asks the user's program or endpoint. It knows neither tokens nor training:
// engine/tasks/rollouts draws the turns and keeps what belongs to whom.
//
// Programs and endpoints are asked once a turn, on each rank for all of its conversations that are open, and get each
// conversation whole. A program is started anew each time, so that it keeps nothing from one turn to the next: what is
// said depends on the conversation alone as far as the program is a function of it, and then neither a restart nor
// another number of ranks changes what is drawn.
//
//   a line of a program, an item of an endpoint   {"messages": [{"role": ..., "content": ...}, ...], "turn": 1,
//                                                  "answer": the row's or null}
//   for each of them                              {"content": a text, "done": false}   or   {"done": true}
//
// `messages` are the row's and all that followed, the model's last turn at the end; `turn` counts the model's, from 1.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "contracts/settings/training/training.h"
#include "engine/data/template/chat.h"

namespace longhaul {

struct OpenConversation {
  std::vector<ChatMessage> messages;
  std::int64_t turn = 1;
  Value answer;
};

struct EnvironmentReply {
  std::string content;       // "": it says nothing, which it may only where it is done
  bool done = false;         // the conversation ends here
  std::string problem = {};  // "": none; else what went wrong, and there is no reply
};

class Environment {
 public:
  // Of settings that check_alignment passes.
  explicit Environment(const RolloutSettings& settings) : settings_(settings) {}

  // One for each conversation, in their order. A program is ended at the deadline with what it has started in its
  // process group; an endpoint is asked as engine/tasks/rewards/endpoint.h says. Where there is no answer at all, or
  // the program ends with another exit code than 0, whatever it has printed, that is the problem of all conversations;
  // a line or item that is no reply (no JSON, another key, no content, content
  // that is no UTF-8 or more than 1 MiB) is the problem of its own. Thread-safe.
  std::vector<EnvironmentReply> ask(std::span<const OpenConversation> conversations) const;

 private:
  std::vector<EnvironmentReply> ask_program(std::span<const OpenConversation> conversations) const;
  std::vector<EnvironmentReply> ask_url(std::span<const OpenConversation> conversations) const;

  RolloutSettings settings_;
};

}  // namespace longhaul
