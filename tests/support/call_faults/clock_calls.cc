// A clock that is ahead. Only CLOCK_REALTIME: what a machine counts since its start has no hour to be wrong about.
// Absolute times that a program waits for are its clock's, the kernel's are not.
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include <cerrno>

#include "tests/support/call_faults/call_plan.h"
#include "tests/support/call_faults/next_function.h"

namespace longhaul::call_faults {
namespace {

constexpr std::int64_t ns_of_ms = 1'000'000, ns_of_s = 1'000'000'000;
constexpr time_t year_2001 = 1'000'000'000;  // an absolute time before that is none of CLOCK_REALTIME

std::int64_t ahead_ms() {
  const Plan* plan = current_plan();
  if (plan == nullptr) return 0;
  static std::atomic<std::int64_t> reported{0};
  std::int64_t ahead = 0;
  for (const Rule& rule : *plan)
    if (rule.action == Rule::Action::ahead) ahead = rule.number;
  if (reported.exchange(ahead) != ahead) log_line(Call::clock, "ahead_ms=" + std::to_string(ahead), "-");
  return ahead;
}

timespec shifted(const timespec& time, std::int64_t ms) {
  const std::int64_t ns = static_cast<std::int64_t>(time.tv_sec) * ns_of_s + time.tv_nsec + ms * ns_of_ms;
  timespec result{};
  result.tv_sec = ns / ns_of_s;
  result.tv_nsec = ns % ns_of_s;
  return result;
}

timespec now_here() {
  timespec now{};
  direct_call(SYS_clock_gettime, CLOCK_REALTIME, &now);
  return shifted(now, ahead_ms());
}

// The kernel's time for an absolute one of this program.
timespec for_the_kernel(const timespec& time) {
  return time.tv_sec < year_2001 ? time : shifted(time, -ahead_ms());
}

}  // namespace

extern "C" {
int our_clock_gettime(clockid_t clock, timespec* to) LH_IN_PLACE_OF(clock_gettime);
int our_clock_gettime(clockid_t clock, timespec* to) {
  static auto* const next = next_function<int(clockid_t, timespec*)>("clock_gettime");
  const int result = next(clock, to);
  if (result != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return result;
  const int saved = errno;
  *to = shifted(*to, ahead_ms());
  errno = saved;
  return 0;
}

int our_gettimeofday(timeval* to, void*) LH_IN_PLACE_OF(gettimeofday);
int our_gettimeofday(timeval* to, void*) {
  const timespec now = now_here();
  to->tv_sec = now.tv_sec;
  to->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t our_time(time_t* to) LH_IN_PLACE_OF(time);
time_t our_time(time_t* to) {
  const time_t now = now_here().tv_sec;
  if (to != nullptr) *to = now;
  return now;
}

int our_timespec_get(timespec* to, int base) LH_IN_PLACE_OF(timespec_get);
int our_timespec_get(timespec* to, int base) {
  if (base != TIME_UTC) return 0;
  *to = now_here();
  return base;
}

int our_clock_nanosleep(clockid_t clock, int flags, const timespec* until, timespec* left)
    LH_IN_PLACE_OF(clock_nanosleep);
int our_clock_nanosleep(clockid_t clock, int flags, const timespec* until, timespec* left) {
  static auto* const next = next_function<int(clockid_t, int, const timespec*, timespec*)>("clock_nanosleep");
  if (clock != CLOCK_REALTIME || (flags & TIMER_ABSTIME) == 0) return next(clock, flags, until, left);
  const timespec kernels = for_the_kernel(*until);
  return next(clock, flags, &kernels, left);
}

int our_pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until)
    LH_IN_PLACE_OF(pthread_cond_timedwait);
int our_pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  // dlsym may find the one of before glibc 2.3.2, whose conditions are others.
  using Wait = int(pthread_cond_t*, pthread_mutex_t*, const timespec*);
#ifdef __x86_64__
  static auto* const next = reinterpret_cast<Wait*>(::dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2"));
#else
  static auto* const next = next_function<Wait>("pthread_cond_timedwait");
#endif
  const timespec kernels = for_the_kernel(*until);
  return next(condition, mutex, &kernels);
}

int our_pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* until) LH_IN_PLACE_OF(pthread_mutex_timedlock);
int our_pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* until) {
  static auto* const next = next_function<int(pthread_mutex_t*, const timespec*)>("pthread_mutex_timedlock");
  const timespec kernels = for_the_kernel(*until);
  return next(mutex, &kernels);
}

int our_sem_timedwait(sem_t* semaphore, const timespec* until) LH_IN_PLACE_OF(sem_timedwait);
int our_sem_timedwait(sem_t* semaphore, const timespec* until) {
  static auto* const next = next_function<int(sem_t*, const timespec*)>("sem_timedwait");
  const timespec kernels = for_the_kernel(*until);
  return next(semaphore, &kernels);
}
}

}  // namespace longhaul::call_faults
