// Which of a few candidates is the fastest in truth: a pure state machine over what trials have shown so far.
// Candidates come in the order in which they are worth a trial; each round runs the next few, and what has been
// measured corrects the predictions of those that are left (autotune/time/measured_correction.h) and with them their
// order. The same candidates, results and limits give the same decision, so whoever reads the results again goes on
// where another one stopped.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "autotune/trials/step_time_interval.h"
#include "autotune/trials/trial.h"

namespace longhaul {

struct ConfirmationLimits {
  int max_runs = 5;  // trials that are begun; 0: none, the first candidate wins by its prediction
  int at_once = 2;   // of a round
  double confidence = 0.95;
  // Two jobs of the same settings differ by this much, relatively, whatever the steps of each say.
  double repeat_sigma = 0.005;
  // Of one whose steps are not yet all measured: fewer than this say nothing.
  int steps_to_judge = 5;
};

enum class CandidateState { waiting, running, measured, failed, set_aside };

struct CandidateVerdict {
  std::string name;
  CandidateState state = CandidateState::waiting;
  StepTimeInterval seconds;      // measured
  double predicted_seconds = 0;  // after recalibration; 0: nobody predicted it
  double predicted_low = 0;      // of its interval
  double predicted_sigma = 0;    // relative standard error, after recalibration as well
  bool won = false;
  std::string why;  // one sentence: "measured 0.412 s ± 1.2 % (predicted 0.398 s): 8.1 % slower than tp2"
};

struct ConfirmationDecision {
  std::vector<std::string> run;   // to be submitted now, in this order
  std::vector<std::string> stop;  // running ones that cannot win any more
  bool finished = false;
  std::string winner;                        // "" while it is not finished, or where no candidate can be had
  std::string problem;                       // finished without a winner: why
  bool by_prediction = false;                // nothing was measured
  bool separated = false;                    // the winner's interval lies below all others that were measured; else
                                             // it has the fastest steps of those that are not distinguished
  double scale = 1;                          // measured over predicted, of those that have both; 1: none
  int runs = 0;                              // trials that were begun
  std::vector<CandidateVerdict> candidates;  // in the order given
};

ConfirmationDecision decide_confirmation(std::span<const Trial> candidates, std::span<const TrialResult> results,
                                         const ConfirmationLimits& limits);

}  // namespace longhaul
