// A communicator that writes down what a rank starts and waits for, in its order, and needs no other ranks: each of
// them is taken to give what this one gives. So one thread runs any rank of any layout. Nothing is done before it is
// waited for, and asking (Communicator::test) never finishes anything: the record has the waits of the engine, at the
// latest place where the host can go on.
#pragma once

#include <memory>
#include <vector>

#include "engine/comm/communicator.h"

namespace longhaul::testing {

struct RecordedGroup {
  int axis = 0, rank = 0;
  std::vector<int> members;  // as ranks of the world
};
struct RecordedAction {
  bool waits = false;  // for the post of that number; else it is one
  int post = 0;
  // Of a post:
  int group = 0;  // in CommunicationRecord::groups
  CollectiveKind kind{};
  int peer = 0, from = -1, tag = 0;  // as Communicator has them; from is -1 but for an exchange
};
struct CommunicationRecord {
  std::vector<RecordedGroup> groups;
  std::vector<RecordedAction> actions;
  int posts = 0;
};

// The world of so many ranks, as `rank` sees it; its sub-groups are recorded too. `record` is borrowed.
std::unique_ptr<Communicator> make_recording_communicator(CommunicationRecord& record, int rank, int size,
                                                          const CommOptions& options);

}  // namespace longhaul::testing
