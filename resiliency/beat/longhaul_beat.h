/* The heartbeat page as plain C, for any program that runs as a stage: one 4 KiB file, mapped, whose writer says what
 * it is doing and whose reader (the worker) watches it. Writing is a store or two: call it as often as you like.
 *
 *   struct longhaul_beat* beat = longhaul_beat_open(getenv("LONGHAUL_BEAT"), rank);
 *   int forward = longhaul_beat_section(beat, "forward");
 *   longhaul_beat_enter(beat, forward);  longhaul_beat_step(beat, step);
 *
 * Every function takes NULL and then does nothing, so a program also runs where nobody watches. One writing thread per
 * page, except the counters of communicators, which any thread may add to. */
#ifndef LONGHAUL_BEAT_H
#define LONGHAUL_BEAT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct longhaul_beat;

/* Maps the page at `path`, creating it if needed; NULL if path is NULL or "", or on an error (errno says which). */
struct longhaul_beat* longhaul_beat_open(const char* path, int rank);
void longhaul_beat_close(struct longhaul_beat* beat);

/* Names a section (at most 31 names of at most 31 bytes); the id to enter it with, 0 ("start") when there is no room.
 */
int longhaul_beat_section(struct longhaul_beat* beat, const char* name);
void longhaul_beat_enter(struct longhaul_beat* beat, int section);
void longhaul_beat_step(struct longhaul_beat* beat, int64_t step);
/* The epoch of the communicators; grows with every rebuild. */
void longhaul_beat_epoch(struct longhaul_beat* beat, int64_t epoch);

/* Names a communicator (at most 16); -1 when there is no room. Ranks that give the same name are its members: where a
 * kind of group exists several times call them "dp@0", "dp@1" and so on, after the lowest rank in each. Then: one
 * collective enqueued, one completed. */
int longhaul_beat_communicator(struct longhaul_beat* beat, const char* name);
void longhaul_beat_enqueued(struct longhaul_beat* beat, int communicator);
void longhaul_beat_completed(struct longhaul_beat* beat, int communicator);
/* This rank now waits in a communicator (-1: it no longer waits) for all members, or for the one rank `peer` where
 * that is not -1. Optional; who says it helps to name the rank that others wait for. Then also: the wait was polled. */
void longhaul_beat_waits(struct longhaul_beat* beat, int communicator, int peer);
void longhaul_beat_polled(struct longhaul_beat* beat);

/* Orders back. The number of checkpoints ordered so far: save one when it grew. The step to stop after, -1: none. */
int64_t longhaul_beat_checkpoint_orders(const struct longhaul_beat* beat);
int64_t longhaul_beat_stop_after(const struct longhaul_beat* beat);
/* New values of settings: steps between checkpoints and the peak of the learning rate; 0: as configured. */
int64_t longhaul_beat_checkpoint_interval(const struct longhaul_beat* beat);
double longhaul_beat_learning_rate(const struct longhaul_beat* beat);
/* The number of orders so far. Read it before the values above, act, and then say that they were obeyed: whoever gave
 * the order learns of it. */
int64_t longhaul_beat_orders(const struct longhaul_beat* beat);
void longhaul_beat_obeyed(struct longhaul_beat* beat, int64_t orders);

#ifdef __cplusplus
}
#endif
#endif
