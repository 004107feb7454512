#include "contracts/events/event_texts.h"

namespace longhaul {
namespace {

constexpr const char* program = "the program's first rank";
constexpr const char* lead = "the lead of the job";

// Of everything that a lead warns of, as far as it is known.
constexpr const char* warned = "class, launch, rank_of, host, step, since_step, slowdown, text";

constexpr EventText texts[] = {
    {"progress", "done, total, unit, rate, eta_s", program, "long work is so far; rate in units per second"},
    {"metric", "step, and any of loss, lr, grad_norm, tokens_per_s, heldout_loss, ...", program,
     "the figures of a step (docs/reference/figures.md)"},
    {"figure", "name, value, unit", program, "a key figure of the stage; of several with one name the last counts"},
    {"preparing", "what", program, "something is computed before the first step"},
    {"not_limited", "what", program,
     "programs that the model wrote run without this limit, which the kernel does not give"},
    {"ready", "step, load_s; after a fault also from, epoch", program,
     "model and data are loaded, or ranks go on after a fault; step + 1 begins"},
    {"memory", "of_rank, planned_bytes, held_bytes, planned, held, ranks", program,
     "what the training was planned to hold in memory and what it holds, of the rank that is farthest from its plan"},
    {"attention", "of, by, reason", program, "which way attention of this kind is computed on the GPU, and why"},
    {"phase", "name, step, last_step, sequence_length", program, "a phase of the training begins with that step"},
    {"checkpoint", "step, path, bytes, stall_s, write_s, asynchronous, direct_io, waited_s", program,
     "a checkpoint is whole; the training stood still for stall_s, of it waited_s for the one before"},
    {"read_back", "step, path, bytes, read_s, damage", program,
     "a checkpoint was read again; damage says what of it is not as it was written"},
    {"local_copy", "step, path, stall_s, write_s", program, "a copy of the state on the nodes is whole on all ranks"},
    {"low_precision", "step, low_precision_layers, products, layers", program,
     "what the arithmetic of each layer was measured to lose, and the verdict (docs/precision.md)"},
    {"kernels", "step, compute_s, communication_s, longest", program,
     "how the first rank's GPU spent its time since the last such event"},
    {"milestone", "step, path, bytes, stall_s", program, "a model was published while the training goes on"},
    {"sample", "prompt, text", program, "a text that the report shows"},
    {"message", "level, text", program, "something for people to read"},
    {"endpoint", "url, token_file, pid", program, "a server was left running"},
    {"spike", "step, loss, grad_norm, action, problem", program,
     "the loss of a step was bad: its update was left out (skip), or the training goes back (rollback)"},
    {"rolled_back", "step, to_step, lost_steps, samples_left_out, total_s, load_s", program,
     "after a spike of the loss all ranks are back at an earlier step"},
    {"stopped", "step, why, saved", program,
     "the training ends before its last step: somebody asked (why = asked), or its time is up (why = time)"},
    {"faulted", "code, what", "the rank", "a fault that the rank survived; it waits for an order"},
    {"launched", "launch, ranks, host, hosts, layout, spares, steps", lead, "the ranks of a launch were started"},
    {"ranks_ended", "launch, status, step", lead, "all ranks of a launch have ended"},
    {"published", "digest, files", lead, "the artifact is whole and at its place"},
    {"taken_over", "launch, epoch, host", lead, "another lead has followed one that was lost"},
    {"preflight", "waited_s, left, unfit, slow, not_looked_at, figures", lead,
     "the first launch waited for the checks of its nodes; with preflight_floor, how fast each node is"},
    {"order", "id, order, done, text", lead, "what became of an order to the training (longhaul tell)"},
    {"checkpoint_interval", "steps, interval_s, stall_s, mtbf_s", lead,
     "checkpoints are taken in another interval, by what one costs and how often faults come"},
    {"allocation_held", "held_s, gpu_minutes, gpus, gave_back_s, left", lead,
     "how long the job held its nodes: its last"},
    {"health", "host, class, severity, scope, device, what, xid", lead, "something is wrong with a node"},
    {"hang_suspected", "launch, rank_of, section, idle_s, text", lead,
     "a rank stands still longer than is usual; nobody was ended for it"},
    {"straggler", warned, lead, "a rank became slow; rank_of -1: all did"},
    {"straggler_over", warned, lead, "that rank is as fast as the others again"},
    {"loss_nan", warned, lead, "a loss is no number"},
    {"loss_spike", warned, lead, "a loss is far above the last ones"},
    {"loss_spike_over", warned, lead, "the loss is back, or has a new level"},
    {"no_progress", warned, lead, "ranks beat, and no step was completed for longer than is usual"},
    {"grow_back", warned, lead,
     "nodes that a training had shrunk for are back: its ranks save, end and start with more replicas"},
    {"desynchronised", warned, lead, "ranks wait for each other in different collectives"},
    {"timeouts", warned, lead, "two timeouts contradict each other, by what is learned, measured or granted"},
    {"goodput_floor", warned, lead,
     "little of the last two hours was training, for restarts of one host or cause: it was left for it"},
    {"ranks_stay", warned, lead, "ranks that were killed do not go away: they are waited for"},
    {"gpus_not_watched", warned, lead, "the checks of some hosts see fewer GPUs than the job has there"},
    {"gpus_not_watched_over", warned, lead, "the checks see all GPUs of the job again"},
    {"no_agents", warned, lead, "no agent has come: ranks are started without, and less is known of them"},
    {"no_agents_over", warned, lead, "ranks are started with agents again"},
    {"first_node", warned, lead,
     "the steps of this job are made by its first node (Slurm's stepmgr): it ends with that one"},
    {"agent_lost", warned, lead, "the agent of a host has ended, and its ranks go on"},
    {"agent_lost_over", warned, lead, "another agent reports from that host"},
    {"injected", "fault, rank, host, device, xid, step, launch, means, id", lead,
     "a fault of a test, before it happens"},
    {"fault",
     "launch, class, scope, severity, rank, host, step, section, cause, fingerprint, tier, next, reason, detect_s",
     lead, "a fault, with its class (docs/reference/faults.md), its culprit and what is done about it"},
    {"recovered", "launch, detect_s, stop_s, teardown_s, queue_s, start_s, load_s, first_step_s, total_s, lost_steps",
     lead, "the training goes on after a fault, and where the time until then went"},
};

}  // namespace

std::span<const EventText> event_texts() {
  return texts;
}

}  // namespace longhaul
