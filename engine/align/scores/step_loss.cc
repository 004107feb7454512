#include "engine/align/scores/step_loss.h"

#include "engine/align/logistic.h"

namespace longhaul {

StepLoss step_loss(double number, double label) {
  return {label * minus_log_sigmoid(number) + (1 - label) * minus_log_sigmoid(-number), sigmoid(number) - label};
}

}  // namespace longhaul
