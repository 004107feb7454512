// What is seen of a host of a launch, and what is found to be at fault.
#pragma once

#include <cstdint>
#include <string>

#include "resiliency/detect/hang/rank_observation.h"
#include "resiliency/taxonomy/fault_class.h"

namespace longhaul {

struct HostObservation {
  std::string host;
  bool ever_heard = false;     // its agent has reported in this job
  bool connected = false;      // its connection stands, as far as can be known, or broke for want of an answer
  std::int64_t silent_ms = 0;  // since its last message
  std::int64_t apart_ms = 0;   // since its connection broke; 0: it stands
  // What says for sure that it is not fit to work on, where it may be left for that; none otherwise.
  FaultClass unfit = FaultClass::none;
  std::string unfit_why = {};
  bool agent_comes = false;  // its agent alone has died, and another one is being started
};

struct GuardFinding {
  enum class Kind {
    rank_ended,
    host_lost,
    hang,
    stuck_collective,  // all ranks wait in collectives, and nobody stands outside of them
    unhealthy,         // a node is not fit to work on, though its ranks still do
    faulted,           // a rank has a fault that it survived, all processes live, and they wait for an order to go on
    desynchronised,    // all ranks wait for each other in different collectives
    no_progress,       // ranks beat, and no step is completed
    // By the stage's settings (training_watch.h), where nothing is at fault:
    slow_rank,  // its host is left for a spare
    bad_loss,   // the loss is no number
  };
  Kind kind = Kind::rank_ended;
  int rank = -1;     // culprit; -1: a whole node
  std::string host;  // of the culprit
  std::string section;
  ProcessState process = ProcessState::none;  // of the culprit of a hang, when it was found
  std::int64_t step = -1;
  std::string cause;                    // one sentence
  double detect_s = 0;                  // since the culprit's last heartbeat
  FaultClass fault = FaultClass::none;  // of an unhealthy node: what was found
  bool of_storage = false;              // a hang of ranks that wait for a file system: no host is accused
  std::string said = {};                // of a fault that was survived and is decided once: what the rank said of it
  std::string no_order = {};  // why no order to go on in-process reaches all ranks; "": it does, or none is due
};

}  // namespace longhaul
