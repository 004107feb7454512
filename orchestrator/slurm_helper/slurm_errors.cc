#include "orchestrator/slurm_helper/slurm_errors.h"

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include <cerrno>

#include "base/text/text.h"

namespace longhaul {
namespace {

// The ranges of slurm_errno.h.
constexpr int first_communication_error = 1000, first_controller_error = 2000, last_controller_error = 2999;
constexpr int first_socket_error = 5000, last_authentication_error = 6999;
constexpr int first_database_error = 7000, last_database_error = 7099;

bool is_refused_for_now(int number) {
  switch (number) {
    case ESLURM_ACCOUNTING_POLICY:     // a limit of the account or QOS
    case ESLURM_DEFER:                 // too busy
    case ESLURM_SUBMISSIONS_DISABLED:  // by the administrator
    case ESLURM_IN_STANDBY_MODE:       // the backup controller answers, and does not lead
    case ESLURM_IN_STANDBY_USE_BACKUP:
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(26, 5, 0)
    case ESLURM_ERROR_ON_DESC_TO_RECORD_COPY:  // MaxJobCount is reached
#endif
    case ESLURM_NODES_BUSY:
    case ESLURM_NODE_NOT_AVAIL:
    case ESLURM_PARTITION_NOT_AVAIL:
    case ESLURM_RESERVATION_BUSY:
    case ESLURM_TRANSITION_STATE_NO_UPDATE:
    case ESLURM_INTERNAL:
    case EAGAIN: return true;
    default: return false;
  }
}

}  // namespace

bool is_connection_error(int number) {
  if (number == EAGAIN || number == ENOMEM) return false;
  return (number > 0 && number < first_communication_error) ||
         (number >= first_communication_error && number < first_controller_error) ||
         (number >= first_socket_error && number <= last_authentication_error) ||
         (number > last_controller_error && number < 4000);
}

Error slurm_error(const std::string& what, int number) {
  const char* message = slurm_strerror(number);
  const std::string text = format("{}: {} (Slurm error {})", what, message ? message : "no reason given", number);
  if (number == SLURM_PROTOCOL_VERSION_ERROR)
    return make_error(
        ErrorCode::unsupported, text,
        "longhaul-slurm is of another release than slurmctld; use slurm_backend = \"cli\", or build it again");
  if (number == ESLURM_INVALID_JOB_ID) return make_error(ErrorCode::not_found, text);
  if (is_connection_error(number) || is_refused_for_now(number) ||
      (number >= first_database_error && number <= last_database_error))
    return make_error(ErrorCode::unavailable, text, "it is tried again later");
  return make_error(ErrorCode::invalid_input, text);
}

}  // namespace longhaul
