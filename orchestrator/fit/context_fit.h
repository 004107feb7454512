// Whether prompts and answers fit the longest sequence of the model that a stage takes. Pure.
#pragma once

#include "orchestrator/fit/fit_case.h"
#include "orchestrator/fit/fit_report.h"

namespace longhaul {

// Of models whose shape the plan knows. How many tokens a text has is known when there is a tokenizer; a word is one at
// least, for no token reaches over a blank into a second word. By that alone what cannot fit is refused; by four bytes
// a token, what may not fit is a warning. Answers of a `deploy` stage's own prompts, and continuations of an `evaluate`
// stage, end where the context does.
void check_context_fit(const FitCase& fit, FitFindings& report);

}  // namespace longhaul
