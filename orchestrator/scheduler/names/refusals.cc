#include "orchestrator/scheduler/names/refusals.h"

#include "orchestrator/scheduler/names/reason_names.h"

namespace longhaul {
namespace {

using R = Refusal;

// The more significant phrases stand before those that come with many errors.
constexpr RefusalPhrase refusal_table[] = {
    {"Unable to contact slurm controller", R::silence},
    {"Unable to establish controller machine", R::silence},
    {"Socket timed out", R::silence},
    {"Connection refused", R::silence},
    {"Connection timed out", R::silence},
    {"Connection reset", R::silence},
    {"Transport endpoint", R::silence},
    {"Zero Bytes were transmitted", R::silence},
    {"Message receive failure", R::silence},
    {"Communication connection failure", R::silence},
    {"Communication shutdown failure", R::silence},
    {"Insane message length", R::silence},
    {"Broken pipe", R::silence},
    {"No route to host", R::silence},
    {"Network is unreachable", R::silence},
    {"Host is down", R::silence},
    {"Protocol authentication error", R::silence},
    {"authentication", R::silence},
    {"munge", R::silence},

    {"in standby mode", R::busy},
    {"backup controller", R::busy},
    {"try a different controller", R::busy},
    {"temporarily", R::busy},
    {"queue full", R::busy},
    {"Job can not be altered now, try again later", R::busy},
    {"Unable to create job record, try again", R::busy},
    {"scheduling attempts deferred", R::busy},
    {"MaxJobCount limit reached", R::busy},
    {"System submissions disabled", R::busy},
    {"submission disabled", R::busy},
    {"submissions are disabled", R::busy},
    {"Slurm internal error", R::busy},
    {"I/O error writing script/environment to file", R::busy},
    {"Requested nodes are busy", R::busy},
    {"Required node not available", R::busy},
    {"Required partition not available", R::busy},
    {"Partition in DOWN state", R::busy},
    {"Requested reservation is in use", R::busy},
    {"Requested reservation not usable now", R::busy},
    {"due to maintenance reservation", R::busy},
    {"Licenses currently unavailable", R::busy},
    {"Waiting for burst buffer", R::busy},
    {"PrologSlurmctld is still running", R::busy},
    {"Slurm database is temporarily unavailable", R::busy},
    {"Unable to connect to database", R::busy},

    {"QOS usage threshold", R::limit},

    {"Invalid partition name specified", R::never},
    {"invalid partition specified", R::never},
    {"No partition specified or system default partition", R::never},
    {"Access/permission denied", R::never},
    {"Access denied to requested reservation", R::never},
    {"group not permitted to use this partition", R::never},
    {"Requested nodes not in this partition", R::never},
    {"More processors requested than permitted", R::never},
    {"Node count specification invalid", R::never},
    {"CPU count specification invalid", R::never},
    {"Task count specification invalid", R::never},
    {"Task distribution specification invalid", R::never},
    {"Job size specification needs to be provided", R::never},
    {"Job script not specified", R::never},
    {"Pathname of a file, directory or other parameter too long", R::never},
    {"Requested node configuration is not available", R::never},
    {"Requested partition configuration not available", R::never},
    {"Memory required by task is not available", R::never},
    {"Memory specification can not be satisfied", R::never},
    {"Job dependency problem", R::never},
    {"Circular job dependency", R::never},
    {"Invalid account or account/partition combination", R::never},
    {"Requested time limit is invalid", R::never},
    {"Requested reservation is invalid", R::never},
    {"Burst Buffer permission denied", R::never},
    {"Burst Buffer request invalid", R::never},
    {"Burst Buffer resource limit exceeded", R::never},
    {"Requires more ports than can be reserved", R::never},
    {"Only batch jobs are accepted", R::never},
    {"Requested operation not supported on this system", R::never},
    {"Requested operation is presently disabled", R::never},
    {"Requested GRES option unsupported", R::never},
    {"Duplicate generic resource", R::never},
    {"cannot be submitted without the current working directory", R::never},
    {"Environment is missing in job", R::never},
    {"Multiple partition job request not supported", R::never},
    {"Job --batch option is invalid", R::never},
    {"Cannot request more threads per core", R::never},
    {"not permitted", R::never},
    {"not allowed", R::never},
    {"not authorized", R::never},
    // sbatch's own, of options and scripts that it does not take.
    {"unrecognized option", R::never},
    {"invalid option", R::never},
    {"requires an argument", R::never},
    {"is ambiguous", R::never},
    {"Unable to open file", R::never},
    {"Batch script", R::never},
    {"batch script", R::never},
    {"does not exist", R::never},
    {"does not look like a batch script", R::never},
    {"Invalid", R::never},
    {"invalid", R::never},
    // Which limit of accounting it is stands on the line before, and is looked at first; what a filter of the site says
    // as well.
    {"accounting/QOS policy", R::unknown},
    {"Unspecified error", R::unknown},
    {"No error", R::unknown},
};

constexpr const char* busy_hint = "Slurm does not take it now; it is tried again";
constexpr const char* limit_hint =
    "a limit on the number of jobs is reached; it is submitted again when others have ended";
constexpr const char* unknown_hint =
    "it is not known whether that passes: it is tried again, reported after ten minutes, and fails after "
    "submit_patience";

bool is_of_a_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// The first name of a limit in the message.
LimitKind limit_in(const std::string& message) {
  for (std::size_t at = 0; at < message.size();) {
    std::size_t end = at;
    while (end < message.size() && is_of_a_name(message[end])) ++end;
    if (end > at)
      if (const LimitKind limit = limit_kind(message.substr(at, end - at)); limit != LimitKind::none) return limit;
    at = end + 1;
  }
  return LimitKind::none;
}

}  // namespace

const char* to_string(Refusal refusal) {
  switch (refusal) {
    case R::silence: return "silence";
    case R::busy: return "busy";
    case R::limit: return "limit";
    case R::unknown: return "unknown";
    case R::never: return "never";
  }
  return "unknown";
}

std::span<const RefusalPhrase> refusal_phrases() {
  return refusal_table;
}

Refusal refusal_of(const std::string& message) {
  switch (limit_in(message)) {
    case LimitKind::count: return R::limit;
    case LimitKind::size: return R::never;
    case LimitKind::budget: return R::unknown;
    case LimitKind::none: break;
  }
  for (const RefusalPhrase& one : refusal_table)
    if (message.find(one.phrase) != std::string::npos) return one.means;
  return R::unknown;
}

Error refusal_error(std::string what, Refusal refusal) {
  switch (refusal) {
    case R::silence: return make_error(ErrorCode::unavailable, std::move(what), "it is tried again later");
    case R::busy: return make_error(ErrorCode::unavailable, std::move(what), busy_hint);
    case R::limit: return make_error(ErrorCode::unavailable, std::move(what), limit_hint);
    case R::unknown: return make_error(ErrorCode::unavailable, std::move(what), unknown_hint);
    case R::never: break;
  }
  return make_error(ErrorCode::invalid_input, std::move(what));
}

Refusal refusal_in(const Error& error) {
  if (error.code != ErrorCode::unavailable) return R::never;
  if (error.hint == busy_hint) return R::busy;
  if (error.hint == limit_hint) return R::limit;
  if (error.hint == unknown_hint) return R::unknown;
  return R::silence;
}

bool may_have_been_accepted(const Error& error) {
  const R refusal = refusal_in(error);
  return refusal == R::silence || refusal == R::unknown;
}

}  // namespace longhaul
